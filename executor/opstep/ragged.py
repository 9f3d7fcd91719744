"""Sequences of different lengths: a `Ragged` is fed to a ragged variable or fetched from it.

words = layers.data("words", shape=[None, 16], lod_level=1)
exe.run(main, feed={words: opstep.Ragged([first, second])}, fetch_list=[...])

In a program a ragged variable is an ordinary tensor with the rows of all sequences one after the
other. Companions say where the sequences begin: for each level `<name>@offsets`, and
`<name>@steps`, whose shape says how many steps the longest one has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from opstep import _core
from opstep._core import Error
from opstep.program import Block, Program
from opstep.variable import SequenceLevel, Variable

# The number of sequences that are shown.
_SHOWN = 8


class Ragged:
    """Sequences of different lengths: a list of arrays, kept as one array and offsets.

    `Ragged([[1, 2, 3], [4]])` has two sequences of numbers; rows may be arrays of any one shape.
    With `lod_level=2` it is a list of lists of sequences.
    """

    values: np.ndarray
    """The rows of all sequences, one after the other."""
    levels: tuple[np.ndarray, ...]
    """Where sequences begin, for each level, outermost first: int64[sequences + 1]."""

    def __init__(self, sequences: Sequence[Any], dtype: Any = None, lod_level: int = 1) -> None:
        if lod_level < 1:
            raise Error(f"lod_level is {lod_level}: a Ragged has 1 level of sequences or more")
        lengths: list[list[int]] = [[] for _ in range(lod_level)]
        kind = None if dtype is None else _core.numpy_dtype(dtype)
        parts = list(_parts(sequences, lengths, kind, ""))
        self.values = _joined(parts, kind)
        self.levels = tuple(_offsets(each) for each in lengths)
        # Python's numbers take the dtype of the variable that they are fed to.
        self._any_dtype = kind is None and all(weak for _, weak in parts)

    @classmethod
    def from_offsets(cls, values: Any, *levels: Any) -> Ragged:
        """Rows with the offsets of their sequences; with several levels, the outermost first."""
        rows = np.asarray(values)
        if rows.ndim == 0 or rows.dtype == object:
            raise Error("a Ragged needs an array of rows, one after the other")
        if not levels:
            raise Error("a Ragged needs offsets: where each sequence begins, and the row count")
        checked = [_checked(np.asarray(level)) for level in levels]
        counts = [len(level) - 1 for level in checked[1:]] + [len(rows)]
        for level, count in zip(checked, counts, strict=True):
            if level[-1] != count:
                what = "rows" if level is checked[-1] else "sequences of the next level"
                raise Error(f"the offsets end with {level[-1]}, but there are {count} {what}")
        return cls._made(rows, checked)

    @classmethod
    def _made(cls, values: np.ndarray, levels: Sequence[np.ndarray]) -> Ragged:
        made = cls.__new__(cls)
        made.values, made.levels, made._any_dtype = values, tuple(levels), False
        return made

    @property
    def offsets(self) -> np.ndarray:
        """Where the sequences begin; with several levels, those of the outermost one."""
        return self.levels[0]

    @property
    def lengths(self) -> np.ndarray:
        """The length of each sequence."""
        return np.diff(self.offsets)

    @property
    def lod_level(self) -> int:
        return len(self.levels)

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, key: Any) -> Any:
        """Sequence `key`: an array, or with several levels a Ragged; a Ragged for a slice or
        several numbers."""
        if isinstance(key, int | np.integer):
            if not -len(self) <= key < len(self):
                raise IndexError(f"sequence {key} is not there: there are {len(self)}")
            return self._one(int(key) % len(self))
        numbers = np.arange(len(self))[key]
        chosen = [self._one(int(i)) for i in numbers]
        lengths = [len(part) for part in chosen]
        if self.lod_level == 1:
            rows = np.concatenate([self.values[:0], *chosen])
            return Ragged._made(rows, [_offsets(lengths)])
        inner = self._below(0, 0) if not chosen else _appended(chosen)
        return Ragged._made(inner.values, [_offsets(lengths), *inner.levels])

    def _one(self, number: int) -> Any:
        return self._below(int(self.offsets[number]), int(self.offsets[number + 1]))

    def _below(self, begin: int, end: int) -> Any:
        """The part from `begin` to `end` of the next level, or of the rows."""
        if self.lod_level == 1:
            return self.values[begin:end]
        levels = []
        for level in self.levels[1:]:
            part = level[begin : end + 1]
            begin, end = int(part[0]), int(part[-1])
            levels.append(part - begin)
        return Ragged._made(self.values[begin:end], levels)

    def __iter__(self) -> Iterator[Any]:
        return (self._one(i) for i in range(len(self)))

    def astype(self, dtype: Any) -> Ragged:
        """The same sequences with numbers of another dtype."""
        return Ragged._made(self.values.astype(_core.numpy_dtype(dtype)), self.levels)

    def to_list(self) -> list[Any]:
        """The sequences as nested lists."""
        return [part.to_list() if self.lod_level > 1 else part.tolist() for part in self]

    def __repr__(self) -> str:
        shown = [repr(part).replace("\n", "\n        ") for part in self[:_SHOWN]]
        if len(self) > _SHOWN:
            shown.append(f"… {len(self) - _SHOWN} more")
        level = f", lod_level={self.lod_level}" if self.lod_level > 1 else ""
        return f"Ragged([{(',' + chr(10) + ' ' * 8).join(shown)}]{level})"

    def _repr_html_(self) -> str:
        rows = [
            f"<tr><td>{i}</td><td>{len(part)}</td><td>{escape(_short(part))}</td></tr>"
            for i, part in enumerate(self[:_SHOWN])
        ]
        more = f", of which {_SHOWN} are shown" if len(self) > _SHOWN else ""
        sizes = "".join(f", {size}" for size in self.values.shape[1:])
        caption = f"{len(self)} sequences of {self.dtype}[{len(self.values)} rows{sizes}]{more}"
        head = "<tr><th>sequence</th><th>length</th><th>values</th></tr>"
        lines = [f"<table><caption>{escape(caption)}</caption>", head, *rows, "</table>"]
        return "\n".join(lines)


def _short(part: Any) -> str:
    if isinstance(part, Ragged):
        return ", ".join(map(str, part.lengths[:_SHOWN].tolist())) + " rows"
    return np.array2string(part, threshold=_SHOWN, edgeitems=2).replace("\n", "")


def _parts(
    sequences: Any, lengths: list[list[int]], dtype: Any, place: str
) -> Iterator[tuple[np.ndarray, bool]]:
    """The sequences of the innermost level as arrays, and whether their dtype is just Python's."""
    if not hasattr(sequences, "__len__") or isinstance(sequences, str):
        what = f"sequence {place}" if place else "the value"
        raise Error(f"{what} is {sequences!r}: it must be a list of sequences")
    for number, each in enumerate(sequences):
        here = f"{place}[{number}]" if place else str(number)
        if len(lengths) > 1:
            before = len(lengths[1])
            yield from _parts(each, lengths[1:], dtype, here)
            lengths[0].append(len(lengths[1]) - before)
            continue
        try:
            rows = np.asarray(each, dtype=dtype)
        except (ValueError, TypeError):
            raise Error(f"sequence {here} is not a list of numbers or rows of one shape") from None
        if rows.ndim == 0 or rows.dtype == object:
            raise Error(f"sequence {here} is {each!r}: it must be a list of rows")
        lengths[0].append(len(rows))
        yield rows, not hasattr(each, "dtype")


