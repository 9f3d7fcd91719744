"""The state while a function is turned into ops: the program and the values it shares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from opstep import _core
from opstep.context import _context
from opstep.convert.calls import callable_for
from opstep.convert.function import converted
from opstep.convert.state import new_state, unwinding
from opstep.executor import Executor, Scope
from opstep.imperative import containers
from opstep.imperative.mode import _seeds
from opstep.imperative.programs import layers_of, values_in
from opstep.operators import Operators
from opstep.program import Program
from opstep.variable import Variable

if TYPE_CHECKING:
    from opstep.imperative.value import Value


def recording() -> bool:
    """Are gradients wanted of the running code?"""
    before = _core.set_recording(False)
    _core.set_recording(before)
    return before


class Trace:
    """Runtime values that the code uses become variables over the same memory."""

    def __init__(self, program: Program, scope: Scope, own: bool) -> None:
        self.program, self.scope = program, scope
        # Its own program shares the values of layers; a user's program has its own parameters.
        self.own = own
        self.values: dict[int, tuple[Value, Variable]] = {}

    @contextmanager
    def entered(self) -> Iterator[None]:
        before, _context.trace = _context.trace, self
        try:
            with new_state(), unwinding():
                yield
        finally:
            _context.trace = before

    def seed(self) -> None:
        """The seeds of new parameters go on from those of imperative mode."""
        self.program.random_seed = _seeds.random_seed
        self.program._seeds_given = _seeds._seeds_given

    def fill(self, startup: Program) -> None:
        """Sets first values where there are none; values of layers are shared with them."""
        program, scope = self.program, self.scope
        held = startup.global_block().vars.values()
        missing = [v.name for v in held if v.persistable and v.name not in scope]
        if missing:
            Executor().run(startup.prune(missing), scope=scope)
        for layer, part in list(layers_of(program).parts.items()):
            if part.names.keys() - layer._values.keys():
                _seeds._seeds_given = program._seeds_given
            layer._used |= bool(layer._values)
            layer._share_with(program, scope)
            layer._used = True

    def wants_gradient(self) -> bool:
        """Does it use a value that may have a gradient?"""
        values = [value for value, _ in self.values.values()]
        values += values_in(self.program).values()
        return any(not value.stop_gradient for value in values)

    def converted(self, function: Any) -> Any:
        """The function that a Layer calls instead of its `forward`."""
        plain = getattr(function, "__func__", None)
        if isinstance(plain, FunctionType) and plain.__module__ == containers.__name__:
            # It calls functions of the user's.
            return MethodType(converted(plain), function.__self__)
        return callable_for(function)

    def lifted(self, value: Any) -> Any:
        """An op's input: a value, or several."""
        if isinstance(value, list | tuple):
            return [self.lifted(each) for each in value]
        if isinstance(value, Operators) and not isinstance(value, Variable):
            return self.variable(value)
        return value

    def variable(self, value: Any) -> Variable:
        """The program's variable over the memory of a value."""
        from opstep.imperative.value import ParameterValue

        known = self.values.get(id(value))
        if known is not None:
            return known[1]
        block = self.program.global_block()
        name, number = value.name, 0
        while block.has_var(name):
            number += 1
            name = f"{value.name}_{number}"
        parameter = isinstance(value, ParameterValue)
        self.program._core.create_var(
            0,
            name,
            value.dtype,
            list(value.shape),
            True,
            parameter,
            parameter and value.trainable,
            not parameter and value.stop_gradient,
        )
        made = block.var(name)
        if parameter and value.optimize_attr:
            made.optimize_attr = value.optimize_attr  # type: ignore[attr-defined]
        _core.share_value(self.scope._core, name, value)
        self.values[id(value)] = (value, made)
        return made
