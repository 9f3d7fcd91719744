"""Errors that end with the user's line."""

from __future__ import annotations

from opstep import _core
from opstep._core import Error


def user_place() -> str:
    """` (train.py:41)`, the innermost line that is not opstep's own; "" when there is none."""
    stack = _core.user_stack()
    return f" ({stack[0][0].rsplit('/', 1)[-1]}:{stack[0][1]})" if stack else ""


def error(what: str) -> Error:
    """One sentence with the user's line."""
    return Error(what + user_place())
