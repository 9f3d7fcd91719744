"""The names that statements give values to."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from opstep.convert.user_errors import error_at

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def stored(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that are given values there, not counting the insides of functions and classes."""
    names: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, _SCOPES):
            if not isinstance(node, ast.Lambda):
                names.add(node.name)
            return
        if isinstance(node, _COMPREHENSIONS):
            # Names of a comprehension end with it, those of `:=` do not.
            inner = (each for each in ast.walk(node) if isinstance(each, ast.NamedExpr))
            names.update(each.target.id for each in inner)
            return
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                names.add(alias.asname or alias.name.split(".")[0])
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
        for child in ast.iter_child_nodes(node):
            visit(child)

    for node in nodes:
        visit(node)
    return names


def arguments(args: ast.arguments) -> set[str]:
    """The names of a function's arguments."""
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {each.arg for each in every if each is not None}


def written_first(body: Sequence[ast.stmt], names: Iterable[str]) -> set[str]:
    """The names that the body sets before it can read them."""
    first: set[str] = set()
    unknown = set(names)
    for statement in body:
        read = _read(statement)
        unknown -= read
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.For):
            first |= unknown & stored(_targets(statement))
            unknown -= first
    return first


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return [statement.target]
    return []


def _read(node: ast.AST) -> set[str]:
    """All names that it reads anywhere, also in its functions."""
    read = {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }
    grown = (each.target for each in ast.walk(node) if isinstance(each, ast.AugAssign))
    return read | {target.id for target in grown if isinstance(target, ast.Name)}


def contains_yield(node: ast.AST) -> bool:
    """Is the function a generator?"""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(child, _SCOPES) and contains_yield(child):
            return True
    return False


def check_convertible(node: ast.FunctionDef | ast.Lambda, file: str) -> None:
    """Rejects statements that have no meaning in a program."""
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef):
            _check_outer_names(each, file)
        elif isinstance(each, ast.AsyncFor | ast.AsyncWith | ast.Await):
            raise error_at(
                "a program has nothing to wait for: leave out 'async'", file, each.lineno
            )


def _check_outer_names(function: ast.FunctionDef, file: str) -> None:
    for each in ast.walk(function):
        if not isinstance(each, ast.Global | ast.Nonlocal):
            continue
        writes = [
            name.lineno
            for name in ast.walk(function)
            if isinstance(name, ast.Name)
            and not isinstance(name.ctx, ast.Load)
            and name.id in each.names
            and (name.lineno, name.col_offset) > (each.lineno, each.col_offset)
        ]
        if writes:
            raise error_at(
                f"{' and '.join(each.names)}: a {type(each).__name__.lower()} name is given a "
                "value, but converted code runs in Python only once, not in each run of the "
                "program: return the new value and keep it outside",
                file,
                min(writes),
            )
