"""`Value`: a tensor that is there now, with the operators of a program's variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from opstep import _core, ops
from opstep._core import Error
from opstep.errors import error
from opstep.imperative import display
from opstep.imperative.mode import guard, no_grad
from opstep.operators import Operators
from opstep.variable import check_optimize_attr


class Value(_core.RuntimeValue, Operators):
    """A result of an op in imperative mode; make one with `to_variable`."""

    __slots__ = ()

    def __init__(self, array: Any, stop_gradient: bool = True, name: str = "") -> None:
        self._take(_array(array))
        if name:
            self._name = name
        if not stop_gradient:
            self.stop_gradient = False

    @property
    def name(self) -> str:
        """Its name in a debugger."""
        return self._name or "value"

    @property
    def elements(self) -> np.ndarray:
        """The value as an array that cannot be written into: what an editor shows of it."""
        array = self.numpy()
        array.flags.writeable = False
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)
        return array.copy() if copy else array

    @property
    def size(self) -> int:
        """How many elements it has."""
        return self.numpy().size

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy().__dlpack_device__()

    def __dlpack__(self, *, copy: bool | None = None, **how: Any) -> Any:
        """For other libraries, as in torch.from_dlpack(value): a copy, so that nobody writes into
        what gradients will be computed from; with copy=False the memory itself."""
        array = self.numpy() if copy is False else self.numpy().copy()
        try:
            return array.__dlpack__(**how)
        except (TypeError, BufferError) as failed:
            raise error(f"a value of dtype {self.dtype} cannot be given away: {failed}") from None

    def __setitem__(self, key: Any, value: Any) -> None:
        raise error(
            "elements of a value are set in its array, x.numpy()[...] = ..., where no gradient "
            "sees it; for a new value with other elements use ops.where or ops.scatter_nd"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.is_leaf:
            raise error(
                "a value that an op made and gradients flow through cannot be copied or pickled: "
                "take its detach()"
            )
        return _restored, (type(self), self.numpy(), self._state())

    def _state(self) -> dict[str, Any]:
        """The state that a copy gets besides the elements."""
        own = {"_name": self._name, "stop_gradient": self.stop_gradient}
        return getattr(self, "__dict__", {}) | own

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """NumPy's functions, such as np.mean, take the array."""
        return function(*map(_plain, args), **{key: _plain(v) for key, v in kwargs.items()})

    # --- gradients

    def backward(self, retain: bool = False, only: Sequence[Value] | None = None) -> list[Value]:
        """Compute the gradients of this value, one float, and add them to `gradient` of all values
        that it was computed from, except results of ops and values with `stop_gradient`; returns
        the values with new gradients. With `only`, all others stay as they are.

        Memory that ops kept for this is freed, unless `retain` says that it is needed again.
        """
        pairs = self._backward(retain)
        if only is not None:
            wanted = {id(value) for value in only}
            pairs = [pair for pair in pairs if id(pair[0]) in wanted]
        for leaf, gradient in pairs:
            if leaf._gradient is None:
                leaf._gradient = gradient
                continue
            with guard(), no_grad():
                leaf._gradient = ops.add(leaf._gradient, gradient)
        return [leaf for leaf, _ in pairs]

    @property
    def gradient(self) -> Value | None:
        """The sum of gradients since `clear_gradient`; None when there was none."""
        return self._gradient

    def clear_gradient(self) -> None:
        self._gradient = None

    # --- as Python's own numbers and sequences

    def item(self) -> Any:
        """Its one element as a Python number."""
        array = self.numpy()
        if array.size != 1:
            raise error(
                f"a value of shape {list(self.shape)} is not one number; take its mean, sum or one "
                "of its elements"
            )
        return array.item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        number = self.item()
        if not isinstance(number, int) or isinstance(number, bool):
            raise error(f"a value of dtype {self.dtype} is not an index: cast it to int64")
        return number

    def __bool__(self) -> bool:
        return bool(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise error("a value without dimensions has no length and no rows")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return display.value_text(self)

    def __dir__(self) -> list[str]:
        return display.attributes(list(super().__dir__()))

    def __str__(self) -> str:
        return str(self.numpy())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)


class ParameterValue(Value):
    """A value that training changes."""

    __slots__ = ("_first", "_optimize_attr", "trainable")

    def __init__(self, array: Any, name: str, trainable: bool = True) -> None:
        super().__init__(array, name=name)
        self.trainable = trainable
        """Do optimizers change it?"""
        self._optimize_attr: dict[str, float] = {}
        # For a parameter made by layers.create_parameter: when, and how it was filled.
        self._first: tuple[int, Any] | None = None

    def _state(self) -> dict[str, Any]:
        own = {
            "trainable": self.trainable,
            "_optimize_attr": self._optimize_attr,
            "_first": self._first,
        }
        return super()._state() | own

    @property
    def optimize_attr(self) -> dict[str, float]:
        """How optimizers treat it differently: see `opstep.optimizer.Optimizer`."""
        return self._optimize_attr

    @optimize_attr.setter
    def optimize_attr(self, value: Mapping[str, float]) -> None:
        check_optimize_attr(self.name, value)
        self._optimize_attr = dict(value)


def _restored(kind: type[Value], array: np.ndarray, state: dict[str, Any]) -> Value:
    value = kind.__new__(kind)
    value._take(array.copy())
    for name, part in state.items():
        setattr(value, name, part)
    return value


def _plain(argument: Any) -> Any:
    if isinstance(argument, list | tuple):
        return type(argument)(map(_plain, argument))
    return argument.numpy() if isinstance(argument, Value) else argument


def _array(array: Any) -> np.ndarray:
    try:
        made = np.asarray(array)
        _core.dtype_name(made.dtype)
    except ValueError:
        raise error("cannot make an array of this: its rows have different lengths") from None
    except Error:
        kind = type(array).__name__
        what = f"an array of dtype {array.dtype}" if isinstance(array, np.ndarray) else kind
        raise error(f"cannot make a value of {what}: give it numbers or booleans") from None
    return made


_core.set_value_type(Value)

_core.set_operators(
    [op._tracer for op in (ops.add, ops.sub, ops.mul, ops.div, ops.pow, ops.matmul)]
)


def to_variable(array: Any, stop_gradient: bool = True, name: str = "") -> Value:
    """An array as a value over the same memory, where the layout allows; else over a copy.

    With `stop_gradient=False`, `backward` computes its gradient.
    """
    if isinstance(array, Value):
        return array
    if isinstance(array, Operators):
        raise error(f"'{array.name}' is a variable of a program: it has no value to take")
    return Value(array, stop_gradient, name)
