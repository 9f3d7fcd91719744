"""The last numbers of every tapped value, for sinks that show the present state."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from opstep_server.taps.records import STATISTICS, Batch, Source

LABELS = ("tap", "op", "variable", "process", "program")
# The numbers of a series with their descriptions.
NUMBERS = {
    "count": "Elements of the tensor.",
    "min": "Least element.",
    "max": "Greatest element.",
    "mean": "Mean of the elements.",
    "std": "Standard deviation of the elements.",
    "l2": "Root of the sum of squares of the finite elements.",
    "nan": "Elements that are NaN.",
    "inf": "Elements that are infinite.",
    "zeros": "Elements that are zero.",
    "value": "A value that is not a tensor.",
    "step": "Step of the last record.",
    "time": "When the last record was made, in seconds since 1970.",
}


@dataclass
class Series:
    # In the order of LABELS.
    labels: tuple[str, ...]
    records: int = 0
    # By the names in NUMBERS; replaced, never changed.
    numbers: Mapping[str, float] = field(default_factory=dict)
    seen: float = 0.0
    # When the count began, in nanoseconds since 1970.
    since: int = field(default_factory=time.time_ns)


class LatestNumbers:
    """Written by the thread of a sink, read by any thread."""

    def __init__(self, most: int, expire: float) -> None:
        self._most = most
        self._expire = expire or float("inf")
        self._lock = threading.Lock()
        # In the order of their last record, oldest first.
        self._series: dict[tuple[str, ...], Series] = {}
        self._refused = 0
        self.since = time.time_ns()

    def add(self, batch: Batch) -> None:
        records: Counter[int] = Counter()
        last: dict[int, int] = {}
        numbers: dict[int, dict[str, float]] = {}
        counts = batch.statistics["count"].tolist()
        for index, source in enumerate(batch.sources):
            records[id(source)] += 1
            if counts[index]:
                last[id(source)] = index
        for identity, index in last.items():
            found = {name: batch.statistics[name][index].item() for name in STATISTICS}
            numbers[identity] = {**found, **_when(batch, index)}
        for index in sorted(batch.extras):
            value = batch.extras[index].value
            if isinstance(value, (bool, int, float)):
                told = numbers.setdefault(id(batch.sources[index]), {})
                told.update(_when(batch, index), value=float(value))
        sources = {id(source): source for source in batch.sources}
        with self._lock:
            self._forget()
            for identity, number in records.items():
                self._update(sources[identity], number, numbers.get(identity))

    def read(self) -> tuple[list[Series], int]:
        """All series, and how many records found no room."""
        with self._lock:
            self._forget()
            series = self._series.values()
            return [replace(one) for one in series], self._refused

    def _update(self, source: Source, records: int, numbers: dict[str, float] | None) -> None:
        labels = (source.tap, source.op, source.variable, source.process, source.program)
        series = self._series.pop(labels, None)
        if series is None:
            if len(self._series) >= self._most:
                self._refused += records
                return
            series = Series(labels)
        self._series[labels] = series
        series.records += records
        series.numbers = series.numbers if numbers is None else numbers
        series.seen = time.monotonic()

    def _forget(self) -> None:
        """Drops series without records for long: their process or tap has ended."""
        before = time.monotonic() - self._expire
        while self._series:
            first = next(iter(self._series))
            if self._series[first].seen >= before:
                break
            del self._series[first]


def _when(batch: Batch, index: int) -> dict[str, float]:
    return {"step": int(batch.step[index]), "time": int(batch.time[index]) / 1e9}
