"""Records from the wire: whole ones become batches, nonsense is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness.tap_records import records, source
from opstep_server.taps.intake import Intake
from opstep_server.taps.records import Batch
from opstep_server.wire import debug_pb2 as pb


class Taken:
    def __init__(self, most: int = 1 << 20) -> None:
        self.intake = Intake("host:7", most)
        self.intake.source(source(1))
        self.intake.source(source(2, name="fc", dtype="BFLOAT16", op_name="fc_0"))
        self.batches: list[Batch | None] = []
        # Of the last batch: which of its records are there, if not all.
        self.index: list[int] | None = None

    def take(self, message: pb.TapRecords) -> Batch | None:
        def ready(batch: Batch | None, index: npt.NDArray[np.intp] | None) -> None:
            self.batches.append(batch)
            self.index = None if index is None else index.tolist()

        self.intake.records(message, ready)
        return self.batches[-1] if self.batches else None


def tensor(data: bytes, dims: list[int], dtype: str = "FLOAT32", total: int = 0) -> pb.TapExtra:
    whole = pb.Tensor(dtype=dtype, dims=dims, data=data)
    return pb.TapExtra(record=0, tensor=whole, total_bytes=total or len(data))


def test_columns() -> None:
    found = Taken().take(records(1, [1, 2, 1]))
    assert found is not None
    assert [one.op for one in found.sources] == ["conv2d_0", "fc_0", "conv2d_0"]
    assert found.sources[0].process == "host:7"
    assert found.sources[1].dtype == "bfloat16"
    assert found.step.tolist() == [0, 1, 2]
    assert found.time.tolist() == [1_790_000_000_123_456_789] * 3
    assert found.statistics["mean"].tolist() == [0.5, 1.5, 2.5]
    assert found.statistics["count"].dtype == np.uint64


def test_records_without_statistics() -> None:
    message = pb.TapRecords(batch=1, source=[1], step=[3], iteration=[0], time=[1], thread=[2])
    message.extras.add(record=0, error="it was released")
    found = Taken().take(message)
    assert found is not None
    assert found.statistics["count"].tolist() == [0]
    assert found.extras[0].error == "it was released"


def test_extras() -> None:
    halves = np.array([1.5, -2.0], np.float32).view(np.uint32) >> 16
    sampled = pb.TapSamples(positions=[0, 5], data=halves.astype("<u2").tobytes())
    bins = pb.Histogram(low=-1, high=1, counts=[3, 4])
    extra = pb.TapExtra(record=0, samples=sampled, histogram=bins, value=pb.Value(i=3))
    found = Taken().take(records(1, [2], extras=[extra]))
    assert found is not None
    assert found.extras[0].samples is not None
    assert found.extras[0].samples.tolist() == [1.5, -2.0]
    assert found.extras[0].positions is not None
    assert found.extras[0].positions.tolist() == [0, 5]
    assert found.extras[0].histogram is not None
    assert found.extras[0].histogram.counts == (3, 4)
    assert found.extras[0].value == 3


def test_a_tensor_in_pieces() -> None:
    taken = Taken()
    data = np.arange(6, dtype=np.float32)
    raw = data.tobytes()
    taken.take(records(9, [1], extras=[tensor(raw[:8], [2, 3], total=24)]))
    assert taken.batches == []
    taken.intake.piece(pb.TapPiece(batch=9, record=0, offset=8, data=raw[8:20]))
    taken.intake.piece(pb.TapPiece(batch=8, record=0, offset=20, data=b"nonsense"))
    taken.intake.piece(pb.TapPiece(batch=9, record=0, offset=20, data=raw[20:]))
    (found,) = taken.batches
    assert found is not None
    whole = found.extras[0].tensor
    assert whole is not None
    assert whole.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "piece",
    [
        {"record": 0, "offset": 12, "data": b"1234"},
        {"record": 0, "offset": 8, "data": b"1" * 17},
        {"record": 1, "offset": 8, "data": b"1234"},
    ],
)
def test_pieces_that_do_not_fit(piece: dict[str, Any]) -> None:
    taken = Taken()
    taken.take(records(9, [1], extras=[tensor(b"x" * 8, [2, 3], total=24)]))
    taken.intake.piece(pb.TapPiece(batch=9, **piece))
    assert taken.batches == [None]


def test_a_batch_before_the_last_piece_of_another() -> None:
    taken = Taken()
    taken.take(records(9, [1], extras=[tensor(b"x" * 8, [2, 3], total=24)]))
    taken.take(records(10, [1]))
    assert taken.batches[0] is None
    assert taken.batches[1] is not None
    taken.intake.give_up()
    assert len(taken.batches) == 2


@pytest.mark.parametrize(
    "message",
    [
        records(1, [7]),
        records(1, [1, 1], step=[1]),
        records(1, [1, 1], mean=[1.0]),
        records(1, [1], mean=[]),
        records(1, [1], thread=[]),
        records(1, [1], extras=[pb.TapExtra(record=1, error="x")]),
        records(1, [1], extras=[tensor(b"12345", [1])]),
        records(1, [1], extras=[tensor(b"1234", [2])]),
        records(1, [1], extras=[tensor(b"1234", [-1, -1])]),
        records(1, [1], extras=[tensor(b"1234", [1], dtype="DATA_TYPE_UNSPECIFIED")]),
        records(1, [1], extras=[tensor(b"1234", [1 << 40], total=1 << 42)]),
        records(1, [1], extras=[tensor(b"", [0, 1 << 62, 1 << 62])]),
        records(1, [1], extras=[tensor(b"", [0] * 99)]),
        records(
            1, [1], extras=[pb.TapExtra(samples=pb.TapSamples(positions=[1], data=b"12345678"))]
        ),
    ],
)
def test_nonsense_is_lost(message: pb.TapRecords) -> None:
    taken = Taken()
    assert taken.take(message) is None
    assert len(taken.batches) == 1
    assert taken.take(records(2, [1])) is not None


def test_only_what_is_too_large_is_lost() -> None:
    taken = Taken(most=10_000)
    large, small = tensor(b"1" * 8, [5000], total=20_000), tensor(b"2" * 8, [4], total=16)
    large.record, small.record = 1, 2
    taken.take(records(1, [1, 1, 1, 2], extras=[large, small]))
    taken.intake.piece(pb.TapPiece(batch=1, record=1, offset=8, data=b"1" * 19_992))
    assert taken.batches == []
    taken.intake.piece(pb.TapPiece(batch=1, record=2, offset=8, data=b"2" * 8))
    (found,) = taken.batches
    assert found is not None
    assert taken.index == [0, 2, 3]
    assert found.step.tolist() == [0, 2, 3]
    assert [source.tap for source in found.sources] == ["convs", "convs", "fc"]
    assert list(found.extras) == [1]


def test_only_the_record_that_makes_no_sense_is_lost() -> None:
    taken = Taken()
    extras = [tensor(b"12345", [1]), pb.TapExtra(record=1, error="it was released")]
    found = taken.take(records(1, [1, 1, 9, 2], extras=extras))
    assert found is not None
    assert taken.index == [1, 3]
    assert found.extras[0].error == "it was released"


@pytest.mark.parametrize("number", [1, 2])
def test_a_batch_is_no_larger_than_it_may_be(number: int) -> None:
    """What it says of its size holds: a sink with room for it takes it."""
    most = 100_000
    taken = Taken(most)
    width = 4 if number == 1 else 2
    extras = [
        pb.TapExtra(
            record=record,
            samples=pb.TapSamples(positions=range(500), data=bytes(500 * width)),
            histogram=pb.Histogram(low=0, high=1, counts=[1000] * 64),
        )
        for record in range(50)
    ]
    found = taken.take(records(1, [number] * 60, extras=extras))
    assert found is not None
    assert most / 2 < found.bytes <= most
    positions = found.extras[0].positions
    assert positions is not None
    assert positions.nbytes == 4000
    assert found.bytes >= len(found.extras) * (4000 + 2000 + 64 * 8)
