"""A tap log as it is now: one row for each source, with its latest records."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opstep_server.taps.log_files import log_records
from opstep_server.taps.log_files.counts import Counts, counts_of
from opstep_server.taps.log_files.file_follower import Follower, read_once
from opstep_server.taps.log_files.log_records import NUMBERS, Key, Unreadable

# Records of each source that are kept for drawing.
KEPT = 200
# Sources with kept records; of the others, the longest inactive, only the last record is known.
_DRAWN = 4000
# Rows: more than a user can look at; further ones are only counted.
_ROWS = 50_000


class Series:
    """The last numbers of a source, oldest first."""

    def __init__(self) -> None:
        self._ring = np.empty((KEPT, len(NUMBERS)))
        self._next = 0
        self._count = 0

    def append(self, numbers: tuple[float, ...]) -> None:
        self._ring[self._next % KEPT] = numbers
        self._next += 1
        self._count = min(self._count + 1, KEPT)

    def prepend(self, numbers: tuple[float, ...]) -> None:
        """Adds numbers that are older than all, while there is room."""
        if self._count < KEPT:
            self._count += 1
            self._ring[(self._next - self._count) % KEPT] = numbers

    @property
    def full(self) -> bool:
        return self._count == KEPT

    def column(self, name: str) -> npt.NDArray[np.float64]:
        at = np.arange(self._next - self._count, self._next) % KEPT
        values: npt.NDArray[np.float64] = self._ring[at, NUMBERS.index(name)]
        return values


@dataclass(eq=False)
class Row:
    key: Key
    type: str
    # Of sources.jsonl: the fields common to all its records.
    about: dict[str, Any] = field(default_factory=dict)
    records: int = 0
    # Those with a NaN or an Inf.
    faulty: int = 0
    # Of the newest record: its numbers, and the line itself.
    last: tuple[float, ...] = ()
    line: bytes = b""
    series: Series | None = None
    # Of the newest record.
    time: str = ""

    def __post_init__(self) -> None:
        process, tap, program, op, variable = self.key
        # The text for searches.
        self.names = "\n".join((*self.key, self.type)).lower()
        # `fc_2` comes before `fc_10`.
        parts = re.split(r"(\d+)", op)
        numbered = tuple((len(part), part) if at % 2 else part for at, part in enumerate(parts))
        self.by_name = tap, program, numbered, variable, process

    def number(self, name: str) -> float:
        """A number of the newest record; NaN when there is none."""
        return self.last[NUMBERS.index(name)] if self.last else float("nan")

    @property
    def measured(self) -> bool:
        """Whether the newest record has statistics."""
        return bool(self.last) and self.number("count") > 0

    def drawn(self, statistic: str) -> npt.NDArray[np.float64]:
        """The statistic in the last records that have it; for an expression its value."""
        if self.series is None:
            return np.empty(0)
        count = self.series.column("count")
        values = self.series.column(statistic)
        measured = count > 0
        if not measured.any():
            values = self.series.column("value")
            return values[~np.isnan(values)]
        return values[measured]

    def fields(self) -> dict[str, Any]:
        """All fields of the newest record."""
        return log_records.load(self.line) if self.line else {}


class TapLog:
    """Follows a directory. No thread: the viewer calls `read` when there is time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rows: dict[Key, Row] = {}
        self.records = 0
        # Lines that are not of a tap log.
        self.unreadable = 0
        # Sources for which there was no room.
        self.left_out: set[Key] = set()
        # As in the file, and by process and tap the log's own numbers.
        self._counts = Counts()
        self._logged: Counter[tuple[str, str]] = Counter()
        # Everything was read.
        self.done = False
        self._counts_text: bytes | None = None
        self._records = Follower(directory, log_records.RECORDS, backwards=True)
        self._sources = Follower(directory, log_records.SOURCES)
        self._with_series = 0
        # By the raw names of lines, which is quicker.
        self._known: dict[tuple[Any, ...], Row] = {}

    @property
    def files(self) -> int:
        return self._records.files

    @property
    def counts(self) -> Counts:
        return self._counts.with_log(self._logged)

    @property
    def problem(self) -> str:
        return self._records.problem or self._sources.problem

    @property
    def part_read(self) -> float:
        size = self._records.size
        return 1.0 - self._records.waiting / size if size else 1.0

    def read(self, seconds: float) -> bool:
        """Reads new, then older lines, for about that time; returns whether anything changed."""
        until = time.monotonic() + seconds
        before = self.records, self.unreadable, len(self.rows), self.problem, self.files
        changed = self._read_counts()
        self._sources.look()
        self._read_sources(until)
        self._records.look()
        self.done = self._read_newer(until) and self._read_older(until)
        after = self.records, self.unreadable, len(self.rows), self.problem, self.files
        return changed or before != after

    def read_all(self) -> None:
        self.read(1.0)
        while not self.done:
            self.read(1.0)

    # ---- inside ----------------------------------------------------------------------------------

    def _read_counts(self) -> bool:
        text = read_once(self.directory / "counts.json")
        if text == self._counts_text:
            return False
        self._counts_text = text
        try:
            self._counts = counts_of(json.loads(text)) if text is not None else Counts()
        except (ValueError, RecursionError):
            self.unreadable += 1
        return True

    def _read_sources(self, until: float) -> None:
        while True:
            lines = self._sources.newer()
            for line in lines:
                if line.strip():
                    self._take_source(line)
            if not lines or time.monotonic() > until:
                return

    def _read_newer(self, until: float) -> bool:
        """Returns whether all new lines were read; `_read_older` likewise for old ones."""
        while lines := self._records.newer():
            for line in lines:
                self._take(line, newest=True)
            if time.monotonic() > until:
                return False
        return True

    def _read_older(self, until: float) -> bool:
        while lines := self._records.older():
            for line in lines:
                self._take(line, newest=False)
            if time.monotonic() > until:
                return False
        return True

    def _take_source(self, line: bytes) -> None:
        try:
            fields = log_records.load(line)
        except Unreadable:
            self.unreadable += 1
            return
        row = self._row(log_records.key_of(fields), log_records.printable(fields.get("type", "")))
        if row is not None:
            row.about = fields

    def _take(self, line: bytes, newest: bool) -> None:
        if not line.strip():
            return
        try:
            fields = log_records.load(line)
            get = fields.get
            names = tuple([get(name) for name in _NAMES])
            row = self._known.get(names)
            # Of most older records only the count matters.
            kept = newest or row is None or (row.series is not None and not row.series.full)
            numbers = log_records.numbers_of(fields) if kept else ()
        except (Unreadable, TypeError):  # TypeError: a name is a list.
            self.unreadable += 1
            return
        if row is None:
            row = self._row(log_records.key_of(fields), log_records.printable(get("type", "")))
            if row is None:
                self.records += 1
                return
            self._known[names] = row
        self.records += 1
        row.records += 1
        self._logged[row.key.process, row.key.tap] += 1
        if get("nan") or get("inf"):
            row.faulty += 1
        if not kept:
            return
        if newest or not row.last:
            row.last = numbers
            row.line = line
            row.time = str(get("time", ""))
            if row.series is None and (newest or self._with_series < _DRAWN):
                self._give_series(row)
        if row.series is not None:
            (row.series.append if newest else row.series.prepend)(numbers)

    def _row(self, key: Key, kind: str) -> Row | None:
        row = self.rows.get(key)
        if row is None:
            if len(self.rows) >= _ROWS:
                if len(self.left_out) < _ROWS:
                    self.left_out.add(key)
                return None
            row = self.rows[key] = Row(key, kind)
        return row

    def _give_series(self, row: Row) -> None:
        if self._with_series >= _DRAWN:
            drawn = sorted(
                (each for each in self.rows.values() if each.series is not None),
                key=lambda each: each.time,
            )
            for each in drawn[: _DRAWN // 4]:
                each.series = None
            self._with_series -= _DRAWN // 4
        row.series = Series()
        self._with_series += 1


_NAMES = ("process", "tap", "program", "op", "variable", "type")
