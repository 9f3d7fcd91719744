"""A Python number that depends on a tensor: it keeps Python's arithmetic inside of a program.

Line by line `i` in `i = i + 1` is an int and takes the dtype of the tensor that it meets. So does a
`Number`: int64, float64 or bool among numbers, cast where it meets a tensor. Where Python raises,
as for 1 / 0, or needs longer ints, a program continues with the results of those dtypes.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from opstep import _core, ops
from opstep.convert.user_errors import error_here
from opstep.operators import Operators
from opstep.variable import Variable

BOOL, INT, FLOAT = (_core.dtype_name(kind) for kind in (np.bool_, np.int64, np.float64))
_ORDER = (BOOL, INT, FLOAT)


class Number(Variable):
    """A variable without dimensions that stands for a Python number."""

    __slots__ = ()

    @classmethod
    def of(cls, variable: Variable) -> Number:
        return cls(variable.block, variable.name)

    def tensor(self) -> Variable:
        """The number as an ordinary variable."""
        return Variable(self.block, self.name)

    def _not_known(self) -> NoReturn:
        raise error_here(
            f"'{self.name}' is a number that is known only when the program runs, but here Python "
            "needs it now: use a tensor and ops instead"
        )

    def __float__(self) -> float:
        self._not_known()

    def __int__(self) -> int:
        self._not_known()

    def __index__(self) -> int:
        self._not_known()

    def item(self) -> Number:
        return self

    def __eq__(self, other: object) -> bool:
        # Converted code compares with `branches.compare`; this is Python's own, as in a `case`.
        if is_number(other):
            self._not_known()
        return self is other

    def __hash__(self) -> int:
        self._not_known()  # as the key of a dict

    def __round__(self, digits: Any = None) -> Number:
        if digits is not None:
            raise error_here(
                "round() to a number of digits does not work on a number that is known only when "
                "the program runs: round the program's result, outside"
            )
        return self if self.dtype == INT else to_number(ops.round(cast(self, FLOAT)), INT)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self


def is_number(value: Any) -> bool:
    """A Python number or one of NumPy's."""
    return isinstance(value, int | float | np.bool_ | np.integer | np.floating)


def dtype_of(number: Any) -> str:
    if isinstance(number, Number):
        return number.dtype
    if isinstance(number, bool | np.bool_):
        return BOOL
    return INT if isinstance(number, int | np.integer) else FLOAT


def wider(*dtypes: str) -> str:
    """The dtype of the result in Python's arithmetic."""
    return max(dtypes, key=_ORDER.index)


def cast(number: Any, dtype: str) -> Variable:
    """The number as a tensor of that dtype."""
    if isinstance(number, Number):
        plain = number.tensor()
        return plain if number.dtype == dtype else ops.cast(plain, to=dtype)
    return ops.fill(shape=[], dtype=dtype, value=number)


def to_number(x: Variable, dtype: str | None = None) -> Number:
    """The result of float(x), int(x), bool(x) or x.item() in a program."""
    plain = given = x.tensor() if isinstance(x, Number) else x
    if any(size not in (1, None) for size in plain.shape):
        sizes = list(plain.shape)
        raise error_here(
            f"a tensor of shape {sizes} is not one number; take its mean, sum or one of its "
            "elements"
        )
    if plain.shape:
        plain = ops.reshape(plain, shape=[])
    if dtype is None:
        dtype = plain.dtype if plain.dtype == BOOL else INT
        dtype = FLOAT if plain.dtype.startswith(("float", "bfloat")) else dtype
    if dtype == BOOL and plain.dtype != BOOL:
        return Number.of(ops.not_equal(plain, 0))
    if plain.dtype != dtype:
        plain = ops.cast(plain, to=dtype)
    if plain.dtype == FLOAT and not isinstance(x, Number):
        # Python's numbers take no part in gradients.
        plain = ops.assign(plain) if plain is given else plain
        plain.stop_gradient = True
    return Number.of(plain)


def meet(number: Number, tensor: Variable) -> Variable:
    """The number in the dtype of a tensor beside it."""
    whole = not tensor.dtype.startswith(("float", "bfloat"))
    if whole and number.dtype == FLOAT:
        raise error_here(
            f"'{number.name}' is a float, which '{tensor.name}' of dtype {tensor.dtype} cannot "
            "meet; cast the tensor to float32 first"
        )
    return cast(number, tensor.dtype)


_DIVISION = ("__truediv__", "__rtruediv__")
_COMPARISONS = ("__lt__", "__le__", "__gt__", "__ge__")
_PLAIN = ("__add__", "__sub__", "__mul__", "__floordiv__", "__mod__", "__pow__")
_ARITHMETIC = (*_PLAIN, *(f"__r{name[2:]}" for name in _PLAIN))
_LOGIC = [f"__{turned}{name}__" for name in ("and", "or", "xor") for turned in ("", "r")]


def _binary(name: str) -> Any:
    plain = getattr(Operators, name)

    def operate(self: Number, other: Any) -> Any:
        if isinstance(other, Variable) and not isinstance(other, Number):
            return plain(meet(self, other), other)
        if not isinstance(other, Number) and not is_number(other):
            return NotImplemented
        dtype = wider(dtype_of(self), dtype_of(other))
        if name in _DIVISION:
            dtype = FLOAT
        elif name not in _LOGIC:
            dtype = wider(dtype, INT)
        elif dtype != BOOL:
            _no_bits()
        if dtype == FLOAT and name in ("__floordiv__", "__rfloordiv__"):
            x, y = cast(self, dtype), cast(other, dtype)
            return Number.of(_floor_div(*((x, y) if name == "__floordiv__" else (y, x))))
        return Number.of(plain(cast(self, dtype), cast(other, dtype)))

    operate.__name__ = name
    return operate


def _floor_div(x: Variable, y: Variable) -> Variable:
    """Like Python's floats: 1.0 // 0.1 is 9.0, though 1.0 / 0.1 is 10.0."""
    return ops.round(ops.div(ops.sub(x, ops.mod(x, y)), y))


def _no_bits(*_: Any) -> Any:
    raise error_here(
        "programs have no ops on the bits of a number that is known only when they run: use '*', "
        "'//' and '%' instead of shifts and masks"
    )


def _unary(name: str) -> Any:
    plain = getattr(Operators, name)

    def operate(self: Number) -> Number:
        if name == "__invert__" and self.dtype == INT:
            return -1 - self  # type: ignore[no-any-return]
        dtype = self.dtype if name == "__invert__" else wider(self.dtype, INT)
        return Number.of(plain(cast(self, dtype)))

    operate.__name__ = name
    return operate


for _name in (*_ARITHMETIC, *_DIVISION, *_COMPARISONS, *_LOGIC):
    setattr(Number, _name, _binary(_name))
for _name in ("__neg__", "__abs__", "__invert__"):
    setattr(Number, _name, _unary(_name))
for _name in ("__lshift__", "__rlshift__", "__rshift__", "__rrshift__"):
    setattr(Number, _name, _no_bits)
