"""Guests of a hub: what is passed on between them and a scripted executor."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from harness.patience import SECONDS, until_async as until
from harness.scripted_executor import ScriptedExecutor
from harness.shared_hub import Stream, shared
from opstep_server import connection, guests
from opstep_server.access import Address
from opstep_server.debugger import Debugger
from opstep_server.guests import Guests
from opstep_server.hub import Hub
from opstep_server.wire import debug_pb2 as pb


@contextlib.asynccontextmanager
async def visited(path: Any) -> AsyncIterator[tuple[Hub, ScriptedExecutor, Guests]]:
    async with shared(path) as (hub, address):
        executor = ScriptedExecutor(address)
        await executor.connect()
        yield hub, executor, Guests(hub)
        await executor.close()


def evaluate(id: int) -> pb.Command:
    return pb.Command(id=id, evaluate=pb.Evaluate())


def test_a_guest_cancels_its_own_command(tmp_path: Any) -> None:
    async def run() -> None:
        async with visited(tmp_path) as (_, executor, shares):
            guest = Stream(shares)
            await guest.welcome()
            executor.silent = True
            guest.say(command=evaluate(100))
            guest.say(command=pb.Command(id=101, cancel=pb.Cancel(command=100)))
            await until(lambda: executor.of("cancel"))
            asked = next(c for c in executor.commands if c.HasField("evaluate"))
            assert asked.id != 100
            assert executor.of("cancel")[0].command == asked.id
            await executor.send(reply=pb.Reply(command=asked.id, error="given up"))
            await until(lambda: [r for r in guest.of("reply") if r.command == 100])
            # Answered, so that its number says nothing to the executor any more.
            guest.say(command=pb.Command(id=102, cancel=pb.Cancel(command=100)))
            await until(lambda: [r for r in guest.of("reply") if r.command == 102])
            assert guest.of("reply")[-1].HasField("done")
            assert len(executor.of("cancel")) == 1
            executor.silent = False

    asyncio.run(run())


def test_what_a_guest_asked_is_given_up_when_it_leaves(tmp_path: Any) -> None:
    async def run() -> None:
        async with visited(tmp_path) as (_, executor, shares):
            guest = Stream(shares)
            await guest.welcome()
            executor.answers["evaluate"] = lambda _: {"error": "late"}
            executor.silent = True
            guest.say(command=evaluate(100))
            await until(lambda: executor.of("evaluate"))
            executor.silent = False
            guest.leave()
            await until(lambda: executor.of("cancel"))
            asked = next(c for c in executor.commands if c.HasField("evaluate"))
            assert [c.command for c in executor.of("cancel")] == [asked.id]

    asyncio.run(run())


def test_breakpoints_for_the_tenth_executor_outlive_the_first(tmp_path: Any) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            shares = Guests(hub)
            executors = [ScriptedExecutor(address, pid=pid) for pid in range(1, 11)]
            streams = []
            for executor in executors:
                await executor.connect()
                streams.append(Stream(shares))
            first, tenth = streams[0], streams[-1]
            await first.welcome("tanh")
            await tenth.welcome("matmul")
            assert [e.id for e in hub.roster.executors] == list(range(1, 11))
            first.leave()
            await first.visit
            patterns = [b.pattern for b in executors[-1].of("set_breakpoints")[-1].breakpoints]
            assert patterns == ["matmul"]
            for executor in executors:
                await executor.close()

    asyncio.run(run())


def logs(count: int, breakpoint: int) -> pb.Logs:
    return pb.Logs(records=[pb.LogRecord(breakpoint=breakpoint, thread=1)] * count)


def test_log_records_that_a_guest_does_not_read_are_counted(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "MAX_UNREAD_LOGS", 100)

    async def run() -> None:
        async with visited(tmp_path) as (_, executor, shares):
            guest = Stream(shares)
            await guest.welcome("tanh")
            own = executor.of("set_breakpoints")[-1].breakpoints[0].id
            guest.reads.clear()
            await executor.send(logs=logs(1000, own))
            # What is told of a thread is not for sparing.
            await executor.send(thread=pb.ThreadEvent(thread=7, name="behind", ended=False))
            await executor.send(thread=pb.ThreadEvent(thread=8, name="ahead", ended=False))
            guest.say(command=evaluate(100))
            await until(lambda: executor.of("evaluate"))
            guest.reads.set()
            await until(lambda: any(told.dropped for told in guest.of("logs")))
            kept = sum(len(told.records) for told in guest.of("logs"))
            assert 0 < kept < 100
            (told,) = (told for told in guest.of("logs") if told.dropped)
            assert (told.dropped, sum(told.dropped_by.values())) == (1000 - kept, 1000 - kept)
            assert [t.name for t in guest.of("thread")][-2:] == ["behind", "ahead"]
            await executor.send(logs=logs(1, own))
            await until(lambda: guest.of("logs")[-1].records)

    asyncio.run(run())


def test_drops_are_told_before_the_executor_is_gone_and_only_to_the_owner(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "MAX_UNREAD_LOGS", 100)

    async def run() -> None:
        async with visited(tmp_path) as (hub, executor, shares):
            guest, other = Stream(shares), Stream(shares, "other")
            await guest.welcome("tanh")
            await other.welcome()
            own = executor.of("set_breakpoints")[-1].breakpoints[0].id
            guest.reads.clear()
            await executor.send(logs=logs(1000, own))
            await executor.send(logs=pb.Logs(dropped=500, dropped_by={own: 500}))
            await executor.close()
            await until(lambda: not hub.roster.executors)
            guest.reads.set()
            await until(lambda: guest.of("goodbye"))
            kept = sum(len(told.records) for told in guest.of("logs"))
            assert kept + sum(told.dropped for told in guest.of("logs")) == 1500
            assert other.of("logs") == []

    asyncio.run(run())


def test_a_guest_that_reads_nothing_at_all_is_sent_away(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "MAX_UNREAD", 1000)

    async def run() -> None:
        async with visited(tmp_path) as (_, executor, shares):
            guest = Stream(shares)
            await guest.welcome()
            guest.reads.clear()
            for thread in range(1, 200):
                await executor.send(thread=pb.ThreadEvent(thread=thread, name="one of many"))
            await asyncio.wait_for(guest.visit, SECONDS)
            await until(lambda: not executor.of("set_presence")[-1].present)

    asyncio.run(run())


def test_a_silent_guest_is_gone_and_one_that_has_a_pulse_is_not(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEARTBEAT_SECONDS", 0.5)

    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            shares = Guests(hub)
            hub.server.on_visit = shares.visit
            executor = ScriptedExecutor(address)
            await executor.connect()
            alive = Debugger()
            gone: list[str] = []
            place = Address(path=f"{tmp_path}/socket")
            await alive._hub.server.visit(place, "", b"", gone.append)
            await until(lambda: alive.executors)
            (there,) = alive.executors
            # The other one has a stream for the executor, and one that waits for the next.
            silent, waiting = Stream(shares, "silent"), Stream(shares, "silent")
            await silent.welcome()
            await asyncio.wait_for(silent.visit, SECONDS)
            await asyncio.wait_for(waiting.visit, SECONDS)
            assert waiting.of("hello")
            assert (alive.executors, gone) == ([there], [])
            await alive.close()
            await until(lambda: not executor.of("set_presence")[-1].present)
            await executor.close()

    asyncio.run(run())


def test_guests_learn_what_the_executor_dropped(tmp_path: Any) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            shares = Guests(hub)
            one, two = ScriptedExecutor(address, pid=1), ScriptedExecutor(address, pid=2)
            streams = []
            for executor in (one, two):
                await executor.connect()
                streams.append(Stream(shares))
                await streams[-1].welcome()
            await two.send(logs=pb.Logs(dropped=12))
            await until(lambda: streams[1].of("logs"))
            assert [told.dropped for told in streams[1].of("logs")] == [12]
            assert streams[0].of("logs") == []
            await one.close()
            await two.close()

    asyncio.run(run())


def test_an_executor_of_another_protocol_is_not_taken_from_a_server(tmp_path: Any) -> None:
    async def pass_on(_: str, stream: Any) -> None:
        hello = pb.Hello(protocol=99, pid=1, opstep_version="0.0.7")
        await stream.write(pb.FromExecutor(hello=hello))
        await stream.read()

    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            hub.server.on_visit = pass_on
            debugger = Debugger()
            gone: list[str] = []
            place = Address(path=f"{tmp_path}/socket")
            await debugger._hub.server.visit(place, "", b"", gone.append)
            await until(lambda: gone)
            assert gone == [
                f"nothing to share with the debug server at {address}: the executor (opstep 0.0.7) "
                "speaks protocol 99 but this debugger speaks 2: install the same opstep on both "
                "sides"
            ]
            assert debugger.executors == []
            await debugger.close()

    asyncio.run(run())
