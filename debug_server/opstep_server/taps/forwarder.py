"""The forwarder of tap records to a guest, which confirms or loses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from opstep_server.model import ExecutorProcess
from opstep_server.taps.registry import Losses
from opstep_server.wire import debug_pb2 as pb


class Forwarder:
    """A `Taker` for one guest and one executor. Records that the guest never confirms are lost."""

    def __init__(
        self, executor: ExecutorProcess, send: Callable[..., None], is_slow: Callable[[], bool]
    ) -> None:
        self._executor = executor
        self._send = send
        self._is_slow = is_slow
        self._told: set[int] = set()
        # By batch: its records of each source, and the callback for the lost ones.
        self._under_way: dict[int, tuple[Losses, Callable[[Losses], None]]] = {}

    def source(self, executor: ExecutorProcess, source: pb.TapSource) -> None:
        if executor is self._executor and source.source not in self._told:
            self._told.add(source.source)
            self._send(tap_source=source)

    def records(
        self, executor: ExecutorProcess, records: pb.TapRecords, done: Callable[[Losses], None]
    ) -> None:
        held: Losses = dict(Counter(records.source))
        # The executor never waits for a guest that does not read.
        if executor is not self._executor or self._is_slow():
            done(held)
            return
        self._under_way[records.batch] = held, done
        self._send(tap_records=records)

    def piece(self, executor: ExecutorProcess, piece: pb.TapPiece) -> None:
        if piece.batch in self._under_way:
            self._send(tap_piece=piece)

    def taken(self, taken: pb.TapsTaken) -> None:
        held, done = self._under_way.pop(taken.batch, ({}, None))
        if done is not None:
            # The guest cannot lose more than it was given.
            lost = {loss.source: loss.records for loss in taken.losses}
            done({source: min(lost.get(source, 0), number) for source, number in held.items()})

    def gone(self, executor: ExecutorProcess) -> None:
        if executor is self._executor:
            self.end()

    def removed(self, uids: Sequence[str]) -> None:
        pass  # The executor's own message about it is passed on.

    def forget_sources(self, executor: ExecutorProcess, sources: Sequence[int]) -> None:
        if executor is self._executor:
            self._told.difference_update(sources)

    def end(self) -> None:
        """The guest is gone, or the executor."""
        under_way, self._under_way = self._under_way, {}
        for held, done in under_way.values():
            done(held)
