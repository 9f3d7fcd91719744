"""Layers in programs: the names of a `Layer`'s parameters in each program that it has joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from opstep import context, owners
from opstep.context import _context
from opstep.initializer import AlreadyFilled
from opstep.program import Program
from opstep.variable import Variable

if TYPE_CHECKING:
    from opstep.imperative.layer import Layer
    from opstep.imperative.value import Value


class Part:
    """One layer in one program."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """The layer's key for a value → the variable's name."""
        self.keys: dict[str, str] = {}
        """The name of a layer function's call in the program → its name in the layer."""
        self.drawn: set[str] = set()
        """The names that have drawn a seed of the program."""

    def copy(self) -> Part:
        made = Part()
        made.names, made.keys = dict(self.names), dict(self.keys)
        made.drawn = set(self.drawn)
        return made


class Layers:
    """The layers of one program."""

    def __init__(self) -> None:
        self.parts: WeakKeyDictionary[Layer, Part] = WeakKeyDictionary()
        self.values: dict[Value, str] = {}
        """Variables of values that layers have, also where several layers have the same one."""
        self.taken: set[str] = set()
        """The prefixes of the names of calls; each call has its own."""

    def copy(self) -> Layers:
        """For a copy of the program."""
        made = Layers()
        for layer, part in self.parts.items():
            made.parts[layer] = part.copy()
        made.values.update(self.values)
        made.taken = set(self.taken)
        return made

    def tell_names(self, program: Program) -> None:
        """A copy of a program has the layers too."""
        for layer, part in self.parts.items():
            tell_names(layer, program, part)


def layers_of(program: Program) -> Layers:
    if program._layers is None:
        program._layers = Layers()
    return program._layers


def part_of(layer: Layer, program: Program) -> Part:
    """The layer's part in the program; the layer joins if it has not yet."""
    parts = layers_of(program).parts
    if layer not in parts:
        parts[layer] = Part()
        layer._programs.add(program)
        tell_names(layer, program, parts[layer])
    return parts[layer]


def tell_names(layer: Layer, program: Program, part: Part) -> None:
    """Keeps the part's names where a debugger finds them, for as long as there is the program."""
    layer._named_in.add(program)
    alive = {each._core.id for each in layer._named_in}
    for gone in layer._program_names.keys() - alive:
        del layer._program_names[gone]
    layer._program_names[program._core.id] = part.names


def values_in(program: Program) -> dict[str, Value]:
    """The values of all its layers, by the names that they have there."""
    return {
        name: layer._values[key]
        for layer, part in layers_of(program).parts.items()
        for key, name in part.names.items()
        if key in layer._values
    }


def program_being_built() -> Program | None:
    """The one that the running `forward` adds to, or that of the innermost `program_guard`."""
    if _context.imperative:
        return None
    return _context.building or context.guarded_program()


def program_of(arguments: Sequence[Any]) -> Program:
    """The program that a layer is to join when it is called with these."""
    for value in arguments:
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, Variable):
                return item.program
    return context.default_main_program()


def call_name(program: Program, wanted: str) -> str:
    """A name for a call that no other call in the program has: `judge`, then `judge_2`."""
    taken = layers_of(program).taken
    name = wanted
    while name in taken:
        number = max(program._counters.get(wanted, 0), 2)
        program._counters[wanted] = number + 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name


def is_filled(layer: Layer, program: Program, name: str) -> bool:
    """Has the layer joined another program that the same startup program is for, with a value of
    that name?"""
    startup = program._startup or context.default_startup_program()
    return any(
        name in part_of(layer, other).names.values()
        for other in layer._programs
        if other is not program and (other._startup or context.default_startup_program()) is startup
    )


def join_own_parameters(layer: Layer, program: Program, names: str) -> None:
    """Give the program the parameters that the layer and those inside it made in `__init__`.

    Before all others and in the order in which they were made, so that they get the seeds that they
    would get in imperative mode.
    """
    known = layers_of(program)
    seeds = program._seeds_given
    found = [
        (value._first[0], inner, key, f"{names}{prefix}{key}", value)
        for prefix, inner in layer._tree()
        for key, value in inner._own_parameters()
        if value not in known.values or key not in part_of(inner, program).names
    ]
    for _, inner, key, name, value in sorted(found, key=lambda item: item[0]):
        block = program.global_block()
        if value not in known.values:
            filled = is_filled(inner, program, name)
            block._create_parameter(
                name,
                value.shape,
                value.dtype,
                AlreadyFilled() if filled else value._first[1],
                value.trainable,
                value.optimize_attr,
                owners.owner_of_object(value),
            )
            known.values[value] = name
        part_of(inner, program).names[key] = known.values[value]
    if _context.trace is not None and _context.trace.own:
        program._seeds_given = seeds  # it will have the values that are there
