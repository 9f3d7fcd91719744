"""The histograms of a source over time, as a bounded number of columns of bins."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opstep_server.taps.records import Histogram

Bins = npt.NDArray[np.float64]

_KEPT = 64
_BINS = 32


@dataclass
class _Column:
    step: float
    low: float
    high: float
    counts: Bins
    records: int = 1


@dataclass(frozen=True)
class Map:
    """Columns of bins, all from `low` to `high`."""

    low: float
    high: float
    # The steps of the first and the last column.
    steps: tuple[float, float]
    counts: Bins


class Histograms:
    def __init__(self) -> None:
        self._columns: list[_Column] = []
        self._each = 1

    def __len__(self) -> int:
        return len(self._columns)

    def append(self, step: float, bins: Histogram) -> None:
        counts = np.array(bins.counts, dtype=np.float64)
        if len(counts) > _BINS:
            counts = rebinned(counts, bins.low, bins.high, bins.low, bins.high, _BINS)
        column = _Column(step, bins.low, bins.high, counts)
        if self._columns and self._columns[-1].records < self._each:
            self._columns[-1] = _together([self._columns[-1], column])
            return
        if len(self._columns) >= _KEPT:
            self._columns = _fewer(self._columns, _KEPT // 2)
            self._each *= 2
        self._columns.append(column)

    def merged(self, most: int) -> bool:
        """Whether a column of a map with at most `most` columns holds several records."""
        return self._each > 1 or len(self._columns) > most

    def size(self, most: int) -> int:
        """The number of bins of a map with at most `most` columns."""
        return min(len(self._columns), most) * _BINS

    def map(self, most: int) -> Map:
        columns = _fewer(self._columns, most) if len(self._columns) > most else self._columns
        low = min(column.low for column in columns)
        high = max(column.high for column in columns)
        counts = [rebinned(c.counts, c.low, c.high, low, high, _BINS) for c in columns]
        return Map(low, high, (columns[0].step, columns[-1].step), np.array(counts))


def rebinned(
    counts: Bins, low: float, high: float, new_low: float, new_high: float, bins: int
) -> Bins:
    """The counts in other bins, as if the elements of a bin were spread evenly; none is lost."""
    # One value, or a span too small or too large to divide.
    span = new_high / 2 - new_low / 2
    wide = low < high and math.isfinite(2 * span) and span / bins > np.spacing(abs(new_high))
    if not wide:
        single = np.zeros(bins)
        part = (low / 2 - new_low / 2) / span if span > 0 else 0.5
        single[min(int(part * bins), bins - 1)] = counts.sum()
        return single
    new_edges = np.linspace(new_low, new_high, bins + 1)
    edges = np.linspace(low, high, len(counts) + 1)
    below = np.interp(new_edges, edges, np.concatenate([[0.0], np.cumsum(counts)]))
    return np.diff(below)


def _fewer(columns: list[_Column], count: int) -> list[_Column]:
    starts = [at * len(columns) // count for at in range(count + 1)]
    return [_together(columns[a:b]) for a, b in itertools.pairwise(starts)]


def _together(columns: list[_Column]) -> _Column:
    low = min(column.low for column in columns)
    high = max(column.high for column in columns)
    counts = sum(
        (rebinned(c.counts, c.low, c.high, low, high, _BINS) for c in columns), np.zeros(_BINS)
    )
    records = sum(column.records for column in columns)
    return _Column(columns[-1].step, low, high, counts, records)
