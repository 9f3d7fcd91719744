"""Which call of a function, and which execution of its line, made an op of a traced graph.

A trace has lines, but does not say where one call of a function ends and the next begins. The
modules that were running, the order of the nodes and the columns of their calls do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opstep.torch.source_lines import Line, Origin, without_number

_FRAMES = 128  # as in executor/ir/program.h


@dataclass
class _Frame:
    line: Line
    module: Any  # the module whose forward it is, or None
    call: int
    visit: int
    # In this execution of the line, by place: the traced call there, or the module called there.
    made: dict[Any, Any]


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
            call = origin.call if depth == len(frames) - 1 else ""
            # A call that is traced again has the same name with another number.
            place = (line.column, without_number(call))
            what = call or inner
            old = before[depth] if same and depth < len(before) else None
            if old is not None and (_code(old.line), old.module) != (_code(line), module):
                old = None
            same = (
                old is not None and old.line.line == line.line and old.made.get(place, what) == what
            )
            number = self._new() if old is None else old.call
            if same and old is not None:
                visit, made = old.visit, old.made
            else:
                visit, made = self._new(), {}
            made[place] = what
            stack.append(_Frame(line, module, number, visit, made))
        self._stack = stack
        return [(frame.call, frame.visit) for frame in stack]

    def _new(self) -> int:
        self._last += 1
        return self._last


def _code(line: Line) -> tuple[str, str]:
    return line.file, line.function


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
