"""The numbers of a source over time, in a bounded number of points: neighbours are merged.

Merged points keep the smallest `min` and the largest `max`, `std` and `l2`; `mean` is the mean of
the records' means, and counts are added up.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.float64]

NAMES = (
    "step", "time", "records", "mean", "min", "max", "std", "l2", "count", "nan", "inf", "zeros",
)  # fmt: skip
_SUMS = ("records", "count", "nan", "inf", "zeros")
_LARGEST = ("max", "std", "l2")


# Records that are merged at a time, which is quicker than one by one.
_TAIL = 64


class Points:
    def __init__(self) -> None:
        self._values = np.empty((16, len(NAMES)))
        self._count = 0
        # Records that are not points yet.
        self._tail = np.empty((_TAIL, len(NAMES)))
        self._waiting = 0
        # Records in each point; the last may have fewer.
        self._each = 1

    def __len__(self) -> int:
        return self._count + self._waiting

    @property
    def merged(self) -> bool:
        """Whether some point stands for several records."""
        return self._each > 1

    def append(self, values: tuple[float, ...], most: int) -> None:
        """Adds one record, in the order of NAMES; keeps about `most` points."""
        self._tail[self._waiting] = values
        self._waiting += 1
        if self._waiting == _TAIL:
            self._flush(most)

    def columns(self, count: int) -> Mapping[str, Column]:
        """The columns by name, in at most `count` points."""
        values = np.concatenate([self._values[: self._count], self._tail[: self._waiting]])
        if len(values) > count:
            values = _merged(values, np.arange(count) * len(values) // count)
        return dict(zip(NAMES, values.T, strict=True))

    def _flush(self, most: int) -> None:
        together = min(self._each, _TAIL)
        for row in _merged(self._tail, np.arange(0, _TAIL, together)):
            self._add(row, most)
        self._waiting = 0

    def _add(self, row: Column, most: int) -> None:
        last = self._count - 1
        if last >= 0 and self._values[last, _RECORDS] < self._each:
            self._values[last] = _merged(np.array([self._values[last], row]), np.array([0]))[0]
            return
        if self._count >= most:
            half = -(-self._count // 2)
            self._values[:half] = _merged(self._values[: self._count], np.arange(half) * 2)
            self._count = half
            self._each *= 2
            self._add(row, most)
            return
        if self._count == len(self._values):
            self._values = np.concatenate([self._values, np.empty_like(self._values)])
        self._values[self._count] = row
        self._count += 1


_RECORDS = NAMES.index("records")


def _merged(values: Column, starts: npt.NDArray[np.int64]) -> Column:
    """Merges the rows from each start to the next."""
    ends = np.append(starts[1:], len(values)) - 1
    merged: Column = values[ends]
    for at, name in enumerate(NAMES):
        column = values[:, at]
        if name in _SUMS:
            merged[:, at] = np.add.reduceat(column, starts)
        elif name in _LARGEST:
            merged[:, at] = np.fmax.reduceat(column, starts)
        elif name == "min":
            merged[:, at] = np.fmin.reduceat(column, starts)
        elif name == "mean":
            merged[:, at] = _mean(column, values[:, _RECORDS], starts)
    return merged


def _mean(means: Column, records: Column, starts: npt.NDArray[np.int64]) -> Column:
    """The mean of the means that are numbers."""
    weights = np.where(np.isfinite(means), records, 0.0)
    total = np.add.reduceat(np.where(weights > 0, means * weights, 0.0), starts)
    weight = np.add.reduceat(weights, starts)
    with np.errstate(invalid="ignore"):
        mean: Column = np.where(weight > 0, total / weight, np.nan)
    return mean
