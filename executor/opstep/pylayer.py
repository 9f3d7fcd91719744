"""`PyLayer`: an op written in NumPy, for programs and for imperative mode."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opstep import _core, context, ops
from opstep._core import Error
from opstep.operators import Operators
from opstep.variable import Variable

Shape = tuple[int | None, ...]

_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep


@dataclass(frozen=True)
class TensorType:
    """The type of an input or a result, known before there are values."""

    shape: Shape
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join('?' if n is None else str(n) for n in self.shape)}]"


class PyLayerContext:
    """The first argument of `forward` and `backward`."""

    __slots__ = ("inputs", "options", "outputs", "wanted")

    def __init__(
        self,
        options: dict[str, Any],
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray] = (),
        wanted: Sequence[bool] = (),
    ) -> None:
        for name, value in (
            ("options", options),
            ("inputs", tuple(inputs)),
            ("outputs", tuple(outputs)),
            ("wanted", tuple(wanted)),
        ):
            object.__setattr__(self, name, value)

    options: dict[str, Any]
    """The named arguments of `apply`."""
    inputs: tuple[np.ndarray, ...]
    """The inputs of `forward`."""
    outputs: tuple[np.ndarray, ...]
    """In `backward`, the results of `forward`."""
    wanted: tuple[bool, ...]
    """In `backward`, for each input: is its gradient wanted?"""

    def save_for_backward(self, *_: Any) -> None:
        """Not needed: the executor keeps everything that `backward` reads."""
        raise _keeps_nothing()

    def __setattr__(self, name: str, value: Any) -> None:
        raise _keeps_nothing()


def _keeps_nothing() -> Error:
    return Error(
        "the context keeps nothing from forward to backward: backward has ctx.inputs, ctx.outputs "
        "and ctx.options; add anything else it needs to the results of forward"
    )


class PyLayer:
    """An op whose forward and backward are functions of NumPy arrays.

    class Scale(opstep.PyLayer):
        @staticmethod
        def forward(ctx, x, factor):
            return x * x.dtype.type(factor)

        @staticmethod
        def backward(ctx, dout):
            return dout * dout.dtype.type(ctx.options["factor"])

    y = Scale.apply(x, factor=3.0)

    In imperative mode it runs at once and is on the tape; in a program it is an op, `py_layer`,
    that calls back. The arrays are copies, so they may be kept or written into. A saved program
    finds the class by its module and name, or by `class Scale(PyLayer, name=...)`, once its module
    has been imported; a program file never causes an import.
    """

    _layer_name: str

    def __init_subclass__(cls, name: str | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        cls._layer_name = _register(cls, name or f"{cls.__module__}.{cls.__qualname__}")

    @staticmethod
    def forward(ctx: PyLayerContext, *inputs: np.ndarray, **options: Any) -> Any:
        """The result, or a tuple of results, with the shapes and dtypes that `shapes` says."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx: PyLayerContext, *gradients: np.ndarray) -> Any:
        """From the gradients of the results (zeros where there is none), the gradient of the input,
        or a tuple with one for each input; None means zeros, as for inputs without a gradient.
        """
        raise NotImplementedError

    @staticmethod
    def shapes(*inputs: TensorType, **options: Any) -> Any:
        """The types of `forward`'s results, before there are values: for one result a shape, a pair
        of shape and dtype, or an input of the same type; for several a list of those. Sizes that
        are known only at run time are None. A shape alone has the first input's dtype.
        """
        return inputs[0]

    def __call__(self, *inputs: Any, name: str | None = None, **options: Any) -> Any:
        """The same as `apply`."""
        return self.apply(*inputs, name=name, **options)

    @classmethod
    def apply(cls, *inputs: Any, name: str | None = None, **options: Any) -> Any:
        """The results for runtime values, or in a program for variables. `options` are numbers,
        texts and lists of those; `name` names the op."""
        _pinned[cls._layer_name] = cls
        text = _to_json(cls, options)
        first = next((x for x in inputs if isinstance(x, Operators)), None)
        if first is None:
            raise _error(cls, "apply takes at least one variable or runtime value")
        types = [_type_of(x, first) for x in inputs]
        results, many = _results(cls, types, json.loads(text))
        name = _op_name(cls, first, name)
        made = ops.py_layer._append(
            {"X": list(inputs)},
            {"out": [f"{name}.out_{i}" if many else f"{name}.out" for i in range(len(results))]},
            {"layer": cls._layer_name, "options": text},
            name,
        )
        return made if many else made[0]


