"""The latest record of each tapped value: for views that show how a run is doing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from opstep_server.model import ExecutorProcess
from opstep_server.taps.registry import Losses
from opstep_server.wire import debug_pb2 as pb

COLUMNS = ("step", "iteration", "count", "min", "max", "mean", "std", "l2", "nan", "inf", "zeros")


@dataclass(frozen=True)
class LatestRecord:
    """A record of one value, by the names in COLUMNS."""

    op: int
    variable: str
    # Rises with each batch, so that a view gets only newer records.
    number: int
    figures: dict[str, float]


@dataclass
class _Stream:
    sources: dict[int, pb.TapSource] = field(default_factory=dict)
    latest: dict[int, LatestRecord] = field(default_factory=dict)


class LatestRecords:
    """A `Taker` that keeps one record of each source, so that memory does not depend on time."""

    def __init__(self) -> None:
        # Of the last batch.
        self.number = 0
        self._streams: dict[int, _Stream] = {}

    def of(self, executor: int, program: int, since: int) -> Iterator[LatestRecord]:
        """The records of a program's values that came after that number."""
        stream = self._streams.get(executor, _Stream())
        for source, told in stream.latest.items():
            if told.number > since and stream.sources[source].program == program:
                yield told

    def forget(self, executor: int, program: int) -> None:
        """Forgets a program that was compiled again: its ops have other numbers."""
        stream = self._streams.get(executor, _Stream())
        for number, source in stream.sources.items():
            if source.program == program:
                stream.latest.pop(number, None)

    # ---- from the wire ---------------------------------------------------------------------------

    def source(self, executor: ExecutorProcess, source: pb.TapSource) -> None:
        self._streams.setdefault(executor.id, _Stream()).sources[source.source] = source

    def records(
        self, executor: ExecutorProcess, records: pb.TapRecords, done: Callable[[Losses], None]
    ) -> None:
        self.number += 1
        stream = self._streams.setdefault(executor.id, _Stream())
        # Only the last record of each source is of use.
        last = {source: at for at, source in enumerate(records.source)}
        columns = {name: getattr(records, name) for name in COLUMNS}
        if any(len(column) != len(records.source) for column in columns.values()):
            last = {}
        for number, at in last.items():
            source = stream.sources.get(number)
            if source is not None and records.count[at]:
                figures = {name: column[at] for name, column in columns.items()}
                stream.latest[number] = LatestRecord(
                    source.op, source.variable, self.number, figures
                )
        done({})

    def piece(self, executor: ExecutorProcess, piece: pb.TapPiece) -> None:
        pass  # Its taps never ask for elements.

    def gone(self, executor: ExecutorProcess) -> None:
        self._streams.pop(executor.id, None)

    def removed(self, uids: Sequence[str]) -> None:
        pass  # The view keeps what was last known.

    def forget_sources(self, executor: ExecutorProcess, sources: Sequence[int]) -> None:
        stream = self._streams.get(executor.id, _Stream())
        for number in sources:
            stream.sources.pop(number, None)
            stream.latest.pop(number, None)
