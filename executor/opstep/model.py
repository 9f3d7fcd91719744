"""Models in directories, parameters in files. Loading is safe for any file: no pickle, sizes
checked before memory is taken, no path that leads out of the directory.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from opstep import _core, context, ops, owners
from opstep._core import Error
from opstep.executor import Scope, _default, global_scope, scope_for
from opstep.origins import names_in
from opstep.program import _FILE_LIMIT, Program, file_path
from opstep.variable import Parameter, Variable

Path = str | os.PathLike[str]

_MANIFEST = "model.json"
_PROGRAM = "program.opstep"
_PARAMETERS = "params.safetensors"
_FORMAT = "opstep model"
_VERSION = 1
# Names of feeds and fetches, and of two files: a few kilobytes.
_MANIFEST_LIMIT = 1 << 20


class Model(NamedTuple):
    """The result of `load_model`."""

    program: Program
    feeds: list[str]
    fetches: list[str]


def save_model(
    directory: Path,
    feeds: Sequence[str | Variable],
    fetches: Sequence[str | Variable],
    program: Program | None = None,
    scope: Scope | None = None,
    inside: bool = False,
) -> None:
    """Write the part that computes `fetches` from `feeds`, with its parameters, into one directory.

    Gradients and the training step are left out, and layers such as dropout are set to behave as
    in a test. The directory is made when it is not there.

    With `inside`, the parameters are not written now but by the program itself: an op is added to
    its current block that replaces their file, whole, whenever it runs.
    """
    program = _default() if program is None else program
    scope = scope_for(program, scope)
    feed_names = names_in(program, feeds, "cannot save a model fed with")
    fetch_names = names_in(program, fetches, "cannot save a model of")
    part = _inference(program, feed_names, fetch_names)
    home = file_path(directory)
    try:
        if not os.path.isdir(home):
            os.mkdir(home)
    except OSError as error:
        raise Error(f"cannot make the directory '{home}': {error.strerror}") from None
    paths = {name: os.path.join(home, name) for name in (_PROGRAM, _PARAMETERS)}
    kept = _persistables(part)
    if inside:
        _drop_others(paths, part)
        _save_inside(os.path.abspath(paths[_PARAMETERS]), program, [v.name for v in kept])
    else:
        _write(paths[_PARAMETERS], part, kept, scope)
    part.save(paths[_PROGRAM])
    _write_manifest(
        os.path.join(home, _MANIFEST),
        {
            "format": _FORMAT,
            "version": _VERSION,
            "program": _PROGRAM,
            "parameters": _PARAMETERS,
            "feeds": feed_names,
            "fetches": fetch_names,
            "inside": inside,
            # A half-overwritten model must not pass for a whole one. Files that the program writes
            # itself have no digest yet.
            "sha256": {
                name: _digest(path)
                for name, path in paths.items()
                if not (inside and name == _PARAMETERS)
            },
        },
    )


def load_model(directory: Path, scope: Scope | None = None) -> Model:
    """Read a model's program and put its parameters into the scope: all of it, or nothing.

    The result can be used as `program, feeds, fetches = load_model(...)`.
    """
    scope = global_scope() if scope is None else scope
    model, manifest = _open(directory)
    path = _checked(file_path(directory), manifest, manifest["parameters"])
    if manifest.get("inside") is True and not os.path.lexists(path):
        raise Error(
            f"the model in '{file_path(directory)}' has no parameters yet: run the program that "
            "saves them"
        )
    owners.enter(model.program, owners.new_owner(model.program))
    _read(path, model.program, _persistables(model.program), scope)
    return model


def model_without_values(directory: Path) -> Model:
    """Like `load_model`, but without reading the file of parameters."""
    return _open(directory)[0]


def save_params(path: Path, program: Program | None = None, scope: Scope | None = None) -> None:
    """Write the values of the program's parameters to a safetensors file."""
    program = _default() if program is None else program
    _write(path, program, program.parameters(), scope)


def load_params(path: Path, program: Program | None = None, scope: Scope | None = None) -> None:
    """Put the program's parameters into the scope, from a safetensors file that has them all."""
    program = _default() if program is None else program
    scope = global_scope() if scope is None else scope
    _read(path, program, program.parameters(), scope)
    _fill_others(program, scope, {p.name for p in program.parameters()})


