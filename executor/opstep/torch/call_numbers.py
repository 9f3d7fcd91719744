"""Which call of a function, and which execution of its line, made an op of a traced graph.

A trace has lines, but does not say where one call of a function ends and the next begins. The
modules that were running, the order of the nodes and the columns of their calls do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opstep.torch.source_lines import Line, Origin

_FRAMES = 128  # as in executor/ir/program.h


@dataclass
class _Frame:
    line: Line
    module: Any  # the module whose forward it is, or None
    inner: Any  # the first module that was called from it, or None
    made: str  # the traced call, if it is the innermost frame
    call: int
    visit: int


class CallKeys:
    """Keys of calls and visits for the nodes of a forward graph, outermost first."""

    def __init__(self) -> None:
        self._stack: list[_Frame] = []
        self._last = 0

    def of(self, origin: Origin) -> list[tuple[int, int]]:
        stack: list[_Frame] = []
        same = True  # every frame so far is in the same execution of its line
        before = self._stack
        frames = _with_modules(origin)
        for depth, (line, module, inner) in enumerate(frames):
            innermost = depth == len(frames) - 1
            made = origin.call if innermost else ""
            old = before[depth] if same and depth < len(before) else None
            if old is not None and (_code(old.line), old.module) != (_code(line), module):
                old = None
            call = self._new() if old is None else old.call
            same = old is not None and _goes_on(old, line, inner, made)
            visit = old.visit if same and old is not None else self._new()
            stack.append(_Frame(line, module, inner, made, call, visit))
        self._stack = stack
        return [(frame.call, frame.visit) for frame in stack]

    def _new(self) -> int:
        self._last += 1
        return self._last


def _code(line: Line) -> tuple[str, str]:
    return line.file, line.function


def _goes_on(old: _Frame, line: Line, inner: Any, made: str) -> bool:
    """Is it the same execution of the line?"""
    if old.line.line != line.line:
        return False
    if not old.line.column or not line.column or old.line.column < line.column:
        return True
    if line.column < old.line.column:
        return False  # it went back
    # The same place again: another module, or another call of a function.
    return old.inner == inner and (not made or not old.made or old.made == made)


def _with_modules(origin: Origin) -> list[tuple[Line, Any, Any]]:
    """Each frame with the module whose forward it is, and the first module called from it."""
    lines, modules = origin.lines, origin.modules
    of: list[int | None] = [None] * len(lines)
    own = [i for i, module in enumerate(modules) if module.own]
    for depth in range(len(lines) - 1, -1, -1):
        if lines[depth].function == "forward" and own:
            of[depth] = own.pop()
    made: list[tuple[Line, Any, Any]] = []
    for depth, line in enumerate(lines):
        index = of[depth]
        around = max((i for i in of[: depth + 1] if i is not None), default=-1)
        inner = modules[around + 1].path if around + 1 < len(modules) else None
        made.append((line, None if index is None else modules[index].path, inner))
    return made


class CallNumbers:
    """The numbers of calls and visits in one program, by their keys: the first op that was made in
    them, and the place of the frame in its stack."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def of(self, op: int, keys: list[tuple[Any, Any]]) -> tuple[list[int], list[int]]:
        """Of the next op, which gets this id; innermost first."""
        calls, visits = [], []
        for place, (call, visit) in enumerate(reversed(keys)):
            own = op * _FRAMES + min(place, _FRAMES - 1)
            calls.append(self._numbers.setdefault(("call", call), own))
            visits.append(self._numbers.setdefault(("visit", visit), own))
        return calls, visits