def _op_name(cls: type[PyLayer], first: Any, name: str | None) -> str:
    kind = cls.__name__.lower()
    if isinstance(first, Variable) and not context.imperative():
        return context.scoped(name) if name else first.program.unique_name(kind)
    return context.scoped(name or kind)


def _type_of(value: Any, like: Any) -> TensorType:
    """A number becomes a constant like the first variable."""
    if isinstance(value, Operators):
        return TensorType(tuple(value.shape), value.dtype)
    return TensorType((), like.dtype)


def _to_json(cls: type[PyLayer], options: dict[str, Any]) -> str:
    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError

    for key, value in options.items():
        try:
            json.dumps(value, default=plain)
        except (TypeError, ValueError):
            kind = type(value).__name__
            raise _error(
                cls,
                f"'{key}' is a {kind}: options are numbers, texts and lists of those; arrays and "
                "variables are given without a name",
            ) from None
    return json.dumps(options, default=plain)


def _error(cls: type[PyLayer], what: str) -> Error:
    stack = _core.user_stack()
    where = f" ({stack[0][0].rsplit('/', 1)[-1]}:{stack[0][1]})" if stack else ""
    return Error(f"[{cls.__name__}] {what}{where}")


# --- the class that a program names

_layers: weakref.WeakValueDictionary[str, type[PyLayer]] = weakref.WeakValueDictionary()
_counts: dict[str, int] = {}
# Keeps applied classes alive: a program or a tape needs them.
_pinned: dict[str, type[PyLayer]] = {}


def _register(cls: type[PyLayer], name: str) -> str:
    """A unique name for a class: one that is defined again, as in a notebook, gets a new one."""
    count = _counts[name] = _counts.get(name, 0) + 1
    own = name if count == 1 else f"{name}#{count}"
    _layers[own] = cls
    return own


def _find(name: str) -> type[PyLayer]:
    found = _layers.get(name)
    base = name.partition("#")[0]
    for count in range(_counts.get(base, 0), 0, -1):
        if found is None:
            found = _layers.get(base if count == 1 else f"{base}#{count}")
    if found is None:
        raise Error(
            f"the layer is the class {base}, which this process does not have: import the module "
            "that defines it"
        )
    return found


# --- callbacks of the executor


class _Calls:
    def types(
        self, name: str, options: str, inputs: list[tuple[str, Shape]]
    ) -> list[tuple[str, Shape]]:
        types = [TensorType(tuple(shape), dtype) for dtype, shape in inputs]
        results, _ = _results(_find(name), types, json.loads(options))
        return [(result.dtype, result.shape) for result in results]

    def check_gradient(self, name: str) -> None:
        cls = _find(name)
        if cls.backward is PyLayer.backward:
            raise Error(
                f"{cls.__name__} has no backward, but a gradient through it is wanted: write one, "
                "or set stop_gradient of its result"
            )

    def forward(
        self,
        name: str,
        options: str,
        inputs: list[np.ndarray],
        types: list[tuple[str, Shape]],
    ) -> list[np.ndarray | None]:
        cls = _find(name)
        ctx = PyLayerContext(json.loads(options), inputs)
        given = _call(cls, "forward", cls.forward, ctx, *inputs, **ctx.options)
        expected: list[TensorType | None] = [TensorType(shape, dtype) for dtype, shape in types]
        return _checked(cls, "forward", given, expected)

    def backward(
        self,
        name: str,
        options: str,
        inputs: list[np.ndarray],
        outputs: list[np.ndarray],
        gradients: list[np.ndarray | None],
        types: list[tuple[str, Shape] | None],
    ) -> list[np.ndarray | None]:
        cls = _find(name)
        wanted = [each is not None for each in types]
        ctx = PyLayerContext(json.loads(options), inputs, outputs, wanted)
        full = [
            np.zeros_like(output) if gradient is None else gradient
            for output, gradient in zip(outputs, gradients, strict=True)
        ]
        given = _call(cls, "backward", cls.backward, ctx, *full)
        expected = [None if each is None else TensorType(each[1], each[0]) for each in types]
        return _checked(cls, "backward", given, expected)


