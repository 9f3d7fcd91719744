"""`Layer`: a part of a model with its parameters."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from opstep import _core
from opstep.context import _context, guarded_program
from opstep.errors import error
from opstep.executor import Scope, global_scope
from opstep.foreign_names import check_foreign
from opstep.imperative import display
from opstep.imperative.mode import _seeds
from opstep.imperative.parameters import new_parameter, value_of
from opstep.imperative.programs import (
    call_name,
    join_own_parameters,
    layers_of,
    part_of,
    program_being_built,
    program_of,
)
from opstep.imperative.value import ParameterValue, Value
from opstep.initializer import Initializer, next_seed
from opstep.program import Program
from opstep.variable import Parameter


class _LayerType(ABCMeta):
    """Tells `layers.create_parameter` that it is called in the `__init__` of a layer. Derives from
    ABCMeta so that a layer can be an ABC too."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        before, _context.making_layer = _context.making_layer, True
        try:
            return super().__call__(*args, **kwargs)
        except TypeError as failed:
            inner = failed.__traceback__ and failed.__traceback__.tb_next
            if inner is None:  # the call itself was wrong
                check_foreign(cls.__name__, cls.__init__, kwargs)
            raise
        finally:
            _context.making_layer = before


class Layer(metaclass=_LayerType):
    """A part of a model: `forward` says what it computes, and it keeps the parameters for that.

    In `forward` the functions of `opstep.layers` may be called as in a program: the parameters that
    they need are made at the first call and found again at the next ones, by name, or without one
    by the order of the calls. What `layers.create_parameter` makes in `__init__` and other layers
    belong to it too when they are set as attributes. Outside of imperative mode the same layer,
    called with variables, adds itself to their program, as often as it is called and with the same
    parameters each time; while that program is being built, its parameters are the program's.
    """

    training = True

    def __init__(self, name: str | None = None) -> None:
        self._name = name or type(self).__name__.lower()
        self._values: dict[str, Value] = {}
        self._layers: dict[str, Layer] = {}
        self._seeds: dict[str, int] = {}
        self._drawn: set[str] = set()
        self._hooks: list[Callable[[Layer, tuple[Any, ...], Any], Any]] = []
        self._programs: WeakSet[Program] = WeakSet()
        # By program: the variables' names by those of the values here. For debuggers.
        self._program_names: dict[int, dict[str, str]] = {}
        self._named_in: WeakSet[Program] = WeakSet()
        # Have its values changed since they were initialized?
        self._used = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the layer; call the layer to run it."""
        raise error(f"{type(self).__name__} has no forward(): define what the layer computes")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = _context.layer, _context.names, _context.counts, _context.building
        try:
            if _context.imperative:
                _context.names = self._scope(before[1] + self._name)
                self.__dict__["_used"] = True
            else:
                self._join(args, kwargs)
            _context.layer, _context.counts = self, {}
            trace = _context.trace
            forward = self.forward if trace is None else trace.converted(self.forward)
            result = forward(*args, **kwargs)
        finally:
            _context.layer, _context.names, _context.counts, _context.building = before
        for hook in self._hooks:
            changed = hook(self, args, result)
            result = result if changed is None else changed
        return result

    def _join(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Add what `forward` does to the program of the arguments."""
        program = _context.building
        outermost = program is None or guarded_program() not in (None, program)
        if outermost:
            program = program_of((*args, *kwargs.values()))
        part_of(self, program)
        names = self._scope(call_name(program, _context.names + self._name))
        if outermost:
            join_own_parameters(self, program, names)
        _context.building, _context.names = program, names

    def add_forward_hook(self, hook: Callable[[Layer, tuple[Any, ...], Any], Any]) -> None:
        """After each call, call `hook(layer, inputs, result)`; if it returns anything but None,
        that becomes the call's result."""
        self._hooks.append(hook)

    def _scope(self, name: str) -> str:
        """The prefix of names while `forward` runs in a call of that name."""
        return f"{name}/"

    def _rename(self, name: str) -> None:
        self._name = name

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Layer | ParameterValue) and "_values" not in self.__dict__:
            raise error(f"{type(self).__name__}: call super().__init__() before setting '{name}'")
        if isinstance(value, list | tuple) and any(isinstance(each, Layer) for each in value):
            raise error(
                f"{type(self).__name__}: '{name}' has layers in a {type(value).__name__}, where "
                "their parameters are not found: make it an imperative.LayerList"
            )
        if name in self.__dict__.get("_layers", ()):
            del self._layers[name]
        if name in self.__dict__.get("_values", ()):
            del self._values[name]
        if isinstance(value, ParameterValue):
            value._name = name
            self._values[name] = value
            self.__dict__.pop(name, None)  # __getattr__ finds it
            return
        if isinstance(value, Layer):
            value._rename(name)
            self._layers[name] = value
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._layers.pop(name, None)
        if self._values.pop(name, None) is None:
            super().__delattr__(name)

    def __getattr__(self, name: str) -> Any:
        """Parameters: while a program is being built those of the program."""
        if "_values" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        program = program_being_built()
        if program is not None:
            part = layers_of(program).parts.get(self)
            if part is not None and name in part.names:
                return program.global_block().var(part.names[name])
        value = self._values.get(name)
        if value is None:
            near = _core.nearest(name, [*self._values, *self._layers])
            hint = f"; did you mean '{near}'?" if near else ""
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'{hint}")
        if _context.layer is self and value.name == name:
            value._name = _context.names + name
        return value

    def __getstate__(self) -> dict[str, Any]:
        """For a copy or pickle: the programs that it has joined are not taken along."""
        own = ("_programs", "_program_names", "_named_in")
        return {name: part for name, part in self.__dict__.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _programs=WeakSet(), _program_names={}, _named_in=WeakSet())

    def __repr__(self) -> str:
        return display.layer_text(self)

    def __dir__(self) -> list[str]:
        return display.layer_attributes(Layer, self, list(super().__dir__()))

    # --- what layers ask for while `forward` runs

    def _base_name(self, kind: str, name: str | None) -> str:
        """The base name of the ops and parameters of one call of a layer function."""
        if name:
            return _context.names + name
        number = _context.counts.get(kind, 0)
        while f"{kind}_{number}" in self._layers:
            number += 1
        _context.counts[kind] = number + 1
        if _context.imperative:
            return f"{_context.names}{kind}_{number}"
        assert _context.building is not None
        # Ops without a name are counted by the program, and may have had this one.
        made = _context.building.unique_name(kind)
        part_of(self, _context.building).keys[made] = f"{kind}_{number}"
        return made

    def _key(self, name: str) -> str:
        """The layer's key for a value of that name."""
        if not _context.imperative:
            assert _context.building is not None
            base, _, last = name.rpartition(".")
            key = part_of(self, _context.building).keys.get(base)
            if key is not None:
                return f"{key}.{last}"
        return name.removeprefix(_context.names)

    def _name_in_program(self, name: str) -> str:
        """The value's name in the program that is being built; the first call has named it."""
        program = _context.building
        assert program is not None
        key = self._key(name)
        names, known = part_of(self, program).names, layers_of(program).values
        if key not in names:
            value = self._values.get(key)
            names[key] = name if value is None else known.setdefault(value, name)
        return names[key]

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
        key = self._key(name)
        if key not in self._values:
            self._values[key] = Value(np.array(0, np.int64), name=name)
        return self._values[key]

    def _seed(self, name: str) -> int:
        """One for both modes and all programs: the first that was drawn. Each draws one, so that
        the parameters after it get the same seeds in all of them."""
        key, program = self._key(name), None if _context.imperative else _context.building
        drawn = self._drawn if program is None else part_of(self, program).drawn
        if key not in drawn:
            drawn.add(key)
            self._seeds.setdefault(key, next_seed(program or _seeds))
        return self._seeds[key]

    # --- parameters

    def _tree(self, prefix: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Layer]]:
        """Itself and all layers inside it, once each, with the prefix of their names."""
        seen = set() if seen is None else seen
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for name, layer in self._layers.items():
            yield from layer._tree(layer._scope(prefix + name), seen)

    def sublayers(self) -> Iterator[Layer]:
        """The layers inside it, and those inside them."""
        return (layer for _, layer in self._tree() if layer is not self)

    def _own_parameters(self) -> Iterator[tuple[str, ParameterValue]]:
        """The parameters made by `layers.create_parameter`."""
        for key, value in self._values.items():
            if isinstance(value, ParameterValue) and value._first is not None:
                yield key, value

    def _named_values(self) -> Iterator[tuple[str, Value]]:
        seen: set[Value] = set()
        for prefix, layer in self._tree():
            for key, value in layer._values.items():
                if value not in seen:
                    seen.add(value)
                    yield prefix.replace("/", ".") + key, value

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """The parameters, by names such as `hidden.w`: values or, while a program is being built
        that the layer has joined, the program's parameters. Layers that make theirs at the first
        call have none before."""
        program = program_being_built()
        if program is None or self not in layers_of(program).parts:
            for name, value in self._named_values():
                if isinstance(value, ParameterValue) and value.trainable:
                    yield name, value
            return
        seen: set[str] = set()
        for prefix, layer in self._tree():
            for key, name in part_of(layer, program).names.items():
                variable = program.global_block().var(name)
                if isinstance(variable, Parameter) and variable.trainable and name not in seen:
                    seen.add(name)
                    yield prefix.replace("/", ".") + key, variable

    def parameters(self) -> list[Any]:
        """The values, or parameters of the program, that `named_parameters` names."""
        return [value for _, value in self.named_parameters()]

    def clear_gradients(self) -> None:
        for _, value in self._named_values():
            value.clear_gradient()

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of all that it keeps: parameters, running means, counters."""
        return {name: value.numpy().copy() for name, value in self._named_values()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the result of `state_dict`. Layers that make their parameters at the first call
        must have been called."""
        own = dict(self._named_values())
        counters = self._missing_counters(state, own)
        own |= {name: value for name, (_, _, value) in counters.items()}
        for name in state.keys() - own.keys():
            near = _core.nearest(name, list(own))
            hint = f"; did you mean '{near}'?" if near else ""
            if not self._used:
                hint = ": call it once first, since layers make their parameters at the first call"
            raise error(f"{type(self).__name__} has no '{name}' to load{hint}")
        for name in own.keys() - state.keys():
            raise error(f"'{name}' of {type(self).__name__} is not in the loaded state")
        arrays = {name: np.asarray(array) for name, array in state.items()}
        for name, array in arrays.items():
            value = own[name]
            if (array.shape, _core.dtype_name(array.dtype)) != (value.shape, value.dtype):
                raise error(
                    f"'{name}' is {value.dtype}{list(value.shape)} but the loaded value is "
                    f"{array.dtype}{list(array.shape)}"
                )
        for name, array in arrays.items():
            np.copyto(own[name].numpy(), array)
            own[name]._written()
        for layer, key, value in counters.values():
            layer._values[key] = value
        for _, layer in self._tree():
            layer._used = True

    def _missing_counters(
        self, state: Mapping[str, Any], own: Mapping[str, Value]
    ) -> dict[str, tuple[Layer, str, Value]]:
        """Counters of dropouts that have run in tests only: new ones, by names in the state."""
        made: dict[str, tuple[Layer, str, Value]] = {}
        tree = [(prefix, layer) for prefix, layer in self._tree() if layer._used]
        for name in state.keys() - own.keys():
            if name.rpartition(".")[2] != "count" or np.shape(state[name]) != ():
                continue
            around = [each for each in tree if name.startswith(each[0].replace("/", "."))]
            if around:
                prefix, layer = max(around, key=lambda each: len(each[0]))
                key = name[len(prefix) :]
                full = self._scope(self._name) + prefix + key
                made[name] = layer, key, Value(np.array(0, np.int64), name=full)
        return made

    def share(self, scope: Scope | None = None) -> None:
        """Let the layer and the programs that it has joined use the same memory, in that scope:
        from then on a step in either mode changes both.

        Values from calls in imperative mode or from `load_state_dict` go to the programs; otherwise
        the layer takes the values of the scope.
        """
        target = scope or global_scope()
        for _, layer in self._tree():
            joined: set[str] = set()
            for program in list(layer._programs):
                joined |= layer._share_with(program, target)
            layer._used |= bool(joined)
            for key, value in layer._values.items():
                if key not in joined:
                    _core.share_value(target._core, value.name, value)

    def _share_with(self, program: Program, scope: Scope) -> set[str]:
        names = part_of(self, program).names
        for key, name in names.items():
            value = self._values.get(key)
            if value is None:
                if name not in scope:
                    continue  # the startup program has not run there
                self._values[key] = value_of(program.global_block().var(name), scope)
            elif not self._used and name in scope:
                np.copyto(value.numpy(), scope.view(name))
            _core.share_value(scope._core, name, self._values[key])
        return set(names)

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


# The debugger finds the names that Python code has for the values of layers.
_core.set_layer_type(Layer)


class _Simple(Layer):
    """A layer that is one function of `opstep.layers`, called by the layer's own name."""

    def _scope(self, name: str) -> str:
        return f"{name}."

    def _base_name(self, kind: str, name: str | None) -> str:
        return _context.names + name if name else _context.names[:-1]

    def _key(self, name: str) -> str:
        return name.removeprefix(_context.names)
