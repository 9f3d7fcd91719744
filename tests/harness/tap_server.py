"""A bare server for taps: sets them, collects records, answers batches as the test says."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from opstep_server.access import Address, Endpoint
from opstep_server.connection import Connection
from opstep_server.transport import Server
from opstep_server.wire import debug_pb2 as pb

# The answer to a batch: its losses by source, or None for no answer.
Answer = Callable[[pb.TapRecords], dict[int, int] | None]


@dataclass
class TapServer:
    taps: list[pb.Tap]
    answer: Answer = lambda records: {}
    name: str = "test"
    records: Counter[str] = field(default_factory=Counter)  # by uid, confirmed
    batches: list[pb.TapRecords] = field(default_factory=list)
    sources: dict[int, pb.TapSource] = field(default_factory=dict)
    pieces: list[pb.TapPiece] = field(default_factory=list)
    statuses: dict[str, pb.TapStatus] = field(default_factory=dict)
    keep: bool = True
    connection: Connection | None = None
    here: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def joined(self, connection: Connection) -> pb.Welcome:
        self.connection = connection
        self.here.set()
        self.gone.clear()
        return pb.Welcome(taps=pb.SetTaps(server=self.name, taps=self.taps))

    def received(self, connection: Connection, message: pb.FromExecutor) -> None:
        kind = message.WhichOneof("message")
        if kind == "tap_source":
            self.sources[message.tap_source.source] = message.tap_source
        elif kind == "tap_piece":
            self.pieces.append(message.tap_piece)
        elif kind == "tap_statuses":
            for status in message.tap_statuses.statuses:
                self.statuses[status.uid] = status
        elif kind == "tap_records":
            records = message.tap_records
            if self.keep:
                self.batches.append(records)
            losses = self.answer(records)
            if losses is None:
                return
            taken = pb.TapsTaken(batch=records.batch)
            for source, lost in losses.items():
                taken.losses.add(source=source, records=lost)
            for source, n in Counter(records.source).items():
                self.records[self.sources[source].tap] += n - losses.get(source, 0)
            connection._send(pb.ToExecutor(taps_taken=taken))

    def lost(self, connection: Connection, message: str) -> None:
        self.gone.set()
        self.here.clear()

    async def ask(self, command: pb.Command) -> pb.Reply:
        assert self.connection is not None
        return await self.connection.send_command(command)

    async def listed(self) -> dict[str, pb.TapStatus]:
        reply = await self.ask(pb.Command(list_taps=pb.ListTaps()))
        return {status.uid: status for status in reply.taps.statuses}

    @contextlib.asynccontextmanager
    async def at(self, path: Path) -> AsyncIterator[str]:
        server = Server(self)
        address = await server.open(Endpoint(Address(path=str(path))))
        try:
            yield address
        finally:
            await server.stop()


def dropped(counts: pb.TapCounts) -> int:
    return (
        counts.queue_full
        + counts.disconnected
        + counts.rate
        + counts.too_large
        + counts.sink
        + counts.unconfirmed
        + counts.at_exit
    )


def adds_up(counts: pb.TapCounts) -> bool:
    return counts.produced == counts.delivered + counts.waiting + dropped(counts)
