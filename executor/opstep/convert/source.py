"""The source of a function: its part of the parsed file, with the file's own line numbers."""

from __future__ import annotations

import ast
import copy
import inspect
import linecache
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from opstep._core import Error
from opstep.convert.user_errors import error_at

Function = ast.FunctionDef | ast.Lambda
_Found = tuple[Function, str]

_ENDLESS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_LATER = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE


class Source(NamedTuple):
    node: Function
    file: str
    # The class whose methods' private names are written out; "" outside of classes.
    owner: str


def is_generator(code: CodeType) -> bool:
    """Does a call only begin it, as with generators and coroutines?"""
    return bool(code.co_flags & (_ENDLESS | _LATER))


def source_of(function: FunctionType) -> Source:
    """A copy of the function's syntax tree; an error if there is none to convert."""
    code = function.__code__
    name, file, line = function.__qualname__, code.co_filename, code.co_firstlineno
    if code.co_flags & _LATER:
        raise error_at(
            f"'{name}' is asynchronous, and a program has nothing to wait for: make it a plain "
            "function",
            file,
            line,
        )
    lines = linecache.getlines(file, function.__globals__)
    if not lines:
        raise error_at(
            f"'{name}' cannot be converted without its source: write it into a file", file, line
        )
    try:
        found = _functions(file, "".join(lines)).get(line, [])
    except SyntaxError:
        found = []
    found = _innermost([each for each in found if _fits(each[0], code)], code)
    if not found:
        raise error_at(
            f"'{name}' is no longer where it was in its file: start Python again", file, line
        )
    if len(found) > 1:
        raise error_at(
            "there are several lambdas on this line, so it is not clear which one to convert: "
            "write each on its own line",
            file,
            line,
        )
    node, owner = found[0]
    if code.co_flags & _ENDLESS:
        raise error_at(
            f"'{name}' is a generator, and a program gives all its results at once: collect them "
            "in a list and return that",
            file,
            _line_of_yield(node),
        )
    return Source(copy.deepcopy(node), file, owner)


def _fits(node: Function, code: CodeType) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name == code.co_name
    if code.co_name != "<lambda>":
        return False
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    arguments += [each for each in (node.args.vararg, node.args.kwarg) if each is not None]
    if _number_of_arguments(code) != len(arguments):
        return False
    if tuple(each.arg for each in arguments) != code.co_varnames[: len(arguments)]:
        return False
    # The instructions of a lambda lie within its body.
    begin, end = _extent(node)
    return all(begin <= (p[0], p[2]) and (p[1], p[3]) <= end for p in _places(code))


def _number_of_arguments(code: CodeType) -> int:
    more = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + more


def _places(code: CodeType) -> list[Any]:
    """The positions of the instructions; none where Python does not give them."""
    if not hasattr(code, "co_positions"):
        return []
    return [p for p in code.co_positions() if None not in p and p[3] != 0]


def _extent(node: Function) -> tuple[Any, Any]:
    body = node.body if isinstance(node, ast.Lambda) else node
    return (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)


def _innermost(found: list[_Found], code: CodeType) -> list[_Found]:
    """Without lambdas that contain another lambda: their instructions begin before it."""
    if not _places(code):
        return found
    extents = [_extent(node) for node, _ in found]

    def around(a: tuple[Any, Any]) -> bool:
        return any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in extents)

    return [each for each, own in zip(found, extents, strict=True) if not around(own)]


@lru_cache(maxsize=64)
def _functions(file: str, text: str) -> dict[int, list[_Found]]:
    """By the line on which they begin; a decorated one begins with its first decorator."""
    found: dict[int, list[_Found]] = {}

    def visit(node: ast.AST, owner: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = child.name if isinstance(child, ast.ClassDef) else owner
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                first = child.decorator_list[0] if child.decorator_list else child
                if isinstance(child, ast.FunctionDef):
                    found.setdefault(first.lineno, []).append((child, owner))
            elif isinstance(child, ast.Lambda):
                found.setdefault(child.lineno, []).append((child, owner))
            visit(child, inside)

    visit(ast.parse(text, file), "")
    return found


def _line_of_yield(node: ast.AST) -> int:
    for each in ast.walk(node):
        if isinstance(each, ast.Yield | ast.YieldFrom):
            return each.lineno
    raise Error("a generator without a yield")
