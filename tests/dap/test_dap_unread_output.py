"""A client that leaves unread what it is told."""

from __future__ import annotations

import asyncio
import json

import pytest

from opstep_server.connection import Connection
from opstep_server.dap.adapter_session import AdapterSession
from opstep_server.dap.event_translator import EventTranslator
from opstep_server.dap.protocol.outbox import MAX_UNREAD
from opstep_server.debugger import (
    ExecutorLost,
    ExecutorProcess,
    Logged,
    ProcessExited,
    StoppedEvent,
    Thread,
)
from opstep_server.wire import debug_pb2 as pb


class Sink:
    def __init__(self) -> None:
        self.unread = 0
        self.written: list[str] = []

    def write(self, data: bytes) -> None:
        body = json.loads(data.partition(b"\r\n\r\n")[2])["body"]
        self.written.append(body.get("output", ""))

    def get_write_buffer_size(self) -> int:
        return self.unread


def test_log_messages_that_nobody_reads_are_counted() -> None:
    async def run() -> None:
        sink = Sink()
        take = EventTranslator(AdapterSession(sink))
        take(Logged(None, "first", 0))
        sink.unread = MAX_UNREAD + 1
        for _ in range(5):
            take(Logged(None, "unread", 0))
        take(Logged(None, "what the executor dropped", 0, dropped=1000))
        assert sink.written == ["first\n"]
        sink.unread = 0
        take(Logged(None, "last", 0))
        dropped, last = sink.written[1:]
        assert dropped.startswith("1005 log messages were dropped")
        assert last == "last\n"

    asyncio.run(run())


@pytest.mark.parametrize("end", ["process", "executor", "stop", "session"])
def test_the_count_is_told_when_something_ends_also_to_one_who_is_behind(end: str) -> None:
    async def run() -> None:
        sink = Sink()
        session = AdapterSession(sink)
        sink.unread = MAX_UNREAD + 1
        for point in (1, 2, 2):
            session.events(Logged(None, "unread", point))
        hello = pb.Hello(pid=1)
        executor = ExecutorProcess(1, Connection(hello, None, (), None), hello)  # type: ignore[arg-type]
        if end == "process":
            session.events(ProcessExited(0))
        elif end == "executor":
            session.events(ExecutorLost(executor, ""))
        elif end == "stop":
            thread = Thread(1, "main", executor, 1)
            session.events(StoppedEvent(thread, pb.Stopped(thread=1, reason=pb.STOP_PAUSE)))
        else:
            serving = asyncio.create_task(session.serve())
            session.leave()
            await serving
        one, two = sink.written[:2]
        assert one.startswith("1 log message was dropped")
        assert two.startswith("2 log messages were dropped")

    asyncio.run(run())