def _joined(parts: list[tuple[np.ndarray, bool]], dtype: Any) -> np.ndarray:
    """All parts joined. An empty list says nothing about the shape of rows."""
    known = [rows for rows, _ in parts if len(rows) or rows.ndim > 1]
    if not known:
        return parts[0][0] if parts else np.empty(0, dtype or np.float32)
    for rows in known:
        if rows.shape[1:] != known[0].shape[1:]:
            raise Error(
                f"a sequence has rows of shape {list(rows.shape[1:])}, another has rows of "
                f"{list(known[0].shape[1:])}: all must be of one shape"
            )
    return np.concatenate(known)


def _offsets(lengths: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def _checked(offsets: np.ndarray) -> np.ndarray:
    if offsets.ndim != 1 or not len(offsets) or offsets.dtype.kind not in "iu":
        kind = f"{offsets.dtype}{list(offsets.shape)}"
        raise Error(f"offsets must be whole numbers, [sequences + 1], not {kind}")
    if offsets[0] != 0:
        raise Error(f"offsets must begin with 0, not with {offsets[0]}")
    for number, (before, after) in enumerate(pairwise(offsets.tolist())):
        if after < before:
            raise Error(f"offsets must not fall: offsets[{number + 1}] is {after} after {before}")
    return offsets.astype(np.int64)


def _appended(parts: list[Ragged]) -> Ragged:
    levels = [
        _offsets(np.concatenate([np.diff(part.levels[i]) for part in parts]).tolist())
        for i in range(parts[0].lod_level)
    ]
    return Ragged._made(np.concatenate([part.values for part in parts]), levels)


# --- in programs --------------------------------------------------------------------------------


def declare(
    block: Block,
    name: str,
    shape: Sequence[int | None],
    dtype: Any = "float32",
    lod_level: int = 1,
    stop_gradient: bool = False,
) -> Variable:
    """A new ragged variable [rows, …] of the block and its companions. Nothing writes them yet."""
    if lod_level < 1:
        raise Error(f"'{name}': lod_level is {lod_level}, but a ragged variable has 1 or more")
    if not shape or shape[0] is not None:
        raise Error(
            f"'{name}' is declared ragged: the first size of its shape must be None, "
            "the rows of all sequences"
        )
    made = block.create_var(name, shape, dtype, stop_gradient=stop_gradient)
    levels = []
    for level in range(lod_level):
        ending = "" if lod_level == 1 else f"_{level}"
        offsets, steps = (
            block.create_var(f"{name}@{what}{ending}", [None], "int64", stop_gradient=True)
            for what in ("offsets", "steps")
        )
        levels.append(SequenceLevel(offsets, steps))
    made._set_lod(levels)
    return made


def feeds(program: Program, name: str, value: Any) -> dict[str, np.ndarray]:
    """The arrays to feed for a ragged variable: its rows and its companions."""
    levels = program._core.lod(0, name)
    if isinstance(value, list | tuple):
        try:
            value = Ragged(value, lod_level=len(levels))
        except Error as error:
            raise Error(f"cannot feed '{name}': {error}") from None
    if not isinstance(value, Ragged):
        raise _not_ragged(name, value)
    if value.lod_level != len(levels):
        raise Error(
            f"cannot feed '{name}': it has {len(levels)} levels of sequences, but the value "
            f"has {value.lod_level}"
        )
    fed = {name: _rows(program, name, value)}
    for (offsets, steps), given in zip(levels, value.levels, strict=True):
        fed[offsets] = given
        fed[steps] = np.arange(np.diff(given).max(initial=0), dtype=np.int64)
    return fed


def _rows(program: Program, name: str, value: Ragged) -> np.ndarray:
    if not value._any_dtype:
        return value.values
    declared = program._core.dtype(0, name)
    rows = value.values
    if len(rows) == 0:  # Python's empty lists have no shape
        sizes = [size or 0 for size in program._core.shape(0, name)]
        rows = np.empty(sizes, rows.dtype)
    elif not np.can_cast(
        rows.dtype, "float16" if declared == "bfloat16" else declared, "same_kind"
    ):
        raise Error(
            f"cannot feed '{name}': it is {declared}, but the sequences have values of {rows.dtype}"
        )
    return rows.astype(_core.numpy_dtype(declared))


def _not_ragged(name: str, value: Any) -> Error:
    kind = "an array" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
    return Error(
        f"cannot feed '{name}': it has sequences of different lengths, but the value is {kind}; "
        "give an opstep.Ragged, or a list with an array for each sequence"
    )


def check_fed(program: Program, fed: Mapping[str, np.ndarray]) -> None:
    """Rejects an array that was fed to a ragged variable as if it were not ragged."""
    for name, offsets in program._core.offsets_of(list(fed)).items():
        if any(each not in fed for each in offsets):
            raise _not_ragged(name, fed[name])


class Fetches:
    """The names to fetch so that ragged variables come back as `Ragged`."""

    def __init__(self, program: Program, names: list[str]) -> None:
        self.names = self._wanted = names
        self._offsets = program._core.offsets_of(names)
        if self._offsets:  # else nothing to do: a run of a small program takes microseconds
            more = {name: None for levels in self._offsets.values() for name in levels}
            self.names = names + [name for name in more if name not in names]

    def values(self, fetched: list[np.ndarray]) -> list[Any]:
        """The values that were asked for."""
        if not self._offsets:
            return fetched
        found = dict(zip(self.names, fetched, strict=True))
        return [
            Ragged._made(value, [found[each] for each in self._offsets[name]])
            if name in self._offsets
            else value
            for name, value in zip(self._wanted, fetched, strict=False)
        ]
