"""`with` in converted code: managers are entered once, while the program is built."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import opstep
from opstep import context
from opstep.convert.state import state
from opstep.convert.user_errors import error_here
from opstep.imperative.mode import guard, no_grad

_PACKAGE = os.path.dirname(os.path.abspath(opstep.__file__)) + os.sep


def manager(given: Any) -> Any:
    """The replacement of a manager."""
    if isinstance(given, no_grad):
        return _NoGradients()
    if isinstance(given, guard):
        return contextlib.nullcontext()
    if _known(given):
        return given
    if state.regions:
        raise error_here(
            f"a 'with' of {type(given).__name__} is inside the {state.regions[-1].what}, which "
            "depends on a tensor, but is entered while the program is built, not while it runs: "
            "move it out"
        )
    return _Unknown(given)


def _known(given: Any) -> bool:
    """Is it one of opstep's, or one that does nothing?"""
    if isinstance(given, contextlib.nullcontext) or type(given).__module__.startswith("opstep."):
        return True
    generator = getattr(given, "gen", None)
    code = getattr(generator, "gi_code", None)
    return code is not None and code.co_filename.startswith(_PACKAGE)


class _Unknown:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __enter__(self) -> Any:
        entered = self._inner.__enter__()
        state.managers.append(self._inner)
        return entered

    def __exit__(self, *error: Any) -> Any:
        state.managers.pop()
        return self._inner.__exit__(*error)


class _NoGradients:
    """No gradient flows through ops that are made inside."""

    def __enter__(self) -> None:
        self._program = context.default_main_program()
        self._before = self._made()

    def __exit__(self, *_: Any) -> None:
        block = self._program.current_block()
        for op in self._made() - self._before:
            for names in self._program._core.op(op)["outputs"].values():
                for name in names:
                    block.var(name).stop_gradient = True

    def _made(self) -> set[int]:
        return set(self._program._core.op_ids(self._program._current))