def save_checkpoint(path: Path, program: Program | None = None, scope: Scope | None = None) -> None:
    """Write everything that training needs to resume to a safetensors file: parameters, the
    optimizer's state, learning rates and other persistable variables."""
    program = _default() if program is None else program
    _write(path, program, _persistables(program), scope)


def load_checkpoint(path: Path, program: Program | None = None, scope: Scope | None = None) -> None:
    """Put all that `save_checkpoint` wrote back into the scope."""
    program = _default() if program is None else program
    scope = global_scope() if scope is None else scope
    _read(path, program, _persistables(program), scope)
    for flag in program._core.once_flags():  # the first values must not replace these
        scope.set(owners.key(program, flag, scope), True)


# --- values -------------------------------------------------------------------------------------


def _write(
    path: Path, program: Program, variables: Sequence[Variable], scope: Scope | None
) -> None:
    scope = global_scope() if scope is None else scope
    for variable in variables:
        owners.check(program, variable.name, scope)
    keys = [(name, owners.key(program, name, scope)) for name in _types(variables)]
    _core.write_tensors(file_path(path), scope._core, keys)


def _read(path: Path, program: Program, variables: Sequence[Variable], scope: Scope) -> None:
    names = [variable.name for variable in variables]
    for name in names:
        owners.check(program, name, scope, file_path(path))
    keys = {name: owners.key(program, name, scope) for name in names}
    _core.read_tensors(file_path(path), scope._core, _types(variables), keys)
    owners.claim(program, scope, names)


def _fill_others(program: Program, scope: Scope, loaded: Container[str]) -> None:
    """Give the other variables their first values now: in a new scope, the first run of a merged
    program would replace what was loaded."""
    flags = program._core.once_flags()
    keys = {flag: owners.key(program, flag, scope) for flag in flags}
    due = [flag for flag, key in keys.items() if key not in scope or not scope.find(key)]
    if not due:
        return
    first = Scope()
    program.prune(due).run(scope=first)
    for name in first.names():
        if name not in loaded:
            scope.set(owners.key(program, name, scope), first.find(name))


def _persistables(program: Program) -> list[Variable]:
    """The persistable variables, except flags that say whether the others have first values."""
    found: dict[str, Variable] = {}
    flags = program._core.once_flags()
    for block in program.blocks:
        for name, variable in block.vars.items():
            if (isinstance(variable, Parameter) or variable.persistable) and name not in flags:
                found.setdefault(name, variable)
    return list(found.values())


def _save_inside(path: str, program: Program, names: Sequence[str]) -> None:
    block = program.current_block()
    with context.program_guard(program):
        name = program.unique_name("save_model")
        ops.save_combined([block.var(n) for n in names], path=path, name=name)


def _drop_others(paths: Mapping[str, str], part: Program) -> None:
    """The parameters of another model must not pass for this one's. A script that is started again
    saves the same program."""
    program, parameters = paths[_PROGRAM], paths[_PARAMETERS]
    if os.path.isfile(program) and part.to_bytes() == _core.read_file(program, _FILE_LIMIT):
        return
    try:
        os.unlink(parameters)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise Error(f"cannot replace '{parameters}': {error.strerror}") from None


def _types(variables: Iterable[Variable]) -> dict[str, tuple[str, list[int]]]:
    types: dict[str, tuple[str, list[int]]] = {}
    for variable in variables:
        sizes = [size for size in variable.shape if size is not None]
        if len(sizes) != len(variable.shape):
            raise Error(f"'{variable.name}' is persistable, so all its sizes must be known")
        types[variable.name] = (variable.dtype, sizes)
    return types


# --- the program --------------------------------------------------------------------------------


