"""Record files: many records of named arrays in checked, compressed chunks (docs/records.md).

with opstep.records.Writer("digits.rec", fields={"x": ("float32", [64]), "y": ("int64", [1])}) as w:
    w.write(x=image, y=[3])
for record in opstep.records.Reader("digits.rec"):
    print(record["x"], record["y"])
"""

from __future__ import annotations

import bisect
import csv
import dataclasses
import itertools
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from opstep import _core
from opstep._core import Error
from opstep.program import file_path

Path = str | os.PathLike[str]
# dtype and sizes of a field; None may differ from record to record.
Field = tuple[str, Sequence[int | None]]

_CHUNK_BYTES = 1 << 20


class Writer:
    """Writes a record file, which appears when the `with` ends well, or by `close()`."""

    def __init__(
        self,
        path: Path,
        fields: Mapping[str, Field],
        codec: str = "zlib",
        chunk_bytes: int = _CHUNK_BYTES,
    ) -> None:
        self.path = file_path(path)
        self.fields = {name: _field(self.path, name, field) for name, field in fields.items()}
        self._dtypes = {name: _core.numpy_dtype(dtype) for name, (dtype, _) in self.fields.items()}
        declared = [
            (name, (dtype, [-1 if size is None else size for size in sizes]))
            for name, (dtype, sizes) in self.fields.items()
        ]
        if not isinstance(chunk_bytes, int) or chunk_bytes < 1:
            raise Error(
                f"cannot write '{self.path}': chunk_bytes is {chunk_bytes!r}, not 1 or more"
            )
        self._core: _core.RecordWriter | None = _core.RecordWriter(
            self.path, declared, codec, chunk_bytes
        )

    def write(self, **values: Any) -> None:
        """One record: a value for each field."""
        self._open().write(self._arrays(values))

    def write_batch(self, **values: Any) -> None:
        """Several records: the first axis of each value counts them."""
        self._open().write_batch(self._arrays(values))

    def flush(self) -> None:
        """End the chunk here."""
        self._open().flush()

    def close(self) -> None:
        """Write the index and give the file its name."""
        if self._core is not None:
            self._core.close()
            self._core = None

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
        self._core = None  # Not closed: the unfinished file is deleted, an existing one stays.

    def _open(self) -> _core.RecordWriter:
        if self._core is None:
            raise Error(f"cannot write to '{self.path}': it is closed")
        return self._core

    def _arrays(self, values: Mapping[str, Any]) -> list[np.ndarray]:
        for name in values.keys() - self.fields.keys():
            raise Error(f"cannot write to '{self.path}': it has no field '{name}'")
        arrays = []
        for name, dtype in self._dtypes.items():
            if name not in values:
                raise Error(f"cannot write to '{self.path}': there is no value for '{name}'")
            arrays.append(_array(self.path, name, values[name], dtype))
        return arrays


@dataclasses.dataclass(frozen=True)
class Lost:
    """The damage of a file, as far as it is known yet; `Reader.verify` finds all of it."""

    chunks: int = 0
    records: int = 0
    bytes: int = 0
    torn: bool = False  # The end is missing: the number of lost records is unknown.

    def __bool__(self) -> bool:
        return self != Lost()

    def __add__(self, other: Lost) -> Lost:
        return Lost(
            self.chunks + other.chunks,
            self.records + other.records,
            self.bytes + other.bytes,
            self.torn or other.torn,
        )


class Reader:
    """The records of a file, or of several with the same fields, one after the other.

    Damage is an error. With `damaged="skip"` intact records are read and `lost` counts the rest:
    records keep the numbers that they were written with, `len` counts lost ones too, `[i]` of a
    lost one is an error, and iterating leaves them out.
    """

    def __init__(self, paths: Path | Sequence[Path], damaged: str = "fail") -> None:
        given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        if not given:
            raise Error("a Reader needs one path or more")
        self.paths = [file_path(path) for path in given]
        self._files = [_core.RecordReader(path, damaged) for path in self.paths]
        self.fields = _fields(self._files[0])
        for path, file in zip(self.paths, self._files, strict=True):
            if _fields(file) != self.fields:
                raise Error(f"'{path}' has other fields than '{self.paths[0]}'")
        self._names = list(self.fields)

    @property
    def lost(self) -> Lost:
        return sum((Lost(*file.loss()) for file in self._files), Lost())

    @property
    def chunks(self) -> int:
        """The number of readable chunks, as far as it is known yet."""
        return sum(file.chunks() for file in self._files)

    def verify(self) -> Lost:
        """Read and check everything."""
        return sum((Lost(*file.verify()) for file in self._files), Lost())

    def __len__(self) -> int:
        return sum(file.records() for file in self._files)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        for file in self._files:
            next_record = 0
            while found := file.read_from(next_record):
                first, count, chunk = found
                for i in range(max(next_record - first, 0), count):
                    yield self._record(chunk, i)
                next_record = first + count

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        ends = list(itertools.accumulate(file.records() for file in self._files))
        wanted = index + ends[-1] if index < 0 else index
        if not 0 <= wanted < ends[-1]:
            # An IndexError: Python's own loops end with it.
            raise IndexError(f"there is no record {index} in '{self.paths[0]}': it has {ends[-1]}")
        number = bisect.bisect_right(ends, wanted)
        file, path = self._files[number], self.paths[number]
        inside = wanted - (ends[number - 1] if number else 0)
        found = file.read_from(inside)
        if found is None or inside < found[0]:
            raise Error(f"record {inside} of '{path}' is lost: its chunk is damaged")
        return self._record(found[2], inside - found[0])

    def _record(self, chunk: _core.RecordChunk, i: int) -> dict[str, np.ndarray]:
        return dict(zip(self._names, chunk.record(i), strict=True))


