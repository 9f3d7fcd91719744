"""The state of a thread that builds converted code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from opstep import context
from opstep.program import Block, Program
from opstep.variable import Variable


class Region:
    """A branch or a loop's body that a program may or may not run."""

    def __init__(self, what: str, drop: Callable[[], None]) -> None:
        self.what, self.drop = what, drop
        # Objects made in the region may be changed in it.
        self.born: list[Any] = []
        # Does it always end with an error?
        self.fails = False


class State(threading.local):
    def __init__(self) -> None:
        self.regions: list[Region] = []
        # Operands that wait for the rest of their expression.
        self.held: list[Any] = []
        # `with` statements of managers that programs do not know.
        self.managers: list[Any] = []


state = State()


@contextmanager
def new_state() -> Iterator[None]:
    """Inside the `with`, the state begins empty."""
    before = dict(state.__dict__)
    state.__init__()  # type: ignore[misc]
    try:
        yield
    finally:
        state.__dict__.update(before)


def is_tensor(value: Any) -> bool:
    """Is it known only when the program runs?"""
    return isinstance(value, Variable)


class Unset:
    """Stands for a name without a value, or without a value that a program can have."""

    __slots__ = ("name", "why")

    def __init__(self, name: str, why: str = "") -> None:
        self.name, self.why = name, why

    def __repr__(self) -> str:
        return f"<'{self.name}' has no value{': ' if self.why else ''}{self.why}>"


@contextmanager
def unwinding() -> Iterator[None]:
    """Blocks that are being made when an error leaves the `with` are left too."""
    depth = len(state.regions)
    try:
        yield
    except BaseException:
        while len(state.regions) > depth:
            state.regions[-1].drop()
        raise


@contextmanager
def inside(block: Block) -> Iterator[None]:
    """Ops made inside the `with` are added to that block."""
    program = block.program
    before = program._current
    program._current = block.index
    try:
        yield
    finally:
        program._current = before


class _Kept(NamedTuple):
    program: Program
    data: bytes
    current: int
    counters: dict[str, int]
    seeds: int
    layers: Any


class Snapshot:
    """A program, and the startup program beside it, as they are now."""

    def __init__(self, program: Program) -> None:
        startup = program._startup or context.default_startup_program()
        self._kept = [_keep(each) for each in {program, startup}]

    def restore(self) -> None:
        for kept in self._kept:
            program = kept.program
            program._core.restore(kept.data)
            program._current = kept.current
            program._counters = dict(kept.counters)
            program._seeds_given = kept.seeds
            program._layers = kept.layers and kept.layers.copy()
            del program._blocks[program._core.block_count :]
            for block in program._blocks:
                block._known.clear()


def _keep(program: Program) -> _Kept:
    data = program._core.serialize()
    counters, layers = dict(program._counters), program._layers and program._layers.copy()
    return _Kept(program, data, program._current, counters, program._seeds_given, layers)
