"""Tap records for tests, as the wire and as sinks have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opstep_server.taps.records import STATISTICS, Batch, Extra, Source
from opstep_server.wire import debug_pb2 as pb

FLOATS = ("min", "max", "mean", "std", "l2")


def source(number: int = 1, tap: str = "u", name: str = "convs", **fields: Any) -> pb.TapSource:
    known = {
        "program_name": "main",
        "op_name": "conv2d_0",
        "op_type": "conv2d",
        "slot": "out",
        "variable": "conv2d_0.out",
        "dtype": "FLOAT32",
        "dims": [2, 3],
        "line": pb.SourceLine(file="/train.py", line=41),
    }
    return pb.TapSource(source=number, tap=tap, tap_name=name, **{**known, **fields})


def records(batch: int, sources: Sequence[int], **fields: Any) -> pb.TapRecords:
    """A record for each source, with steps from 0 and statistics."""
    length = len(sources)
    columns: dict[str, Any] = {name: [0] * length for name in ("nan", "inf", "zeros")}
    columns.update({name: [i + 0.5 for i in range(length)] for name in FLOATS})
    columns.update(step=range(length), iteration=[0] * length, thread=[1] * length)
    columns.update(time=[1_790_000_000_123_456_789] * length, count=[6] * length)
    return pb.TapRecords(batch=batch, source=sources, **{**columns, **fields})


def batch(length: int = 4, extras: dict[int, Extra] | None = None, **columns: Any) -> Batch:
    one = Source(
        "convs", "u", "host:7", "main", "conv2d_0", "conv2d", "conv2d_0.out", "out", "float32",
        (2, 3), "/train.py", 41, False,
    )  # fmt: skip
    statistics = {
        name: np.arange(length) + 0.5 if name in FLOATS else np.full(length, 6, np.uint64)
        for name in STATISTICS
    }
    statistics.update({name: np.asarray(column) for name, column in columns.items()})
    return Batch(
        (one,) * length,
        np.arange(length, dtype=np.uint64),
        np.zeros(length, np.uint64),
        np.full(length, 1_790_000_000_123_456_789, np.int64),
        np.ones(length, np.uint32),
        statistics,
        extras or {},
    )
