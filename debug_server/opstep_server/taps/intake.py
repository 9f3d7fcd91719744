"""The intake of tap records from one stream: makes batches for sinks.

Invalid records are lost and counted: nothing from the wire raises here. When one record is invalid
or too large, the others of its batch go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from opstep_server import values
from opstep_server.taps.records import (
    EXTRA_BYTES,
    NUMBER_BYTES,
    RECORD_BYTES,
    STATISTICS,
    Batch,
    Extra,
    Histogram,
    Source,
)
from opstep_server.wire import debug_pb2 as pb, program_pb2

_FLOATS = ("min", "max", "mean", "std", "l2")
_DTYPES: dict[int, str] = {
    program_pb2.FLOAT32: "<f4",
    program_pb2.FLOAT64: "<f8",
    program_pb2.FLOAT16: "<f2",
    program_pb2.BFLOAT16: "<u2",
    program_pb2.INT8: "i1",
    program_pb2.INT16: "<i2",
    program_pb2.INT32: "<i4",
    program_pb2.INT64: "<i8",
    program_pb2.UINT8: "u1",
    program_pb2.BOOL: "?",
}

Array = npt.NDArray[np.generic]
Index = npt.NDArray[np.intp]
# The batch, or None when it is lost; and the records that are in it, None for all.
Ready = Callable[[Batch | None, Index | None], None]


# The source of records that are lost because their source is unknown.
_NOBODY = Source("", "", "", "", "", "", "", "", "", (), "", 0, False)


@dataclass
class _Open:
    """Records whose tensors have not all arrived."""

    records: pb.TapRecords
    ready: Ready
    # By record: its bytes, and how many of them arrived.
    data: dict[int, bytearray] = field(default_factory=dict)
    came: dict[int, int] = field(default_factory=dict)
    # Records that are too large.
    lost: set[int] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        return all(self.came[record] == len(data) for record, data in self.data.items())


class Intake:
    """The intake of one stream. Pieces of a batch's tensors come before any other batch."""

    def __init__(self, process: str, most: int) -> None:
        """A batch has at most `most` bytes; the rest is lost."""
        self._process = process
        self._most = most
        self._sources: dict[int, Source] = {}
        self._dtypes: dict[int, int] = {}
        self._open: _Open | None = None

    def source(self, told: pb.TapSource) -> None:
        source = Source(
            tap=told.tap_name,
            uid=told.tap,
            process=self._process,
            program=told.program_name,
            op=told.op_name,
            type=told.op_type,
            variable=told.variable,
            slot=told.slot,
            dtype=values.dtype_name(told.dtype),
            dims=tuple(told.dims),
            file=told.line.file,
            line=told.line.line,
            gradient=told.gradient,
        )
        # A source that comes again stays the same object, by which sinks know it.
        if self._sources.get(told.source) != source:
            self._sources[told.source] = source
            self._dtypes[told.source] = told.dtype

    def forget(self, sources: Sequence[int]) -> None:
        for number in sources:
            self._sources.pop(number, None)
            self._dtypes.pop(number, None)

    def records(self, records: pb.TapRecords, ready: Ready) -> None:
        """Calls `ready` at once, or when the last piece is here."""
        self.give_up()
        waiting = _Open(records, ready)
        size = (RECORD_BYTES + 8 * len(STATISTICS)) * len(records.source)
        for extra in records.extras:
            own = self._size(records, extra)
            if size + own > self._most:
                waiting.lost.add(extra.record)
                continue
            size += own
            here, total = len(extra.tensor.data), extra.total_bytes
            if extra.HasField("tensor") and total > here:
                waiting.data[extra.record] = bytearray(total)
                waiting.data[extra.record][:here] = extra.tensor.data
                waiting.came[extra.record] = here
        if waiting.data:
            self._open = waiting
        else:
            ready(*self._batch(waiting))

    def piece(self, piece: pb.TapPiece) -> None:
        waiting = self._open
        if waiting is None or piece.batch != waiting.records.batch:
            return  # A piece of a batch that is already lost.
        if piece.record in waiting.lost:
            return
        data = waiting.data.get(piece.record)
        end = piece.offset + len(piece.data)
        if data is None or piece.offset != waiting.came[piece.record] or end > len(data):
            self.give_up()
            return
        data[piece.offset : end] = piece.data
        waiting.came[piece.record] = end
        if waiting.complete:
            self._open = None
            waiting.ready(*self._batch(waiting))

    def give_up(self) -> None:
        """Drops the incomplete batch: its rest will not come."""
        waiting, self._open = self._open, None
        if waiting is not None:
            waiting.ready(None, None)

    def _size(self, records: pb.TapRecords, extra: pb.TapExtra) -> int:
        """The approximate size in memory."""
        wide = program_pb2.BFLOAT16  # Its elements become twice as large.
        tensor = max(extra.total_bytes, len(extra.tensor.data))
        size = tensor * (2 if extra.tensor.dtype == wide else 1) + len(extra.samples.data)
        if extra.record < len(records.source):
            known = self._dtypes.get(records.source[extra.record])
            size += len(extra.samples.data) if known == wide else 0
        size += 8 * len(extra.samples.positions) + NUMBER_BYTES * len(extra.histogram.counts)
        return size + EXTRA_BYTES + len(extra.error) + extra.value.ByteSize()

    def _batch(self, whole: _Open) -> tuple[Batch | None, Index | None]:
        records = whole.records
        lost = set(whole.lost)
        if unknown := set(records.source) - self._sources.keys():
            lost.update(at for at, number in enumerate(records.source) if number in unknown)
        batch = self._all(records, whole.data, lost)
        if batch is None or not lost:
            return batch, None
        kept = np.array([i for i in range(len(batch)) if i not in lost], np.intp)
        return (batch.part(kept), kept) if len(kept) else (None, None)

    def _all(
        self, records: pb.TapRecords, data: dict[int, bytearray], lost: set[int]
    ) -> Batch | None:
        """All records with the lost ones, to which invalid ones are added."""
        length = len(records.source)
        numbers = (records.step, records.iteration, records.time, records.thread)
        if any(len(column) != length for column in numbers):
            return None
        statistics: dict[str, Array] = {}
        for name in STATISTICS:
            column = getattr(records, name)
            # When no record has statistics the columns may be left out.
            if len(column) not in (length, 0) or (len(column) == 0 and len(records.count)):
                return None
            kind = np.float64 if name in _FLOATS else np.uint64
            statistics[name] = np.fromiter(column, kind) if column else np.zeros(length, kind)
        extras: dict[int, Extra] = {}
        for extra in records.extras:
            if extra.record >= length:
                return None
            if extra.record in lost:
                continue
            dtype = self._dtypes[records.source[extra.record]]
            made = _extra(extra, dtype, data.get(extra.record))
            if made is None:
                lost.add(extra.record)
            else:
                extras[extra.record] = made
        return Batch(
            sources=tuple([self._sources.get(number, _NOBODY) for number in records.source]),
            step=np.fromiter(records.step, np.uint64, length),
            iteration=np.fromiter(records.iteration, np.uint64, length),
            time=np.fromiter(records.time, np.uint64, length).astype(np.int64),
            thread=np.fromiter(records.thread, np.uint32, length),
            statistics=statistics,
            extras=extras,
        )


