"""A function object for the converted code of another function, over the same globals and cells."""

from __future__ import annotations

import ast
import os
import sysconfig
import threading
from types import CellType, CodeType, FunctionType
from typing import Any

import opstep
from opstep.convert.jumps import RUNTIME
from opstep.convert.names import check_convertible
from opstep.convert.rewrite import rewrite
from opstep.convert.source import Source, is_generator, source_of

_LIBRARIES = tuple(
    {os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib")}
    | {os.path.join(os.path.dirname(os.path.abspath(opstep.__file__)), ""), "<frozen "}
)
_INSTALLED = ("/site-packages/", "/dist-packages/")
# Compiler flags that `from __future__ import` sets.
_FUTURE = 0x1FF0000

# Equal code of two files is not the same: its lines belong to one of them.
_codes: dict[tuple[str, CodeType], CodeType] = {}
# All code made here, with its inner functions.
_made: set[tuple[str, CodeType]] = set()
_lock = threading.Lock()


def convertible(function: FunctionType) -> bool:
    """Is it the user's own and of a kind that can be converted?"""
    code = function.__code__
    file = code.co_filename
    if (file, code) in _made or is_generator(code) or file.startswith("<string"):
        return False
    if file.startswith(_LIBRARIES) or any(part in file for part in _INSTALLED):
        return False
    return os.path.exists(file) or bool(_lines(function))


def _lines(function: FunctionType) -> list[str]:
    import linecache

    return linecache.getlines(function.__code__.co_filename, function.__globals__)


def converted(function: FunctionType) -> FunctionType:
    """The same function with control flow that programs can have."""
    from opstep.convert import runtime

    code = function.__code__
    key = (code.co_filename, code)
    if key in _made:
        return function
    with _lock:
        made = _codes.get(key)
        if made is None:
            made = _codes[key] = _compiled(source_of(function), code)
            _remember(made)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells[RUNTIME] = CellType(runtime)
    closure = tuple(cells[name] for name in made.co_freevars)
    copy = FunctionType(made, function.__globals__, function.__name__, None, closure)
    copy.__defaults__, copy.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    copy.__dict__.update(function.__dict__)
    return copy


def _compiled(source: Source, code: CodeType) -> CodeType:
    node = source.node
    check_convertible(node, source.file)
    rewrite(node, source.owner)
    # Set when the function was made: copied from it.
    node.args.defaults, node.args.kw_defaults = [], [None] * len(node.args.kwonlyargs)
    inner: ast.stmt
    if isinstance(node, ast.FunctionDef):
        node.decorator_list, node.returns = [], None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        inner = node
    else:
        inner = ast.copy_location(ast.Expr(node), node)
    # Its free names are those of a function around it.
    names = [*code.co_freevars, RUNTIME]
    outer = ast.parse(f"def {RUNTIME}_around({', '.join(names)}): pass")
    # Its own name is not local there: if it calls itself, it uses the module's name.
    body: list[ast.stmt] = [inner]
    if isinstance(inner, ast.FunctionDef) and inner.name not in names:
        body.insert(0, ast.Global([inner.name]))
    outer.body[0].body = body  # type: ignore[attr-defined]
    ast.copy_location(outer.body[0], node)
    ast.fix_missing_locations(outer)
    flags = code.co_flags & _FUTURE
    module = compile(outer, source.file, "exec", flags=flags, dont_inherit=True)
    (around,) = _codes_in(module)
    return _named(next(c for c in _codes_in(around) if c.co_name == code.co_name), code)


def _codes_in(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _named(code: CodeType, like: CodeType) -> CodeType:
    """The code with the qualified names of the original, which stacks show."""
    if not hasattr(code, "co_qualname"):
        return code
    prefix = code.co_qualname

    def rename(part: CodeType) -> CodeType:
        consts = tuple(rename(c) if isinstance(c, CodeType) else c for c in part.co_consts)
        changes: dict[str, Any] = {"co_consts": consts}
        if part.co_qualname.startswith(prefix):
            changes["co_qualname"] = like.co_qualname + part.co_qualname[len(prefix) :]
        return part.replace(**changes)

    return rename(code)


def _remember(code: CodeType) -> None:
    _made.add((code.co_filename, code))
    for each in _codes_in(code):
        _remember(each)
