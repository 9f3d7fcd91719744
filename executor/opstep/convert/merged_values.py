"""Values merged into one in a program: results of branches, values that loops carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from opstep import context, ops
from opstep.convert.number import BOOL, FLOAT, Number, cast, dtype_of, is_number, wider
from opstep.operators import Operators
from opstep.variable import Variable

Sizes = tuple[int | None, ...]


class Kind(NamedTuple):
    """The type of a value in a program."""

    dtype: str
    shape: Sizes
    # A Python number, which takes the dtype of what it meets.
    number: bool

    def __str__(self) -> str:
        if self.number:
            return f"a Python {'float' if self.dtype == FLOAT else self.dtype.rstrip('64')}"
        return f"{self.dtype}[{', '.join('?' if s is None else str(s) for s in self.shape)}]"


TRUTH = Kind(BOOL, (), True)


def kind_of(value: Any) -> Kind | None:
    """The kind of a value; None if no program can have it."""
    if isinstance(value, Number) or is_number(value):
        return Kind(dtype_of(value), (), True)
    if isinstance(value, Variable):
        return Kind(value.dtype, value.shape, False)
    return None


def unified(a: Kind, b: Kind) -> Kind | None:
    """The kind that both can have."""
    if a.number and b.number:
        return Kind(wider(a.dtype, b.dtype), (), True)
    if a.number or b.number:
        number, tensor = (a, b) if a.number else (b, a)
        whole = not tensor.dtype.startswith(("float", "bfloat"))
        if None in tensor.shape or (whole and number.dtype == FLOAT):
            return None
        return tensor
    if a.dtype != b.dtype or len(a.shape) != len(b.shape):
        return None
    sizes: list[int | None] = []
    for one, other in zip(a.shape, b.shape, strict=True):
        if None not in (one, other) and one != other:
            return None
        sizes.append(other if one is None else one)
    return Kind(a.dtype, tuple(sizes), False)


def made(value: Any, kind: Kind) -> Variable:
    """The value as a tensor of that kind, in the current block."""
    if isinstance(value, Variable) and not isinstance(value, Number):
        return value
    if not isinstance(value, Number):
        return ops.fill(shape=list(kind.shape), dtype=kind.dtype, value=value)
    plain = cast(value, kind.dtype)
    return ops.expand(plain, shape=list(kind.shape)) if kind.shape else plain


def placeholder(kind: Kind) -> Variable:
    """A value that nobody reads, in the current block."""
    return ops.fill(shape=[1 if s is None else s for s in kind.shape], dtype=kind.dtype, value=0)


def given(variable: Variable, kind: Kind) -> Variable:
    return Number.of(variable) if kind.number else variable


def as_variables(value: Any) -> Any:
    """Runtime values that converted code holds, as variables of the program."""
    lift = context._context.trace
    if lift is not None and isinstance(value, Operators) and not isinstance(value, Variable):
        return lift.variable(value)
    return value


def alike(a: Any, b: Any) -> bool:
    """Are they the same value for Python too?"""
    if a is b:
        return True
    if isinstance(a, Operators) or isinstance(b, Operators) or type(a) is not type(b):
        return False
    try:
        return bool(a == b)
    except Exception:
        return False


def text(value: Any) -> str:
    kind = kind_of(value)
    if kind is None:
        name = type(value).__name__
        if isinstance(value, str):
            return f"the str {value!r}" if len(value) < 30 else "a str"
        if isinstance(value, tuple | list | dict | set | np.ndarray):
            return f"a {name}"
        return "None" if value is None else f"an object of class {name}"
    return str(kind) if isinstance(value, Operators) else repr(value)


def same_structure(a: Any, b: Any) -> bool:
    if type(a) is not type(b) or not isinstance(a, tuple | list | dict) or len(a) != len(b):
        return False
    return not isinstance(a, dict) or list(a) == list(b)


def rebuilt(like: Any, parts: list[Any]) -> Any:
    """A tuple, list or dict like `like`, with other parts."""
    if isinstance(like, dict):
        return dict(zip(like, parts, strict=True))
    if hasattr(like, "_fields"):
        return type(like)(*parts)
    return type(like)(parts)


def parts_of(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value)


def mapped(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """The function's results for the leaves of equal structures, in that structure."""
    if isinstance(first, tuple | list | dict):
        columns = zip(parts_of(first), *map(parts_of, others), strict=True)
        return rebuilt(first, [mapped(function, *each) for each in columns])
    return function(first, *others)
