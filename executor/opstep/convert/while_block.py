"""`with opstep.while_(…)`: a loop whose body is the inside of the `with`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from opstep.context import _context, program_guard
from opstep.convert.branches import truth
from opstep.convert.loops import Loop
from opstep.convert.merged_values import TRUTH, made, mapped
from opstep.convert.number import Number
from opstep.convert.state import is_tensor, unwinding
from opstep.convert.trace import Trace, recording
from opstep.convert.user_errors import error_here, line_here
from opstep.executor import Executor, Scope
from opstep.imperative.value import Value, to_variable
from opstep.layers import data
from opstep.ops import assign
from opstep.program import Program

_NO_GRADIENT = (
    "no gradient flows through 'with while_' in imperative mode: use while_loop or Python's own "
    "while, or put it into 'with imperative.no_grad()'"
)


class while_:
    """Repeats the inside of the `with` for as long as `cond(*loop_vars)` holds:

    with opstep.while_(lambda i, x: i < 10, (i, x)) as loop:
        i, x = loop.vars
        loop.next(i + 1, x * 2.0)
    i, x = loop.vars

    Python goes through the inside once, with variables of a program. In imperative mode that
    program runs at the end of the `with`, and `vars` are values again; no gradient flows through
    it: see `while_loop`.
    """

    def __init__(self, cond: Callable[..., Any], loop_vars: Sequence[Any]) -> None:
        self._cond = cond
        self.vars: tuple[Any, ...] = tuple(loop_vars)
        """The current values of the loop's variables."""
        self._next: tuple[Any, ...] | None = None
        self._program: Program | None = None

    def next(self, *values: Any) -> None:
        """Sets the loop's variables for the next turn."""
        if len(values) != len(self.vars):
            raise error_here(
                f"while_ has {len(self.vars)} loop_vars, but next() got {len(values)}: give "
                "each of them"
            )
        self._next = values

    def __enter__(self) -> while_:
        self._loop, self._undo = Loop(), ExitStack()
        try:
            if _context.imperative:
                self._begin_program()
            self._undo.enter_context(unwinding())
            test = self._cond(*self.vars)
            # A Python test may change with the variables: the program asks it.
            known = is_tensor(test)
            self._loop._start = truth(test) if known else made(bool(test), TRUTH)
            names = tuple(f"loop_vars[{n}]" for n in range(len(self.vars)))
            self.vars = self._loop.enter(self.vars, names, (), line_here())
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self._undo.__exit__(kind, error, trace)
            return
        with self._undo:
            if self._next is None:
                raise error_here(
                    "the loop would never end: its 'with' has not said what its variables become, "
                    "with loop.next(...)"
                )
            self._loop.leave(self._next)
            if self._loop.go(self._cond(*self._next)):
                raise error_here(
                    "a loop variable is a Python number at first and something else after a turn: "
                    "give while_ a tensor for it"
                )
            self.vars = self._loop.end(self._next)
            if self._program is not None:
                self.vars = self._run(self._program)

    # --- imperative mode

    def _begin_program(self) -> None:
        self._program, scope = Program("loop"), Scope()
        self._program._scope = scope
        self._feeds: dict[str, np.ndarray] = {}
        self._recording = recording()

        def declare(value: Any) -> Any:
            if not isinstance(value, Value):
                return value
            if not value.stop_gradient and self._recording:
                raise error_here(_NO_GRADIENT)
            name = f"var_{len(self._feeds)}"
            self._feeds[name] = value.numpy()
            return data(name, value.shape, value.dtype)

        self._startup = Program("loop_startup")
        self._trace = Trace(self._program, scope, own=True)
        self._trace.seed()
        self._undo.enter_context(program_guard(self._program, self._startup))
        self._undo.enter_context(self._trace.entered())
        if _context.layer is not None:
            # In a layer's forward: the program shares the layer's values.
            self._undo.callback(setattr, _context, "building", _context.building)
            _context.building = self._program
        self.vars = tuple(mapped(declare, each) for each in self.vars)

    def _run(self, program: Program) -> tuple[Any, ...]:
        fetches: list[Any] = []
        mapped(lambda v: fetches.append(assign(v)) if is_tensor(v) else None, self.vars)
        self._trace.fill(self._startup)
        if self._recording and self._trace.wants_gradient():
            raise error_here(_NO_GRADIENT)
        found = iter(Executor().run(program, self._feeds, fetches))

        def fill(value: Any) -> Any:
            if not is_tensor(value):
                return value
            array = next(found)
            return array.item() if isinstance(value, Number) else to_variable(array)

        return mapped(fill, self.vars)
