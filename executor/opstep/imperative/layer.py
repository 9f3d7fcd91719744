"""`Layer`: a part of a model with its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from opstep import _core
from opstep.context import _context
from opstep.errors import error
from opstep.executor import Scope, global_scope
from opstep.imperative import show
from opstep.imperative.mode import _seeds, guard
from opstep.imperative.value import ParameterValue, Value
from opstep.initializer import Initializer, next_seed


def new_parameter(
    name: str,
    shape: Sequence[int],
    dtype: Any,
    initializer: Initializer,
    trainable: bool = True,
    optimize_attr: Mapping[str, float] | None = None,
) -> ParameterValue:
    """A parameter, filled at once by the op that a startup program would have."""
    kind = _core.dtype_name(dtype)
    made = ParameterValue(np.empty(shape, _core.numpy_dtype(kind)), name, trainable)
    if optimize_attr:
        made.optimize_attr = optimize_attr
    with guard():
        initializer.fill(made.shape, kind, next_seed(_seeds), name=f"{name}.init", out=made)
    made.stop_gradient = not trainable
    return made


class Layer:
    """A part of a model: `forward` says what it computes, and it keeps the parameters for that.

    In `forward` the functions of `opstep.layers` may be called as in a program: the parameters that
    they need are made at the first call and found again at the next ones, by name, or without one
    by the order of the calls. Values made by `layers.create_parameter` and other layers that are
    set as attributes belong to it too. Outside of imperative mode the same layer, called with
    variables, adds itself to the program.
    """

    training = True

    def __init__(self, name: str | None = None) -> None:
        self._name = name or type(self).__name__.lower()
        self._values: dict[str, Value] = {}
        self._layers: dict[str, Layer] = {}
        self._seeds: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._hooks: list[Callable[[Layer, tuple[Any, ...], Any], Any]] = []

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer computes; called by calling the layer."""
        raise error(f"{type(self).__name__} has no forward: define what it computes")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = _context.layer, _context.names
        _context.layer = self
        _context.names = self._scope(_context.names)
        self._counts.clear()
        try:
            result = self.forward(*args, **kwargs)
        finally:
            _context.layer, _context.names = before
        for hook in self._hooks:
            changed = hook(self, args, result)
            result = result if changed is None else changed
        return result

    def add_forward_hook(self, hook: Callable[[Layer, tuple[Any, ...], Any], Any]) -> None:
        """After each call, call `hook(layer, inputs, result)`; what it gives, unless that is None,
        is the call's result."""
        self._hooks.append(hook)

    def _scope(self, names: str) -> str:
        """What names begin with while `forward` runs."""
        return f"{names}{self._name}/"

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Layer | ParameterValue) and "_values" not in self.__dict__:
            raise error(f"{type(self).__name__}: call super().__init__() before setting '{name}'")
        if isinstance(value, Layer):
            value._name = name
            self._layers[name] = value
        elif isinstance(value, ParameterValue):
            value._core.name = name
            self._values[name] = value
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        """A value that a function of `opstep.layers` made: `net.hidden.w`."""
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        raise AttributeError(show.no_attribute(self, name, list(values)))

    def __repr__(self) -> str:
        return show.layer_text(self)

    def __dir__(self) -> list[str]:
        return show.layer_attributes(self, list(super().__dir__()))

    # --- what layers ask for while `forward` runs

    def _unique_name(self, kind: str) -> str:
        number = self._counts.get(kind, 0)
        self._counts[kind] = number + 1
        return f"{kind}_{number}"

    def _key(self, name: str) -> str:
        return name.removeprefix(_context.names).removeprefix(f"{self._name}.")

    def _parameter(
        self,
        name: str,
        shape: Sequence[int],
        dtype: Any,
        initializer: Initializer,
        trainable: bool,
        optimize_attr: Mapping[str, float] | None,
    ) -> Value:
        key = self._key(name)
        found = self._values.get(key)
        if found is None:
            found = new_parameter(name, shape, dtype, initializer, trainable, optimize_attr)
            self._values[key] = found
        elif list(found.shape) != list(shape) or found.dtype != _core.dtype_name(dtype):
            raise error(
                f"'{name}' is {found.dtype}{list(found.shape)}, but the layer now wants "
                f"{_core.dtype_name(dtype)}{list(shape)}: its inputs must keep their sizes"
            )
        return found

    def _counter(self, name: str) -> Value:
        return self._values.setdefault(self._key(name), Value(np.array(0, np.int64), name=name))

    def _seed(self, name: str) -> int:
        key = self._key(name)
        if key not in self._seeds:
            self._seeds[key] = next_seed(_seeds)
        return self._seeds[key]

    # --- parameters

    def sublayers(self) -> Iterator[Layer]:
        """The layers inside it, and those inside them."""
        for layer in self._layers.values():
            yield layer
            yield from layer.sublayers()

    def _named_values(self, prefix: str = "") -> Iterator[tuple[str, Value]]:
        for name, value in self._values.items():
            yield prefix + name, value
        for name, layer in self._layers.items():
            yield from layer._named_values(f"{prefix}{name}.")

    def named_parameters(self) -> Iterator[tuple[str, ParameterValue]]:
        """What training changes, by names such as `hidden.w`. Layers that make their parameters at
        the first call have none before."""
        for name, value in self._named_values():
            if isinstance(value, ParameterValue) and value.trainable:
                yield name, value

    def parameters(self) -> list[ParameterValue]:
        return [value for _, value in self.named_parameters()]

    def clear_gradients(self) -> None:
        for value in self.parameters():
            value.clear_gradient()

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of all that it keeps: parameters, running means, counters."""
        return {name: value.numpy().copy() for name, value in self._named_values()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave. Layers that make their parameters at the first call
        must have been called."""
        own = dict(self._named_values())
        for name in state.keys() - own.keys():
            near = _core.nearest(name, list(own))
            hint = f"; did you mean '{near}'?" if near else ""
            raise error(f"{type(self).__name__} has no '{name}' to load{hint}")
        for name in own.keys() - state.keys():
            raise error(f"'{name}' of {type(self).__name__} is not in what is to be loaded")
        arrays = {name: np.asarray(array) for name, array in state.items()}
        for name, array in arrays.items():
            value = own[name]
            if (array.shape, _core.dtype_name(array.dtype)) != (value.shape, value.dtype):
                raise error(
                    f"'{name}' is {value.dtype}{list(value.shape)} but what is to be loaded is "
                    f"{array.dtype}{list(array.shape)}"
                )
        for name, array in arrays.items():
            np.copyto(own[name].numpy(), array)

    def share(self, scope: Scope | None = None) -> None:
        """Let programs that the layer has added itself to use its values, by their names and in
        their own memory: from then on a step in either mode changes both."""
        for _, value in self._named_values():
            _core.share_value((scope or global_scope())._core, value.name, value._core)

    # --- training or not

    def train(self) -> None:
        """Dropout, batch_norm and the like behave as while training: the default."""
        self._set_training(True)

    def eval(self) -> None:
        """Dropout, batch_norm and the like behave as in a test."""
        self._set_training(False)

    def _set_training(self, training: bool) -> None:
        self.training = training
        for layer in self.sublayers():
            layer.training = training


# The debugger finds the names that Python code has for what layers keep.
_core.set_layer_type(Layer)


class _Simple(Layer):
    """A layer that is one function of `opstep.layers`, called by the layer's own name."""

    def _scope(self, names: str) -> str:
        return names
