"""A client that leaves unread what it is told."""

from __future__ import annotations

import asyncio
import json

from opstep_server.dap.events import EventTranslator
from opstep_server.dap.outbox import MAX_UNREAD
from opstep_server.dap.session import Session
from opstep_server.debugger import Logged


class Sink:
    def __init__(self) -> None:
        self.unread = 0
        self.written: list[str] = []

    def write(self, data: bytes) -> None:
        body = json.loads(data.partition(b"\r\n\r\n")[2])["body"]
        self.written.append(body["output"])

    def get_write_buffer_size(self) -> int:
        return self.unread


def test_log_messages_that_nobody_reads_are_counted() -> None:
    async def run() -> None:
        sink = Sink()
        take = EventTranslator(Session(sink))
        take(Logged(None, "first", 0))
        sink.unread = MAX_UNREAD + 1
        for _ in range(5):
            take(Logged(None, "unread", 0))
        assert sink.written == ["first\n"]
        sink.unread = 0
        take(Logged(None, "last", 0))
        dropped, last = sink.written[1:]
        assert dropped.startswith("5 log messages were dropped")
        assert last == "last\n"

    asyncio.run(run())
