"""Tap records as sinks see them: columns of one batch, and their sources."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

# Approximate bytes in memory of a record, its extra and a number of a tuple, without arrays.
RECORD_BYTES = 36
EXTRA_BYTES = 256
NUMBER_BYTES = 40
STATISTICS = ("count", "min", "max", "mean", "std", "l2", "nan", "inf", "zeros")


@dataclass(frozen=True)
class Source:
    """A value of an op that a tap looks at."""

    tap: str  # its name
    uid: str
    process: str  # "host:pid"
    program: str
    op: str
    type: str
    variable: str  # or the text of an expression
    slot: str
    dtype: str  # "float32"
    dims: tuple[int, ...]
    file: str
    line: int
    gradient: bool


@dataclass(frozen=True)
class Histogram:
    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Extra:
    """The parts of a record beside its statistics."""

    histogram: Histogram | None = None
    # Row-major positions, and the elements there.
    positions: npt.NDArray[np.int64] | None = None
    samples: npt.NDArray[np.generic] | None = None
    # All elements; bfloat16 comes as float32.
    tensor: npt.NDArray[np.generic] | None = None
    # A value that is not a tensor.
    value: bool | int | float | str | None = None
    # Why there is no value.
    error: str = ""


@dataclass(frozen=True)
class Batch:
    """Records in the order in which they were made; all columns have the same length."""

    sources: tuple[Source, ...]
    step: npt.NDArray[np.uint64]
    iteration: npt.NDArray[np.uint64]
    time: npt.NDArray[np.int64]  # nanoseconds since 1970
    thread: npt.NDArray[np.uint32]
    # By the names in STATISTICS; where `count` is 0 the record has no statistics.
    statistics: dict[str, npt.NDArray[np.generic]]
    # By index of the record.
    extras: dict[int, Extra] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sources)

    def part(self, index: npt.NDArray[np.intp]) -> Batch:
        """The batch of these records, in this order."""
        places = {int(old): new for new, old in enumerate(index)}
        extras = {places[i]: extra for i, extra in self.extras.items() if i in places}
        return Batch(
            sources=tuple(self.sources[i] for i in index),
            step=self.step[index],
            iteration=self.iteration[index],
            time=self.time[index],
            thread=self.thread[index],
            statistics={name: column[index] for name, column in self.statistics.items()},
            extras=extras,
        )

    @property
    def bytes(self) -> int:
        """The approximate size in memory."""
        known = sum(column.nbytes for column in self.statistics.values())
        known += RECORD_BYTES * len(self) + EXTRA_BYTES * len(self.extras)
        for extra in self.extras.values():
            for array in (extra.positions, extra.samples, extra.tensor):
                known += 0 if array is None else array.nbytes
            if extra.histogram is not None:
                known += NUMBER_BYTES * len(extra.histogram.counts)
            known += len(extra.error) + (len(extra.value) if isinstance(extra.value, str) else 0)
        return known
