"""The wire, spoken by a scripted executor over the real socket."""

from __future__ import annotations

import asyncio
import os
import stat

import pytest

from harness.patience import SECONDS
from harness.scripted_executor import ScriptedExecutor, session
from opstep_server import connection
from opstep_server.debugger import (
    DebuggerError,
    ExecutorJoined,
    ExecutorLost,
    ThreadEnded,
    ThreadStarted,
)
from opstep_server.wire import debug_pb2 as pb


def test_the_socket_is_private_and_goes_away():
    async def run() -> None:
        async with session() as s:
            path = s.address.removeprefix("unix:")
            assert stat.S_ISSOCK(os.stat(path).st_mode)
            assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
        assert not os.path.exists(os.path.dirname(path))
        await s.debugger.close()  # Twice is fine.

    asyncio.run(run())


def test_hello_is_answered_with_a_welcome():
    async def run() -> None:
        async with session() as s:
            executor = ScriptedExecutor(s.address, pid=77)
            welcome = await executor.connect()
            assert (welcome.protocol, welcome.error) == (connection.PROTOCOL, "")
            joined = await s.wait_for(ExecutorJoined)
            assert joined.executor.pid == 77
            await executor.close()

    asyncio.run(run())


def test_another_protocol_is_refused_with_a_sentence():
    async def run() -> None:
        async with session() as s:
            executor = ScriptedExecutor(s.address, protocol=99)
            welcome = await executor.connect()
            assert welcome.error == (
                "the executor (opstep 0.0.7) speaks protocol 99 but this debug server speaks 2: "
                "install the same opstep on both sides"
            )
            await executor.close()
            assert s.events == []

    asyncio.run(run())


def test_the_first_message_must_be_a_hello():
    async def run() -> None:
        async with session() as s:
            executor = ScriptedExecutor(s.address)
            await executor.send(heartbeat=pb.Heartbeat())
            message = await executor._call.read()
            assert message.welcome.error == "the first message must be a hello"
            await executor.close()

    asyncio.run(run())


def test_replies_find_their_commands_in_any_order():
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            executor.silent = True
            connection = (await s.wait_for(ExecutorJoined)).executor.connection
            asked = [
                asyncio.create_task(connection.send_command(pb.Command(list_programs={})))
                for _ in range(3)
            ]
            while len(executor.commands) < 3:
                await asyncio.sleep(0.01)
            ids = [command.id for command in executor.commands]
            assert len(set(ids)) == 3
            await executor.send(reply=pb.Reply(command=12345, error="nobody asked"))
            for id in reversed(ids):
                await executor.send(reply=pb.Reply(command=id, error=f"answer {id}"))
                await executor.send(reply=pb.Reply(command=id, error="a second answer"))
            assert [r.error for r in await asyncio.gather(*asked)] == [f"answer {i}" for i in ids]

    asyncio.run(run())


@pytest.mark.parametrize("how", ["goodbye", "close"])
def test_pending_commands_fail_when_the_stream_ends(how: str):
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            executor.silent = True
            connection = (await s.wait_for(ExecutorJoined)).executor.connection
            asked = asyncio.create_task(connection.send_command(pb.Command(list_programs={})))
            while not executor.commands:
                await asyncio.sleep(0.01)
            await getattr(executor, how)()
            with pytest.raises(DebuggerError):
                await asyncio.wait_for(asked, SECONDS)
            lost = await s.wait_for(ExecutorLost)
            wanted = "" if how == "goodbye" else "the connection to process 4242 was lost"
            assert lost.message == wanted
            with pytest.raises(DebuggerError):
                await connection.send_command(pb.Command(list_programs={}))

    asyncio.run(run())


def test_a_stream_that_ends_because_we_detached_is_no_loss():
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            await s.debugger.detach()
            await executor.close()
            assert (await s.wait_for(ExecutorLost)).message == ""

    asyncio.run(run())


def test_an_executor_that_falls_silent_is_lost(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection, "HEARTBEAT_SECONDS", 0.5)

    async def run() -> None:
        async with session() as s:
            talking = await s.join(pid=1)
            silent = await s.join(pid=2)
            silent.silent = True
            lost = await s.wait_for(ExecutorLost)
            assert lost.executor.pid == 2
            assert lost.message == "process 2 has not been heard of for 1.5 s"
            while talking.heartbeats < 5:
                await asyncio.sleep(0.01)
            assert [e.executor.pid for e in s.events if isinstance(e, ExecutorLost)] == [2]

    asyncio.run(run())


def test_a_batch_is_handled_in_its_order():
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            threads = [pb.ThreadEvent(thread=1, name="a"), pb.ThreadEvent(thread=1, ended=True)]
            messages = [pb.FromExecutor(thread=event) for event in threads]
            messages.insert(1, pb.FromExecutor(batch=pb.Batch(messages=messages)))  # not a batch's
            await executor.send(batch=pb.Batch(messages=messages))
            await executor.send(thread=pb.ThreadEvent(thread=2, name="b"))
            await s.wait_for(ThreadStarted, 2)
            shown = [e for e in s.events if isinstance(e, ThreadStarted | ThreadEnded)]
            assert [type(e) for e in shown] == [ThreadStarted, ThreadEnded, ThreadStarted]

    asyncio.run(run())


def test_a_command_beyond_the_limit_is_refused_before_it_is_sent():
    async def run() -> None:
        async with session() as s:
            await s.join()
            connection = (await s.wait_for(ExecutorJoined)).executor.connection
            huge = pb.Command(evaluate=pb.Evaluate(expr=pb.Expr(s="x" * (5 << 20))))
            with pytest.raises(DebuggerError, match="4 MiB"):
                await connection.send_command(huge)
            reply = await connection.send_command(pb.Command(list_programs={}))
            assert reply.HasField("done")

    asyncio.run(run())


def test_messages_up_to_the_limit_arrive():
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            line = "x" * ((4 << 20) - 4096)
            executor.answers["get_listing"] = lambda _: {
                "listing": pb.Listing(lines=[line], total=1)
            }
            connection = (await s.wait_for(ExecutorJoined)).executor.connection
            reply = await connection.send_command(pb.Command(get_listing={"program": 1}))
            assert len(reply.listing.lines[0]) == len(line)

    asyncio.run(run())