def _extra(extra: pb.TapExtra, dtype: int, data: bytearray | None) -> Extra | None:
    """The extra of a record; None when it is invalid."""
    histogram = samples = tensor = None
    if extra.HasField("histogram"):
        known = extra.histogram
        histogram = Histogram(known.low, known.high, tuple(known.counts))
    if extra.HasField("samples"):
        # The source of an expression has no dtype.
        samples = _elements(extra.samples.data, extra.samples.dtype or dtype)
        if samples is None or len(samples) != len(extra.samples.positions):
            return None
    if extra.HasField("tensor"):
        tensor = _elements(data or extra.tensor.data, extra.tensor.dtype)
        dims = tuple(extra.tensor.dims)
        if tensor is None or min(dims, default=0) < 0 or math.prod(dims) != len(tensor):
            return None
        try:
            tensor = tensor.reshape(dims)
        except ValueError:  # Without elements, but with sizes that no array can have.
            return None
    return Extra(
        histogram=histogram,
        positions=None if samples is None else _positions(extra.samples),
        samples=samples,
        tensor=tensor,
        value=_value(extra.value) if extra.HasField("value") else None,
        error=extra.error,
    )


def _positions(samples: pb.TapSamples) -> npt.NDArray[np.int64]:
    found = np.fromiter(samples.positions, np.uint64, len(samples.positions))
    return found.astype(np.int64)


def _elements(data: bytes | bytearray, dtype: int) -> Array | None:
    code = _DTYPES.get(dtype)
    if code is None or len(data) % np.dtype(code).itemsize:
        return None
    found = np.frombuffer(data, code)
    if dtype == program_pb2.BFLOAT16:
        # A bfloat16 is the upper half of a float32.
        return (found.astype(np.uint32) << 16).view(np.float32)
    return found


def _value(value: pb.Value) -> bool | int | float | str:
    kind = value.WhichOneof("kind")
    if kind == "b":
        return value.b
    if kind == "i":
        return value.i
    if kind == "f":
        return value.f
    if kind == "s":
        return value.s
    return values.describe(value)
