"""`opstep run --data train.rec`: record files instead of a program's own data."""

from __future__ import annotations

import os
from collections.abc import Sequence

from opstep import _core, ops
from opstep._core import Error
from opstep.program import Operator, Program, file_path
from opstep.readers.pipelines import Field, described


def replace(program: Program, given: Sequence[str], skip_damaged: bool = False) -> set[int]:
    """Let readers read other files: PATH is for the first loop, NAME=PATH for a loop or a reading
    op. Returns the ids of the ops that now read the user's files. With `skip_damaged`, all readers
    of record files leave out damaged records."""
    damaged = "skip" if skip_damaged else "fail"
    paths: dict[int, list[str]] = {}
    for text in given:
        op, path = _target(program, text)
        paths.setdefault(op, []).append(file_path(path))
    for op, files in paths.items():
        _check(program, Operator(program, op), files, damaged)
        attrs = {"paths": files, "damaged": damaged}
        _core.replace_op(program._core, op, ops.read_records.type, attrs)
    if skip_damaged:
        for op in _core.sources(program._core):
            if Operator(program, op).type == ops.read_records.type:
                _core.set_attr(program._core, op, "damaged", "skip")
    return set(paths)


def check_trusted(program: Program, known: set[int], allowed: bool) -> None:
    """A program may come from anywhere: it touches files only when it is trusted."""
    op = "" if allowed else _core.file_op(program._core, known)
    if not op:
        return
    if any(op.startswith(f"#{source} ") for source in _core.sources(program._core)):
        raise Error(
            f"program '{program.name}' names the data that it reads by itself (op {op}): give "
            "yours with --data FILE.rec, or if you trust it, add --allow-files"
        )
    raise Error(
        f"program '{program.name}' reads or writes files by itself (op {op}): "
        "if you trust it, add --allow-files"
    )


def _target(program: Program, text: str) -> tuple[int, str]:
    loops = _core.loops(program._core)
    names = {loop["name"]: loop["sources"] for loop in loops}
    for op in _core.sources(program._core):
        names[Operator(program, op).name] = [op]
    name, equals, path = text.partition("=")
    if not equals or (name not in names and os.path.exists(text)):
        name, path = (loops[0]["name"] if loops else ""), text
    if name not in names:
        near = _core.nearest(name, list(names))
        hint = f"; did you mean '{near}'?" if near else ""
        there = ", ".join(names) or "none"
        raise Error(f"--data {text}: program '{program.name}' reads data in {there}{hint}")
    if len(names[name]) != 1:
        several = ", ".join(Operator(program, op).name for op in names[name]) or "no op that it has"
        raise Error(f"--data {text}: the data of '{name}' come from {several}: name one of them")
    return names[name][0], path


def _check(program: Program, op: Operator, files: list[str], damaged: str) -> None:
    (made,) = (name for names in op.outputs.values() for name in names)
    wanted = [
        Field(name, dtype, tuple(shape), level)
        for name, dtype, shape, level in program._core.fields(op.block.index, made)
    ]
    there = [
        Field(name, dtype, tuple(shape))
        for name, dtype, shape in _core.open_records(files, damaged).fields()
    ]
    if wanted and wanted != there:
        raise Error(
            f"'{files[0]}' has records of {described(there)}, but '{op.name}' of program "
            f"'{program.name}' gives {described(wanted)}: write files with the same fields"
        )
