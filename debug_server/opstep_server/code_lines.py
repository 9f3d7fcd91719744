"""The lines of a Python file that have code: an op can be made on no other line."""

from __future__ import annotations

import ast
import types
import warnings
from collections.abc import Iterator


def lines_with_code(path: str) -> set[int] | None:
    """None when it is not known, as for a file that cannot be read or is not Python's."""
    read = _read(path)
    if read is None:
        return None
    tree, code = read
    # The program's Python may give a call of several lines another one of them.
    starts = {node.lineno for node in ast.walk(tree) if hasattr(node, "lineno")}
    return starts.union(*map(_lines, _parts(code)))


def lines_of_function(path: str, function: str, line: int) -> set[int]:
    """Those with code of the function that has this line, without functions inside it."""
    read = _read(path)
    if read is None:
        return set()
    name = function.rpartition(".")[2]
    own = [_lines(part) for part in _parts(read[1]) if part.co_name == name]
    return set().union(*(lines for lines in own if line in lines))


def _read(path: str) -> tuple[ast.Module, types.CodeType] | None:
    try:
        with open(path, "rb") as file:
            text = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, path)
            _drop_strings(tree)
            return tree, compile(tree, path, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _lines(code: types.CodeType) -> set[int]:
    return {line for *_, line in code.co_lines() if line}


def _drop_strings(tree: ast.AST) -> None:
    """Takes out docstrings and other constants that are statements."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if not isinstance(body, list):
                continue
            kept = [each for each in body if not _is_string(each)]
            if not kept and body and not isinstance(node, ast.Module):
                kept = [ast.copy_location(ast.Pass(), node)]
            body[:] = kept


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _parts(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _parts(constant)
