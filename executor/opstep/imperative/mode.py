"""The switch between ops that run at once and ops that are added to a program."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

from opstep import _core
from opstep.context import _context
from opstep.debug import connection
from opstep.errors import error


class guard(ContextDecorator):
    """Inside the `with`, or in the function that it decorates, ops of this thread run at once and
    give runtime values. Guards may be nested, and may contain a `program_guard`."""

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_context.imperative)
        enable()

    def __exit__(self, *_: object) -> None:
        _context.imperative = self._before.pop()


def enable() -> None:
    """From now on ops of this thread run at once."""
    connection._open_doorbell()
    _context.imperative = True


def disable() -> None:
    """From now on ops of this thread are added to programs again."""
    _context.imperative = False


def enabled() -> bool:
    """Do ops of this thread run at once?"""
    return _context.imperative


class no_grad(ContextDecorator):
    """Inside the `with`, or in the function that it decorates, nothing is kept for gradients."""

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_core.set_recording(False))

    def __exit__(self, *_: object) -> None:
        _core.set_recording(self._before.pop())


class _Seeds:
    """Where the seeds of new parameters come from; a program counts in the same way."""

    random_seed = 0
    _seeds_given = 0


_seeds: Any = _Seeds()


def seed(number: int) -> None:
    """Restart the seeds of parameters, as for a program with this `random_seed`."""
    if not isinstance(number, int):
        raise error(f"a seed is a whole number, not {number!r}")
    _seeds.random_seed, _seeds._seeds_given = number, 0
