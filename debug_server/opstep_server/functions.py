"""The functions of the expression language: the one table behind checking, help and completion."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Function:
    name: str
    # The least and the greatest number of positional arguments.
    least: int
    most: int
    usage: str
    doc: str
    keywords: tuple[str, ...] = ()


_REDUCE = ("axis", "keepdims")


def _reduction(name: str, doc: str) -> Function:
    return Function(name, 1, 2, f"{name}(x, axis=…)", doc, _REDUCE)


def _elementwise(name: str, doc: str) -> Function:
    return Function(name, 1, 1, f"{name}(x)", doc)


_ALL = (
    _reduction("any", "true when an element is not zero"),
    _reduction("all", "true when no element is zero"),
    _reduction("min", "the smallest element"),
    _reduction("max", "the largest element"),
    _reduction("mean", "the average"),
    _reduction("sum", "the sum"),
    _reduction("std", "the standard deviation"),
    _reduction("norm", "the square root of the sum of squares"),
    _reduction("argmax", "the position of the largest element"),
    _reduction("argmin", "the position of the smallest element"),
    _elementwise("isnan", "where x is NaN"),
    _elementwise("isinf", "where x is infinite"),
    _elementwise("isfinite", "where x is neither NaN nor infinite"),
    _elementwise("abs", "the magnitude"),
    _elementwise("sqrt", "the square root"),
    _elementwise("exp", "e to the power of x"),
    _elementwise("log", "the natural logarithm"),
    Function("where", 3, 3, "where(condition, a, b)", "a where the condition holds, otherwise b"),
    Function(
        "histogram",
        1,
        3,
        "histogram(x, bins=10)",
        "how many finite elements are in each of the bins from the smallest to the largest",
        ("bins", "range"),
    ),
    Function(
        "percentile",
        2,
        3,
        "percentile(x, 50, axis=…)",
        "the value below which that percentage of the elements is",
        ("q", *_REDUCE),
    ),
    Function(
        "quantile",
        2,
        3,
        "quantile(x, 0.5, axis=…)",
        "the value below which that fraction of the elements is",
        ("q", *_REDUCE),
    ),
    _reduction("median", "the middle element, or the average of the two"),
    Function("sort", 1, 2, "sort(x, axis=-1)", "the elements in ascending order", ("axis",)),
    Function(
        "topk",
        2,
        3,
        "topk(x, 3, axis=-1)",
        "the largest elements, and as [1] their positions",
        ("k", "axis"),
    ),
    Function(
        "round", 1, 2, "round(x, decimals=0)", "rounded, half to even as in NumPy", ("decimals",)
    ),
    Function(
        "reshape", 2, 9, "reshape(x, (2, -1))", "the same elements in another shape", ("shape",)
    ),
    _elementwise("len", "the size of the first axis"),
    _elementwise("int", "x, of one element, as a whole number"),
    _elementwise("float", "x, of one element, as a floating-point number"),
    _elementwise("bool", "x, of one element, as True or False"),
    _elementwise("shape", "the sizes of all axes; also x.shape"),
    _elementwise("size", "the number of elements; also x.size"),
    _elementwise("ndim", "the number of axes; also x.ndim"),
    _elementwise("dtype", "the type of the elements; also x.dtype"),
    Function("grad", 1, 1, "grad(w)", "the gradient of the variable w"),
    Function(
        "var",
        1,
        2,
        "var(x, axis=…)",
        'the variance; var("w@grad") is the variable of that name, whatever is in the name',
        _REDUCE,
    ),
)

FUNCTIONS: dict[str, Function] = {function.name: function for function in _ALL}

# Names that mean something in every frame.
SPECIAL_NAMES: dict[str, str] = {
    "step": "how often the program has run, from 1",
    "iteration": "the iteration of the enclosing block, from 0",
    "op": "the current op",
    "block": "the index of the current block",
}


def hidden_name_note(name: str, variable: str) -> str:
    """The note below a value whose name means another variable in Python."""
    what = "a word of expressions" if name in SPECIAL_NAMES else "a slot of the op"
    return f"'{name}' is {what} here; Python's {name} is var(\"{variable}\")"


def help_lines() -> list[str]:
    """The help text on expressions."""
    width = max(len(function.usage) for function in FUNCTIONS.values())
    return [
        "Python's syntax with NumPy's names: out.mean(), x[0, :4], isnan(out).any(), grad(w).",
        "Names are the op's slots and attributes, variables, which may have dots: fc_0.w, and what",
        "the Python code that called the run calls them: loss, self.loss. Other values of Python,",
        "such as its numbers and arrays, are not known here.",
        "Names of the place:",
        *(f"  {name:<{width}}  {doc}" for name, doc in SPECIAL_NAMES.items()),
        "Functions, which are methods too (max(x) is x.max()):",
        *(f"  {f.usage:<{width}}  {f.doc}" for f in FUNCTIONS.values()),
    ]
