"""Loops that run in imperative mode while gradients are wanted: the tape keeps values of all turns,
which count towards the limit of `opstep.set_loop_memory`."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType

from opstep import _core
from opstep.context import _context

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@contextmanager
def counted() -> Iterator[None]:
    """Around the call of a function whose loops are to be counted in this thread."""
    before = _core.count_loops(_context.imperative)
    try:
        yield
    finally:
        _core.count_loops(before)


def loop_here() -> str | None:
    """The place of the innermost counted loop that runs now: `train.py:41`."""
    found = None
    frame: FrameType | None = sys._getframe().f_back
    while frame is not None:
        code = frame.f_code
        if found is None:
            found = _loop_of(frame)
        if found is not None and code.co_name == "__call__" and _is_ours(code.co_filename):
            return found
        if code.co_name == "while_loop" and _is_ours(code.co_filename) and frame.f_back is not None:
            return found or _place(frame.f_back.f_code.co_filename, frame.f_back.f_lineno)
        frame = frame.f_back
    return None


def _is_ours(file: str) -> bool:
    return file.rsplit("/", 1)[0] == __file__.rsplit("/", 1)[0]


def _loop_of(frame: FrameType) -> str | None:
    """The innermost loop of the frame's function that is at one of its lines."""
    code = frame.f_code
    if code.co_filename.startswith(_PACKAGE):
        return None
    lines = linecache.getlines(code.co_filename, frame.f_globals)
    around = [
        begin
        for function, begin, end in _loops(code.co_filename, "".join(lines))
        if function == code.co_firstlineno and begin <= frame.f_lineno <= end
    ]
    return _place(code.co_filename, max(around)) if around else None


_PACKAGE = __file__.rsplit("/", 2)[0] + "/"


@lru_cache(maxsize=64)
def _loops(file: str, text: str) -> list[tuple[int, int, int]]:
    """The first line of the function around each loop, and the loop's first and last line."""
    found: list[tuple[int, int, int]] = []

    def visit(node: ast.AST, function: int) -> None:
        for child in ast.iter_child_nodes(node):
            inside = function
            if isinstance(child, _FUNCTIONS):
                decorators = getattr(child, "decorator_list", [])
                inside = (decorators[0] if decorators else child).lineno
            elif isinstance(child, ast.While | ast.For | ast.AsyncFor):
                found.append((function, child.lineno, child.body[-1].end_lineno or child.lineno))
            visit(child, inside)

    try:
        visit(ast.parse(text, file), 1)
    except SyntaxError:
        return []
    return found


def _place(file: str, line: int) -> str:
    return f"{file.rsplit('/', 1)[-1]}:{line}"
