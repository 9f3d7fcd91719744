"""`x[1, ::2, None, ...]`: slice, squeeze and unsqueeze ops for Python's indexes."""

from __future__ import annotations

import operator
from functools import cache
from typing import Any

import numpy as np

from opstep import _core, ops
from opstep._core import Error
from opstep.errors import error
from opstep.operators import Operators
from opstep.variable import Variable

_FAR = 2**63 - 1
# A slice of at most this many rows becomes a list of row numbers.
_FEW = 1024


def index(x: Any, key: Any) -> Any:
    """The value of `x[key]`, as in NumPy. A variable of integers takes rows."""
    if isinstance(key, Operators):
        if isinstance(key, Variable) != isinstance(x, Variable):
            raise _error(x, "a runtime value and a variable of a program do not go together")
        if not key.dtype.startswith("int"):
            raise _error(x, f"'{key.name}' is {key.dtype}; only integers are indexes")
        return ops.gather(x, key, axis=0)
    shape = x.shape
    if isinstance(x, _core.RuntimeValue) and x.stop_gradient and shape:
        rows = _rows(x, key, shape[0])
        if rows is not None:
            return ops.gather(x, rows, axis=0)
    keys = _expand(x, key if isinstance(key, tuple) else (key,))
    axes: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    gone: list[int] = []
    new: list[int] = []
    axis = place = 0  # in x and in the result
    for item in keys:
        if item is None:
            new.append(place)
            place += 1
            continue
        if isinstance(item, slice):
            start, end, step = _range(x, item)
            whole = (start, end, step) == (0, _FAR, 1)
            place += 1
        else:
            start, end, step, whole = *_one(x, item, axis, shape[axis]), 1, False
            gone.append(axis)
        if not whole:
            axes.append(axis)
            starts.append(start)
            ends.append(end)
            steps.append(step)
        axis += 1
    if axes:
        x = ops.slice(x, starts=starts, ends=ends, axes=axes, steps=steps)
    if gone:
        x = ops.squeeze(x, axes=gone)
    if new:
        x = ops.unsqueeze(x, axes=new)
    return x


def _rows(x: Any, key: Any, size: int) -> Any:
    """The rows of a runtime value that the key selects; None where a slice op does as well.

    An attribute is part of an op's plan: a changing index would need a new plan at each step. Where
    gradients flow the ops are those of a program, so that their bits are the same.
    """
    if type(key) is int:
        return _value_type()(_one(x, key, 0, size)[0] % size)
    if type(key) is slice and key.start is not None and key.step is None:
        start, end, _ = slice(*_range(x, key)).indices(size)
        if end - start <= _FEW:
            return _value_type()(np.arange(start, max(start, end)))
    return None


@cache
def _value_type() -> Any:
    # opstep.imperative needs this module.
    from opstep.imperative.value import Value

    return Value


def _expand(x: Any, keys: tuple[Any, ...]) -> list[Any]:
    """One key for each axis, and None for each new one."""
    dots = sum(1 for item in keys if item is Ellipsis)
    if dots > 1:
        raise _error(x, "'...' can be used only once")
    rank = len(x.shape)
    used = sum(1 for item in keys if item is not None and item is not Ellipsis)
    if used > rank:
        raise _error(x, f"there are {used} indexes but {rank} axes")
    rest = [slice(None)] * (rank - used)
    if not dots:
        return [*keys, *rest]
    at = next(i for i, item in enumerate(keys) if item is Ellipsis)
    return [*keys[:at], *rest, *keys[at + 1 :]]


def _range(x: Any, item: slice) -> tuple[int, int, int]:
    try:
        step = 1 if item.step is None else operator.index(item.step)
        start = (0 if step > 0 else _FAR) if item.start is None else operator.index(item.start)
        end = (_FAR if step > 0 else -_FAR) if item.stop is None else operator.index(item.stop)
    except TypeError:
        raise _error(x, "the ends and the step of a slice must be whole numbers") from None
    if step == 0:
        raise _error(x, "the step of a slice must not be 0")
    return start, end, step


def _one(x: Any, item: Any, axis: int, size: int | None) -> tuple[int, int]:
    if isinstance(item, bool):
        raise _error(x, "a bool is not an index")
    try:
        at = operator.index(item)
    except TypeError:
        raise _error(
            x,
            f"a {type(item).__name__} is not an index; whole numbers, slices, None and ... are",
        ) from None
    if size is not None and not -size <= at < size:
        raise _error(x, f"index {at} is outside axis {axis}, which has the size {size}")
    return at, at + 1 if at != -1 else _FAR


def _error(x: Any, what: str) -> Error:
    sizes = ", ".join("?" if size is None else str(size) for size in x.shape)
    return error(f"cannot index '{x.name}', which is [{sizes}]: {what}")
