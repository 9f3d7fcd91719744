"""`break`, `continue` and `return` inside of other statements, written without jumps.

A jump sets a flag. Statements that it would have skipped go into the other branch of the `if`
around the jump or, where there is none, into an `if` that tests the flags; loops test them too.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, NamedTuple

RUNTIME = "_opstep"
FLAG = "_opstep_flag_"
# The flag of a loop without `else`: nothing reads it after the loop.
ENDED = "ended"
RESULT = "_opstep_result"
_DONE = FLAG + "returned"

_LOOPS = (ast.For, ast.While)
_BODIES = ("body", "orelse", "finalbody")


class _Loop(NamedTuple):
    broken: str
    skipped: str


def without_jumps(body: list[ast.stmt]) -> list[ast.stmt]:
    """The body of a function with at most one return, at its end."""
    lowering = _Lowering()
    inner = [each for statement in body for each in _inner(statement)]
    lowering.returns = "return" in _may(inner)
    if not lowering.returns:
        return lowering.block(body, None)
    last = body[-1]
    if not _always(body):
        body = [*body, at(ast.Return(ast.Constant(None)), last)]
    start = _statements(f"{_DONE} = False", body[0])
    end = _statements(f"return {RUNTIME}.read({RESULT})", last)
    return [*start, *lowering.block(body, None), *end]


class _Lowering:
    def __init__(self) -> None:
        self.returns = False
        self._loops = 0

    def block(self, statements: Sequence[ast.stmt], loop: _Loop | None) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for number, statement in enumerate(statements):
            rest = list(statements[number + 1 :])
            if isinstance(statement, ast.Break | ast.Continue):
                assert loop is not None
                flag = loop.broken if isinstance(statement, ast.Break) else loop.skipped
                return [*out, *_statements(f"{flag} = True", statement)]
            if isinstance(statement, ast.Return) and self.returns:
                return [*out, *self._return(statement)]
            kinds = _may([statement])
            if isinstance(statement, ast.If) and kinds and rest:
                if _always(statement.body):
                    statement.orelse, rest = [*statement.orelse, *rest], []
                elif statement.orelse and _always(statement.orelse):
                    statement.body, rest = [*statement.body, *rest], []
                if not rest:
                    return [*out, *self._lower(statement, loop)]
            out += self._lower(statement, loop)
            if kinds and rest:
                # The statements after it run if none of them jumped.
                free = self._free(kinds, loop, rest[0])
                guard = ast.If(free, self.block(rest, loop), [])
                return [*out, ast.copy_location(guard, rest[0])]
        return out

    def _return(self, statement: ast.Return) -> list[ast.stmt]:
        keep = _statements(f"{RESULT} = None", statement)[0]
        assert isinstance(keep, ast.Assign)
        keep.value = statement.value or keep.value
        return [keep, *_statements(f"{_DONE} = True", statement)]

    def _free(self, kinds: set[str], loop: _Loop | None, like: ast.AST) -> ast.expr:
        flags = [_DONE] if "return" in kinds else []
        if loop is not None:
            flags += [loop.broken] if "break" in kinds else []
            flags += [loop.skipped] if "continue" in kinds else []
        return at(ast.parse(f"{RUNTIME}.free({', '.join(flags)})", mode="eval").body, like)

    def _lower(self, statement: ast.stmt, loop: _Loop | None) -> list[ast.stmt]:
        if isinstance(statement, _LOOPS):
            return self._loop(statement, loop)
        for name in _BODIES:
            inner = getattr(statement, name, None)
            if inner and isinstance(inner, list):
                setattr(statement, name, self.block(inner, loop))
        for each in [*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]:
            each.body = self.block(each.body, loop)
        return [statement]

    def _loop(self, statement: ast.For | ast.While, outer: _Loop | None) -> list[ast.stmt]:
        kinds = _may(statement.body)
        self._loops += 1
        word = "broken" if statement.orelse else ENDED
        loop = _Loop(f"{FLAG}{word}_{self._loops}", f"{FLAG}skipped_{self._loops}")
        ends = kinds & {"break", "return"}
        body = self.block(statement.body, loop)
        if "continue" in kinds:
            body = [*_statements(f"{loop.skipped} = False", statement), *body]
        before = _statements(f"{loop.broken} = False", statement) if "break" in kinds else []
        after: list[ast.stmt] = []
        if ends:
            free = self._free(ends, loop, statement)
            if isinstance(statement, ast.While):
                test = statement.test
                always = isinstance(test, ast.Constant) and test.value is True
                both = free if always else ast.BoolOp(ast.And(), [free, test])
                statement.test = ast.copy_location(both, test)
            else:
                # Kept for loops over anything but a tensor.
                guard = ast.copy_location(ast.If(free, body, []), statement)
                statement.free, body = free, [guard]  # type: ignore[attr-defined]
        statement.body = body
        if statement.orelse:
            otherwise = self.block(statement.orelse, outer)
            if ends:
                again = self._free(ends, loop, statement)
                otherwise = [ast.copy_location(ast.If(again, otherwise, []), statement)]
            after, statement.orelse = otherwise, []
        return [*before, statement, *after]


def at(made: Any, like: ast.AST, line: int = 0) -> Any:
    """Moves it to the first line of `like`: for calls over several lines Python takes the last."""
    for node in ast.walk(made):
        if isinstance(node, ast.expr | ast.stmt):
            node.lineno = node.end_lineno = line or like.lineno  # type: ignore[attr-defined]
            node.col_offset = node.end_col_offset = like.col_offset  # type: ignore[attr-defined]
    return made


def _statements(code: str, like: ast.AST) -> list[ast.stmt]:
    return [at(statement, like) for statement in ast.parse(code).body]


def _inner(statement: ast.stmt) -> list[ast.stmt]:
    """The statements directly inside it."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return []
    inner = [each for name in _BODIES for each in getattr(statement, name, ()) or ()]
    for part in [*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]:
        inner += part.body
    return inner


def _may(statements: Sequence[ast.stmt]) -> set[str]:
    """The jumps that can leave these statements."""
    kinds: set[str] = set()
    for statement in statements:
        if isinstance(statement, ast.Return | ast.Break | ast.Continue):
            kinds.add(type(statement).__name__.lower())
        elif isinstance(statement, _LOOPS):
            kinds |= _may(statement.body) & {"return"} | _may(statement.orelse)
        else:
            kinds |= _may(_inner(statement))
    return kinds


def _always(statements: Sequence[ast.stmt]) -> bool:
    """Do these statements always jump?"""
    for statement in statements:
        if isinstance(statement, ast.Return | ast.Break | ast.Continue | ast.Raise):
            return True
        if isinstance(statement, ast.If) and _always(statement.body) and _always(statement.orelse):
            return True
        if isinstance(statement, ast.With) and _always(statement.body):
            return True
        if isinstance(statement, ast.While) and _endless(statement):
            return True
    return False


def _endless(loop: ast.While) -> bool:
    test = loop.test
    known = isinstance(test, ast.Constant) and test.value is True
    return known and "break" not in _may(loop.body)