def _inference(program: Program, feeds: Sequence[str], fetches: Sequence[str]) -> Program:
    """The part that computes the fetches, which must need just these feeds."""
    if not fetches:
        raise Error("a model needs something to fetch: name the variables that it is to compute")
    block = program.global_block()
    for name in (*feeds, *fetches):
        block.var(name)  # says what is wrong with the name
    part = program.clone(for_test=True).prune(list(fetches), name=program.name, filled=True)
    needed = part._core.feed_names()
    for name in needed:
        if name not in feeds:
            raise Error(f"to compute {_list(fetches)} the model must be fed '{name}' too")
    for name in feeds:
        if name not in needed:
            raise Error(f"to compute {_list(fetches)} nothing reads '{name}': do not feed it")
    _check_files(part, f"program '{program.name}'")
    return part


def _list(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _check_files(program: Program, what: str) -> None:
    """Running a model must not touch files: it may come from anywhere."""
    op = _core.file_op(program._core)
    if op:
        raise Error(f"{what} cannot be a model: its op {op} reads or writes files by itself")


def _check_names(program: Program, feeds: Sequence[str], fetches: Sequence[str], home: str) -> None:
    if sorted(feeds) != sorted(program._core.feed_names()):
        needed = _list(program._core.feed_names()) or "nothing"
        raise Error(
            f"the model in '{home}' must be fed {needed}, but its {_MANIFEST} says otherwise"
        )
    known = program.global_block().vars
    for name in fetches:
        if name not in known:
            raise Error(f"the model in '{home}' has no variable '{name}', which it should give")


def _open(directory: Path) -> tuple[Model, dict[str, Any]]:
    """The model's program, checked, and its manifest."""
    home = file_path(directory)
    if not os.path.isdir(home):
        raise Error(f"there is no model directory '{home}'")
    manifest = _read_manifest(home)
    program = Program.load(_checked(home, manifest, manifest["program"]))
    _check_files(program, f"the model in '{home}'")
    _check_names(program, manifest["feeds"], manifest["fetches"], home)
    return Model(program, manifest["feeds"], manifest["fetches"]), manifest


# --- the directory ------------------------------------------------------------------------------


def _write_manifest(path: str, manifest: Mapping[str, Any]) -> None:
    import json

    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    _core.write_file(path, text.encode())


def _read_manifest(home: str) -> dict[str, Any]:
    import json

    path = _member(home, _MANIFEST)
    data = _core.read_file(path, _MANIFEST_LIMIT)
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError):
        raise Error(f"'{path}' is not proper JSON, or a part of it is missing") from None
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise Error(f"'{path}' does not describe an opstep model")
    if manifest.get("version") != _VERSION:
        raise Error(f"'{path}' has a version that is not known here; this opstep reads {_VERSION}")
    manifest.setdefault("sha256", {})
    good = (
        _is_text(manifest.get("program"), manifest.get("parameters"))
        and all(isinstance(manifest.get(key), list) for key in ("feeds", "fetches"))
        and _is_text(*manifest["feeds"], *manifest["fetches"])
        and isinstance(manifest["sha256"], dict)
    )
    if not good:
        raise Error(f"'{path}' is not complete: it must name program, parameters, feeds, fetches")
    return manifest


def _is_text(*values: Any) -> bool:
    try:
        return all(isinstance(value, str) and value.encode() is not None for value in values)
    except UnicodeEncodeError:  # half of a character
        return False


def _member(home: str, name: str) -> str:
    """The path of a file in the directory, and nowhere else."""
    path = os.path.join(home, name)
    inside = os.path.realpath(home)
    if (
        not name
        or not name.isprintable()
        or os.path.basename(name) != name
        or os.path.dirname(os.path.realpath(path)) != inside
    ):
        raise Error(f"the model in '{home}' names the file {name!r}, which is not in its directory")
    return path


def _checked(home: str, manifest: Mapping[str, Any], name: str) -> str:
    """The path of a file of the model, which must be the one that it was saved with."""
    path = _member(home, name)
    wanted = manifest["sha256"].get(name)
    if wanted is not None and os.path.isfile(path) and _digest(path) != wanted:
        raise Error(
            f"'{path}' is not the file that the model was saved with: it was changed, or the "
            "model was saved only in part; save it again"
        )
    return path


def _digest(path: str) -> str:
    import hashlib

    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise Error(f"cannot read '{path}': {error.strerror}") from None
    return digest.hexdigest()