_core.set_layer_calls(_Calls())


def _call(
    cls: type[PyLayer], what: str, function: Callable[..., Any], *args: Any, **options: Any
) -> Any:
    try:
        return function(*args, **options)
    except NotImplementedError as error:
        if getattr(PyLayer, what) is not function:
            raise _raised(cls, what, error) from error
        raise Error(f"{cls.__name__} has no {what}: write one") from None
    except Exception as error:
        raise _raised(cls, what, error) from error


def _raised(cls: type[PyLayer], what: str, error: Exception) -> Error:
    """The error with the innermost line that is not NumPy's."""
    place, trace = "", error.__traceback__
    trace = trace and trace.tb_next  # the first line is the call
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_NUMPY):
            place = f" at {os.path.basename(file)}:{trace.tb_lineno}"
        trace = trace.tb_next
    said = f": {error}" if str(error) else ""
    return Error(f"{cls.__name__}.{what} raised {type(error).__name__}{place}{said}")


def _checked(
    cls: type[PyLayer], what: str, given: Any, expected: list[TensorType | None]
) -> list[np.ndarray | None]:
    results = list(given) if isinstance(given, list | tuple) else [given]
    kind = "result" if what == "forward" else "gradient"
    if len(results) != len(expected):
        hint = (
            "say what it gives in shapes()"
            if what == "forward"
            else "give one for each input, None where there is none"
        )
        raise Error(
            f"{cls.__name__}.{what} gave {len(results)} {kind}{'s' * (len(results) != 1)} where "
            f"{len(expected)} {'was' if len(expected) == 1 else 'were'} expected: {hint}"
        )
    arrays: list[np.ndarray | None] = []
    for i, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        if wanted is None or (result is None and what == "backward"):
            arrays.append(None)
            continue
        array = np.asarray(result)
        if array.shape != wanted.shape or array.dtype.name != wanted.dtype:
            which = f" as {kind} {i}" if len(expected) > 1 else ""
            got = "None" if result is None else TensorType(array.shape, array.dtype.name)
            hint = "convert it, or say in shapes() what it gives"
            if what == "backward":
                hint = "a gradient has the shape and dtype of its input"
            raise Error(
                f"{cls.__name__}.{what} gave {got}{which} where {wanted} was expected: {hint}"
            )
        arrays.append(array)
    return arrays


# --- the result of shapes()


def _results(
    cls: type[PyLayer], inputs: list[TensorType], options: dict[str, Any]
) -> tuple[list[TensorType], bool]:
    """The types of the results, and whether they are several."""
    said = _call(cls, "shapes", cls.shapes, *inputs, **options)
    one = _as_type(said, inputs)
    if one is not None:
        return [one], False
    if isinstance(said, list | tuple) and said:
        several = [_as_type(item, inputs) for item in said]
        if all(several):
            return [each for each in several if each is not None], True
    raise Error(
        f"{cls.__name__}.shapes gave {said!r}: for each result of forward it gives a shape, a pair "
        "of shape and dtype, or one of its inputs"
    )


def _as_type(said: Any, inputs: list[TensorType]) -> TensorType | None:
    if hasattr(said, "shape") and hasattr(said, "dtype"):
        return TensorType(tuple(said.shape), _core.dtype_name(said.dtype))
    if not isinstance(said, list | tuple):
        return None
    if all(n is None or (isinstance(n, int | np.integer) and n >= -1) for n in said):
        shape = tuple(None if n is None or n < 0 else int(n) for n in said)
        return TensorType(shape, inputs[0].dtype)
    if len(said) == 2 and isinstance(said[1], str | type | np.dtype):
        sizes = _as_type(said[0], inputs) if isinstance(said[0], list | tuple) else None
        return None if sizes is None else TensorType(sizes.shape, _core.dtype_name(said[1]))
    return None
