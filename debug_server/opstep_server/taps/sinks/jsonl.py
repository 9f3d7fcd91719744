"""JSON lines: to the standard output, or to files of a directory, each up to a size."""

from __future__ import annotations

import contextlib
import glob
import json
import math
import os
import sys
from pathlib import Path

import numpy as np

from opstep_server.taps.records import STATISTICS, Batch, Extra, Source
from opstep_server.taps.sinks.base import Key, Sink, SinkError
from opstep_server.taps.sinks.files import Appended

_FLOATS = ("min", "max", "mean", "std", "l2")
_STATISTICS = ", ".join(f'"{name}": %{"s" if name in _FLOATS else "d"}' for name in STATISTICS)
_WITH = f'{{"time": "%s+00:00", %s"step": %d, "iteration": %d, "thread": %d, {_STATISTICS}%s%s}}\n'
_MAX_PENDING = 1 << 20
_MAX_KEPT = 100_000
# Bytes that are read of a sources.jsonl from earlier runs; older sources may be repeated.
_MAX_READ = 16 << 20
_WITHOUT = '{"time": "%s+00:00", %s"step": %d, "iteration": %d, "thread": %d%s%s}\n'


class JsonlSink(Sink):
    kind = "jsonl"
    doc = (
        'a line of JSON for each record, in files `records-NNNN.jsonl`, or on stdout with path "-"'
    )
    keys = (
        Key("rotate_bytes", bytes, 64_000_000, "the size from which a new file begins"),
        Key("keep", int, 0, "how many files to keep, older ones are removed; 0 keeps all"),
    )

    def __init__(self, path: Path, settings: dict[str, object]) -> None:
        super().__init__(path, settings)
        self._file = -1
        self._to_stdout = str(path) == "-"
        # The file's name, also while it is closed; "": the next record begins a new file.
        self._name = ""
        # Bytes of the file, bytes of flushed batches, and lines that are not written yet.
        self._size = 0
        self._good = 0
        self._pending: list[bytes] = []
        self._formatter = Formatter()
        # Hashes of the lines of sources.jsonl, the number of the last line, and sources that are
        # known to be there. A forgotten source is written again.
        self._sources: set[int] = set()
        self._number = 0
        self._seen: dict[int, Source] = {}

    def open(self) -> None:
        if self._to_stdout:
            self._file = os.dup(sys.stdout.fileno())
            return
        self.path.mkdir(parents=True, exist_ok=True)
        self._seen = {}
        self._know_sources()
        self._go_on()

    def write(self, batch: Batch) -> None:
        if not self._to_stdout:
            if self._size >= self._limit:
                self.flush()
                os.close(self._file)
                self._end_file()
            self._tell_sources(batch)
        text = self._formatter.lines(batch).encode()
        self._pending.append(text)
        self._size += len(text)
        if self._size - self._good >= _MAX_PENDING:
            self._write_out()

    def flush(self) -> None:
        self._write_out()
        if self._file >= 0 and not self._to_stdout:
            if not self._is_there():
                raise SinkError(f"{self._name} was removed")
            if self._size and not self._good:
                self._remove_old()
        self._good = self._size

    def close(self) -> None:
        self._pending = []
        if self._file >= 0:
            if self._size > self._good and not self._to_stdout:
                # They count as lost: no partial line stays.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self._good)
                if not self._good and self._is_there():
                    os.unlink(self._name)
            os.close(self._file)
            self._file = -1
        self._size = self._good

    def _write_out(self) -> None:
        left = memoryview(b"".join(self._pending))
        self._pending = []
        if left and self._file < 0:
            self._begin()
        while left:
            left = left[os.write(self._file, left) :]

    # ---- files -----------------------------------------------------------------------------------

    @property
    def _limit(self) -> int:
        limit = self.settings["rotate_bytes"]
        assert isinstance(limit, int)
        return limit

    def _go_on(self) -> None:
        """Opens the file from before a failure, if it has room and nobody else touched it."""
        if self._name and 0 < self._good < self._limit:
            with contextlib.suppress(OSError):
                file = os.open(self._name, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
                if os.fstat(file).st_size == self._good:
                    self._file = file
                    return
                os.close(file)
        self._end_file()

    def _end_file(self) -> None:
        self._file, self._name = -1, ""
        self._size = self._good = 0
        if self.settings["keep"]:
            self._begin_sources()

    def _files(self) -> list[str]:
        return sorted(glob.glob(f"{glob.escape(str(self.path))}/records-*.jsonl"))

    def _begin(self) -> None:
        """Begins the next file; never an existing one."""
        numbers = (name.rpartition("-")[2].removesuffix(".jsonl") for name in self._files())
        number = max((int(one) for one in numbers if one.isdecimal()), default=0)
        while self._file < 0:
            number += 1
            self._name = str(self.path / f"records-{number:04}.jsonl")
            # Another process may log to the same directory.
            with contextlib.suppress(FileExistsError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._file = os.open(self._name, flags, 0o666)

    def _remove_old(self) -> None:
        """Removes old files once the new one holds records: an empty file replaces none."""
        keep = self.settings["keep"]
        assert isinstance(keep, int)
        for name in self._files()[:-keep] if keep > 0 else ():
            if name != self._name:
                os.unlink(name)

    @property
    def _sources_path(self) -> Path:
        return self.path / "sources.jsonl"

    def _begin_sources(self) -> None:
        """Begins a large file again; sources that are still in use will be written again."""
        with contextlib.suppress(FileNotFoundError):
            if self._sources_path.stat().st_size >= self._limit:
                self._sources_path.unlink()
                self._sources, self._number, self._seen = set(), 0, {}

    def _is_there(self) -> bool:
        try:
            there, ours = os.stat(self._name), os.fstat(self._file)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def _know_sources(self) -> None:
        """Reads the sources of earlier runs, without their numbers."""
        self._sources, self._number = set(), 0
        with contextlib.suppress(FileNotFoundError), open(self._sources_path, "rb") as file:
            if (size := os.fstat(file.fileno()).st_size) > _MAX_READ:
                file.seek(size - _MAX_READ)
                file.readline()  # The rest of a line.
            for line in file:
                number, _, text = line.decode(errors="replace").rstrip("\n").partition(", ")
                self._remember(text)
                number = number.rpartition(" ")[2]
                self._number = int(number) if number.isdecimal() else self._number + 1

    def _remember(self, text: str) -> bool:
        """Remembers the source; returns whether it is new."""
        if len(self._sources) >= _MAX_KEPT:
            self._sources.clear()
        known = len(self._sources)
        self._sources.add(hash(text))
        return len(self._sources) > known

    def _tell_sources(self, batch: Batch) -> None:
        lines = []
        if len(self._seen) >= _MAX_KEPT:
            self._seen.clear()
        # By identity: comparing sources would take longer than writing their records.
        for source in {id(source): source for source in batch.sources}.values():
            if id(source) in self._seen:
                continue
            self._seen[id(source)] = source
            text = _told(source)
            if self._remember(text):
                self._number += 1
                lines.append(f'{{"source": {self._number}, {text}\n')
        if lines:
            with contextlib.closing(Appended(self._sources_path)) as file:
                file.append("".join(lines).encode())


def _told(source: Source) -> str:
    """A line of sources.jsonl after its number."""
    what = {
        "tap": source.tap,
        "program": source.program,
        "op": source.op,
        "type": source.type,
        "variable": source.variable,
        "slot": source.slot,
        "dtype": source.dtype,
        "dims": list(source.dims),
        "file": source.file,
        "line": source.line,
        "gradient": source.gradient,
        "process": source.process,
    }
    return json.dumps(what)[1:]


class Formatter:
    """Batches to text, by columns: a source's constant text is made once."""

    def __init__(self) -> None:
        # By identity of sources, which are kept so that no other object gets the same identity.
        self._kept: list[Source] = []
        self._begin: dict[int, str] = {}
        self._end: dict[int, str] = {}

    def lines(self, batch: Batch) -> str:
        times = np.datetime_as_string(batch.time.astype("M8[ns]"), unit="us").tolist()
        for source in {id(source): source for source in batch.sources}.values():
            if id(source) not in self._begin:
                self._learn(source)
        identities = list(map(id, batch.sources))
        begin = [self._begin[one] for one in identities]
        end = [self._end[one] for one in identities]
        extra = [""] * len(batch)
        for index, found in batch.extras.items():
            extra[index] = _extra(found)
        ran = [column.tolist() for column in (batch.step, batch.iteration, batch.thread)]
        statistics = [_column(batch.statistics[name]) for name in STATISTICS]
        counts = batch.statistics["count"]
        if counts.all():
            rows = zip(times, begin, *ran, *statistics, extra, end, strict=True)
            return "".join([_WITH % row for row in rows])
        plain = zip(times, begin, *ran, extra, end, strict=True)
        full = zip(times, begin, *ran, *statistics, extra, end, strict=True)
        both = zip(counts.tolist(), full, plain, strict=True)
        return "".join([_WITH % one if count else _WITHOUT % other for count, one, other in both])

    def _learn(self, source: Source) -> None:
        """Makes the text before a record's numbers, and the text after them."""
        if len(self._kept) >= _MAX_KEPT:
            self._kept, self._begin, self._end = [], {}, {}
        self._kept.append(source)
        before = {"tap": source.tap, "program": source.program, "op": source.op}
        before["type"] = source.type
        before["variable"] = source.variable
        behind = {"process": source.process, "file": source.file, "line": source.line}
        begin = json.dumps({key: text for key, text in before.items() if text})[1:-1]
        end = json.dumps({key: value for key, value in behind.items() if value})[1:-1]
        self._begin[id(source)] = begin + ", " if begin else ""
        self._end[id(source)] = ", " + end if end else ""


def _column(column: np.ndarray) -> list[object]:
    values: list[object] = column.tolist()
    if column.dtype.kind == "f" and not np.isfinite(column).all():
        return [_number(value) for value in values]
    return values


def _number(value: object) -> object:
    """A number for JSON: infinities and NaN are words."""
    if isinstance(value, float) and not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    return value


def _extra(extra: Extra) -> str:
    text = ""
    if extra.histogram is not None:
        low, high = _number(extra.histogram.low), _number(extra.histogram.high)
        counts = list(extra.histogram.counts)
        text += f', "histogram": {{"low": {low}, "high": {high}, "counts": {counts}}}'
    if extra.samples is not None and extra.positions is not None:
        values = ", ".join(_json(value) for value in extra.samples.tolist())
        text += f', "samples": {{"positions": {extra.positions.tolist()}, "values": [{values}]}}'
    if extra.value is not None:
        text += f', "value": {_json(extra.value)}'
    if extra.error:
        text += f', "error": {json.dumps(extra.error)}'
    return text


def _json(value: object) -> str:
    return str(_number(value)) if isinstance(value, float) else json.dumps(value)