def left_out() -> dict[str, Lost]:
    """By file: the damage that pipelines of this process left out."""
    return {path: Lost(*loss) for path, loss in _core.records_left_out().items()}


def convert(source: Path | Iterable[Mapping[str, Any]], path: Path, codec: str = "zlib") -> int:
    """Write a record file from a .npz (an array's first axis counts records), a .csv of numbers
    with a header, or dicts of values; returns the number of records.

    The first of the dicts defines the fields; every size may differ between records.
    """
    if not isinstance(source, (str, os.PathLike)):
        return _from_dicts(source, path, codec)
    name = file_path(source)
    if name.endswith(".npz"):
        return _from_npz(name, path, codec)
    if name.endswith(".csv"):
        return _from_csv(name, path, codec)
    raise Error(f"cannot convert '{name}': give a .npz or a .csv file")


def _from_npz(source: str, path: Path, codec: str) -> int:
    try:
        with np.load(source, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except OSError as error:
        raise Error(f"cannot read '{source}': {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise Error(f"'{source}' is not a .npz file of arrays: {error}") from None
    if not arrays:
        raise Error(f"'{source}' has no arrays")
    for name, array in arrays.items():
        if array.ndim == 0:
            raise Error(f"'{name}' of '{source}' is a single number, not one for each record")
    fields = {name: (array.dtype.name, array.shape[1:]) for name, array in arrays.items()}
    with Writer(path, fields, codec) as writer:
        writer.write_batch(**arrays)
    return len(next(iter(arrays.values())))


def _from_csv(source: str, path: Path, codec: str) -> int:
    try:
        with open(source, newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            names = [name.strip() for name in next(rows, [])]
            if not names:
                raise Error(f"'{source}' is empty: its first line must name the columns")
            if len(set(names)) < len(names):
                raise Error(f"'{source}' names a column twice in its first line")
            table = [_numbers(source, rows.line_num, names, row) for row in rows if row]
    except OSError as error:
        raise Error(f"cannot read '{source}': {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise Error(f"'{source}' is not a .csv file: {error}") from None
    columns = {name: _column([row[i] for row in table]) for i, name in enumerate(names)}
    fields: dict[str, Field] = {name: (c.dtype.name, []) for name, c in columns.items()}
    with Writer(path, fields, codec) as writer:
        writer.write_batch(**columns)
    return len(table)


def _numbers(source: str, line: int, names: list[str], row: list[str]) -> list[int | float]:
    if len(row) != len(names):
        raise Error(f"line {line} of '{source}' has {len(row)} values for {len(names)} columns")
    values: list[int | float] = []
    for name, text in zip(names, row, strict=True):
        try:
            values.append(int(text))
        except ValueError:
            try:
                values.append(float(text))
            except ValueError:
                raise Error(
                    f"line {line} of '{source}' has '{text}' for '{name}', which is not a number"
                ) from None
    return values


def _column(values: list[int | float]) -> np.ndarray:
    """int64 when all are whole and fit, else float32."""
    if all(isinstance(value, int) and -(2**63) <= value < 2**63 for value in values):
        return np.array(values, np.int64)
    return np.array(values, np.float32)


def _from_dicts(source: Iterable[Mapping[str, Any]], path: Path, codec: str) -> int:
    records = iter(source)
    first = next(records, None)
    if first is None:
        raise Error(f"cannot write '{file_path(path)}': there is no record to define the fields")
    values = {name: np.asarray(value) for name, value in first.items()}
    fields = {name: (a.dtype.name, [None] * a.ndim) for name, a in values.items()}
    count = 0
    with Writer(path, fields, codec) as writer:
        for record in itertools.chain([first], records):
            writer.write(**record)
            count += 1
    return count


def _fields(file: _core.RecordReader) -> dict[str, Field]:
    return {name: (dtype, sizes) for name, dtype, sizes in file.fields()}


def _field(path: str, name: str, field: Field) -> Field:
    try:
        dtype, sizes = field
        return _core.dtype_name(dtype), [
            None if size is None or size == -1 else int(size) for size in sizes
        ]
    except (TypeError, ValueError):
        raise Error(
            f"cannot write '{path}': field '{name}' is {field!r}; "
            'write (dtype, sizes), such as ("float32", [784])'
        ) from None


def _array(path: str, name: str, value: Any, dtype: np.dtype) -> np.ndarray:
    """Lists and numbers become the field's dtype; arrays are left to the check."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise Error(f"cannot write to '{path}': '{name}' is not a {dtype} array: {error}") from None
