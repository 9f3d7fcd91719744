"""The feeds of `opstep run`: arrays from files, or random arrays."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from opstep import _core
from opstep._core import Error
from opstep.program import Program, file_path
from opstep.ragged import Ragged
from opstep.variable import type_text

# Steps of the longest random sequence.
_LONGEST = 16


def feeds_of(args: argparse.Namespace, program: Program, feeds: list[str]) -> dict[str, Any]:
    """The values of all feeds. A ragged one comes from two files, its rows and its offsets."""
    offsets = program._core.offsets_of(feeds)
    known = [*feeds, *(name for levels in offsets.values() for name in levels)]
    values: dict[str, Any] = {}
    for name, path in args.given:
        if name not in known:
            near = _core.nearest(name, known)
            hint = f"; did you mean '{near}'?" if near else ""
            takes = ", ".join(f"'{feed}'" for feed in feeds) or "nothing"
            raise Error(f"there is no feed '{name}': program '{program.name}' is fed {takes}{hint}")
        if name in values:
            raise Error(f"'{name}' is fed twice")
        values[name] = _core.read_array(file_path(path))
    rng = np.random.default_rng(args.seed)
    for name in feeds:
        levels = offsets.get(name, [])
        missing = [each for each in (name, *levels) if each not in values]
        if not missing:
            values |= {name: _ragged(name, values, levels)} if levels else {}
        elif args.random and len(missing) == 1 + len(levels):
            values[name] = _random(program, name, args.batch, rng)
        else:
            kind = type_text(program.global_block().var(missing[0]))
            raise Error(
                f"'{missing[0]}' must be fed: it is {kind}; give --feed {missing[0]}=FILE.npy, "
                "or --random"
            )
    return {name: values[name] for name in feeds}


def _ragged(name: str, values: dict[str, Any], levels: list[str]) -> Ragged:
    try:
        return Ragged.from_offsets(values[name], *(values[level] for level in levels))
    except Error as error:
        raise Error(f"cannot feed '{name}': {error}") from None


def _random(program: Program, name: str, batch: int, rng: np.random.Generator) -> Any:
    """An array with `batch` rows, or that many sequences."""
    variable = program.global_block().var(name)
    if variable.dtype == "bfloat16":
        raise Error(f"'{name}' is bfloat16, which NumPy does not have: it cannot be fed")
    rows, levels = batch, []
    for _ in range(variable.lod_level):
        lengths = rng.integers(1, _LONGEST + 1, rows)
        levels.append(np.concatenate([[0], np.cumsum(lengths)]))
        rows = int(levels[-1][-1])
    sizes = [batch if size is None else size for size in variable.shape]
    shape = [rows, *sizes[1:]] if levels else sizes
    try:
        if variable.dtype.startswith("float"):
            array = rng.random(shape).astype(variable.dtype)
        else:
            array = rng.integers(0, 2, shape).astype(variable.dtype)
    except (MemoryError, ValueError):
        raise Error(f"'{name}' would be {variable.dtype}{shape}, which is too large") from None
    return Ragged.from_offsets(array, *levels) if levels else array
