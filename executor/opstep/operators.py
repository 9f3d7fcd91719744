"""Python's operators on what ops read and write: a program's variables and runtime values."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, Union

import numpy as np

from opstep.errors import error
from opstep.foreign_names import hint as hint_of, with_hints

# Operands that can be combined with a variable in an expression.
Operand = Union["Operators", int, float, bool]
Axis = int | Sequence[int] | None
# NumPy's functions that are operators, which it calls for `array + variable`.
_OPERATORS = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.power: operator.pow,
    np.matmul: operator.matmul,
    np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
}
# Each comparison with its sides exchanged.
_REFLECTED = {"lt": "__gt__", "le": "__ge__", "gt": "__lt__", "ge": "__le__"}


class Operators:
    """Each operator is an op of the registry; `==` and `!=` compare identity: see ops.equal."""

    __slots__ = ()

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **how: Any) -> Any:
        """NumPy leaves `array + variable` to these operators, which say what is wrong."""
        if function in (np.equal, np.not_equal):
            return (inputs[0] is inputs[1]) == (function is np.equal)
        done = _OPERATORS.get(function)
        in_place = how.keys() == {"out"} and how["out"][0] is inputs[0]
        if done is None or method != "__call__" or (how and not in_place):
            raise error(
                f"np.{function.__name__} takes arrays, not what ops read and write: use a function "
                "of opstep.ops in its place, or give it the array, x.numpy() or a fetched one"
            )
        one, other = inputs
        if isinstance(one, Operators):
            return done(one, other)
        name = done.__name__.strip("_")
        return getattr(other, _REFLECTED.get(name, f"__r{name}__"))(one)

    if not TYPE_CHECKING:  # Type checkers would take every name for an attribute.

        def __getattr__(self, name: str) -> NoReturn:
            hint = hint_of(name)
            if not hint and name in _ops().__dir__():
                hint = f"; write ops.{name}(x, ...)"
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{hint}")

    def __add__(self, other: Operand) -> Any:
        return _ops().add(self, other)

    def __radd__(self, other: Operand) -> Any:
        return _ops().add(other, self)

    def __sub__(self, other: Operand) -> Any:
        return _ops().sub(self, other)

    def __rsub__(self, other: Operand) -> Any:
        return _ops().sub(other, self)

    def __mul__(self, other: Operand) -> Any:
        return _ops().mul(self, other)

    def __rmul__(self, other: Operand) -> Any:
        return _ops().mul(other, self)

    def __truediv__(self, other: Operand) -> Any:
        return _ops().div(self, other)

    def __rtruediv__(self, other: Operand) -> Any:
        return _ops().div(other, self)

    def __floordiv__(self, other: Operand) -> Any:
        return _floor_div(self, other)

    def __rfloordiv__(self, other: Operand) -> Any:
        return _floor_div(other, self)

    def __mod__(self, other: Operand) -> Any:
        return _ops().mod(self, other)

    def __rmod__(self, other: Operand) -> Any:
        return _ops().mod(other, self)

    def __pow__(self, other: Operand) -> Any:
        return _ops().pow(self, other)

    def __rpow__(self, other: Operand) -> Any:
        return _ops().pow(other, self)

    def __matmul__(self, other: Any) -> Any:
        return _ops().matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _ops().matmul(other, self)

    def __neg__(self) -> Any:
        return _ops().neg(self)

    def __abs__(self) -> Any:
        return _ops().abs(self)

    def __and__(self, other: Operand) -> Any:
        return _ops().logical_and(self, other)

    def __rand__(self, other: Operand) -> Any:
        return _ops().logical_and(other, self)

    def __or__(self, other: Operand) -> Any:
        return _ops().logical_or(self, other)

    def __ror__(self, other: Operand) -> Any:
        return _ops().logical_or(other, self)

    def __xor__(self, other: Operand) -> Any:
        return _ops().logical_xor(self, other)

    def __rxor__(self, other: Operand) -> Any:
        return _ops().logical_xor(other, self)

    def __invert__(self) -> Any:
        return _ops().logical_not(self)

    def __lt__(self, other: Operand) -> Any:
        return _ops().less(self, other)

    def __le__(self, other: Operand) -> Any:
        return _ops().less_or_equal(self, other)

    def __gt__(self, other: Operand) -> Any:
        return _ops().greater(self, other)

    def __ge__(self, other: Operand) -> Any:
        return _ops().greater_or_equal(self, other)

    def __getitem__(self, key: Any) -> Any:
        from opstep.indexes import index

        return index(self, key)

    @property
    def T(self) -> Any:
        """With the axes in reverse order."""
        return _ops().transpose(self)

    def astype(self, dtype: Any) -> Any:
        """The same values in another dtype."""
        return _ops().cast(self, to=dtype)

    def reshape(self, *shape: Any) -> Any:
        """The same elements as x.reshape(2, -1) or x.reshape([2, -1])."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
        return _ops().reshape(self, shape=sizes)

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)  # type: ignore[attr-defined]

    def view(self, *shape: Any) -> Any:
        """PyTorch's name for `reshape`."""
        if len(shape) == 1 and not isinstance(shape[0], int | list | tuple):
            raise error("view takes sizes: for another dtype say astype")
        return self.reshape(*shape)

    @with_hints
    def flatten(self, start_dim: int = 0) -> Any:
        """The dimensions from start_dim on as one."""
        if not 0 <= start_dim <= max(self.ndim - 1, 0):
            raise error(f"flatten({start_dim}) needs a dimension from 0 to {self.ndim - 1}")
        return _ops().reshape(self, shape=[0] * start_dim + [-1])

    def transpose(self, *axes: Any) -> Any:
        """With the axes in reverse order, in the given order, or with two of them exchanged."""
        order = (
            list(axes[0]) if len(axes) == 1 and isinstance(axes[0], list | tuple) else list(axes)
        )
        rank = self.ndim
        if order == [0, 1] and rank == 2:
            raise error(
                "transpose(0, 1) leaves NumPy's axes as they are and exchanges PyTorch's: say "
                "transpose() or .T to exchange them"
            )
        if len(order) == 2 and rank > 2:
            one, other = (axis + rank if axis < 0 else axis for axis in order)
            order = list(range(rank))
            if not (0 <= one < rank and 0 <= other < rank):
                raise error(f"there are no axes {axes} in {rank} dimensions")
            order[one], order[other] = other, one
        return _ops().transpose(self, perm=order) if order else _ops().transpose(self)

    @with_hints
    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """The index of the largest element, of all or along an axis."""
        x, along = (self.flatten(), 0) if axis is None else (self, axis)
        return _ops().arg_max(x, axis=along, keepdims=keepdims)

    @with_hints
    def std(self, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> Any:
        """The standard deviation as in NumPy; PyTorch's is that with ddof=1."""
        ops = _ops()
        away = ops.sub(self, ops.reduce_mean(self, axes=axis, keepdims=True))
        squares = ops.mul(away, away)
        if not ddof:
            return ops.sqrt(ops.reduce_mean(squares, axes=axis, keepdims=keepdims))
        count = ops.div(
            ops.reduce_sum(ops.add(ops.mul(squares, 0.0), 1.0), axes=axis, keepdims=keepdims), 1.0
        )
        total = ops.reduce_sum(squares, axes=axis, keepdims=keepdims)
        return ops.sqrt(ops.div(total, ops.sub(count, float(ddof))))

    @with_hints
    def sum(self, axis: Axis = None, keepdims: bool = False) -> Any:
        return _ops().reduce_sum(self, axes=axis, keepdims=keepdims)

    @with_hints
    def mean(self, axis: Axis = None, keepdims: bool = False) -> Any:
        return _ops().reduce_mean(self, axes=axis, keepdims=keepdims)

    @with_hints
    def max(self, axis: Axis = None, keepdims: bool = False) -> Any:
        return _ops().reduce_max(self, axes=axis, keepdims=keepdims)

    @with_hints
    def min(self, axis: Axis = None, keepdims: bool = False) -> Any:
        return _ops().reduce_min(self, axes=axis, keepdims=keepdims)


def _floor_div(x: Any, y: Any) -> Any:
    ops = _ops()
    like = x if isinstance(x, Operators) else y
    if like.dtype.startswith(("float", "bfloat")):
        return ops.floor(ops.div(x, y))
    # Integers are divided towards 0; without the remainder, which has the divisor's sign, exactly.
    return ops.div(ops.sub(x, ops.mod(x, y)), y)


@cache
def _ops() -> Any:
    # opstep.ops needs this module.
    from opstep import ops

    return ops
