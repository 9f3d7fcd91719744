"""Sentences that name the user's line."""

from __future__ import annotations

from opstep import _core
from opstep._core import Error


def error_at(what: str, file: str, line: int) -> Error:
    return Error(f"{what} ({file.rsplit('/', 1)[-1]}:{line})")


def line_here() -> int:
    """The line of the user's code that runs now."""
    stack = _core.user_stack()
    return stack[0][1] if stack else 0


def error_here(what: str) -> Error:
    """An error with the line of the user's code that runs now."""
    stack = _core.user_stack()
    return error_at(what, stack[0][0], stack[0][1]) if stack else Error(what)
