"""Looking at a stopped thread over the real wire: bytes in pieces, edits, and giving up."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness.scripted_executor import ScriptedExecutor, Session, op, session
from opstep_server.debugger import DebuggerError, StoppedEvent
from opstep_server.expr import ExprError
from opstep_server.wire import debug_pb2 as pb


class Memory:
    """An executor's one tensor, which it lends in pieces that are no larger than it likes."""

    def __init__(self, data: bytes, most: int = 3 << 20) -> None:
        self.data = bytearray(data)
        self._most = most

    def read(self, command: pb.Command) -> dict[str, Any]:
        wanted = command.read_bytes
        end = min(wanted.offset + min(wanted.count, self._most), len(self.data))
        if wanted.offset > len(self.data):
            return {"error": f"there are only {len(self.data)} bytes"}
        data = bytes(self.data[wanted.offset : end])
        return {"bytes": pb.Bytes(data=data, total=len(self.data))}

    def write(self, command: pb.Command) -> dict[str, Any]:
        wanted = command.write_bytes
        if wanted.offset + len(wanted.data) > len(self.data):
            return {"error": f"there are only {len(self.data)} bytes"}
        self.data[wanted.offset : wanted.offset + len(wanted.data)] = wanted.data
        return {"done": pb.Done()}


def stopped(test: Callable[[Session, ScriptedExecutor], Awaitable[None]]) -> None:
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            await executor.stop_at(op(), stop=7)
            await s.wait_for(StoppedEvent)
            await test(s, executor)

    asyncio.run(run())


def test_assign_sends_both_sides_parsed_and_gives_the_new_value():
    async def test(s: Session, executor: ScriptedExecutor) -> None:
        executor.answers["assign"] = lambda _: {"value": pb.Value(f=0.5)}
        assert (await s.debugger.assign(1, 0, "w[0, :5]", "w[1, :5] / 2")).f == 0.5
        (sent,) = executor.of("assign")
        assert (sent.thread, sent.stop, sent.frame) == (1, 7, 0)
        assert sent.target.index.value.name == "w"
        assert len(sent.target.index.subscripts) == 2
        assert sent.value.binary.op == pb.Expr.Binary.DIVIDE
        with pytest.raises(ExprError):
            await s.debugger.assign(1, 0, "w", "1 +")
        assert len(executor.of("assign")) == 1

    stopped(test)


def test_bytes_of_any_size_come_in_pieces_and_in_order():
    async def test(s: Session, executor: ScriptedExecutor) -> None:
        memory = Memory(os.urandom(9_000_003))
        executor.answers["read_bytes"] = memory.read
        size = len(memory.data)
        assert await s.debugger.read_bytes(1, 0, "w", 0, size) == (memory.data, size)
        assert all(len(memory.read(c)["bytes"].data) <= 3 << 20 for c in executor.commands)
        buffer = bytearray(size)
        assert await s.debugger.read_bytes_into(1, 0, "w", 9, buffer) == size
        assert buffer == memory.data[9:] + bytes(9)  # Behind the end nothing is written.
        data, total = await s.debugger.read_bytes(1, 0, "w", 17, 3_000_000)
        assert (data, total) == (memory.data[17:3_000_017], size)
        # What lies behind the end is not there; that is no error, and all there is comes.
        assert await s.debugger.read_bytes(1, 0, "w", size - 3, 100) == (memory.data[-3:], size)
        assert await s.debugger.read_bytes(1, 0, "w", 0, 0) == (b"", size)
        with pytest.raises(DebuggerError, match="only 9000003 bytes"):
            await s.debugger.read_bytes(1, 0, "w", size + 1, 1)

    stopped(test)


def test_bytes_are_written_all_or_none():
    async def test(s: Session, executor: ScriptedExecutor) -> None:
        memory = Memory(os.urandom(5_000_000))
        executor.answers |= {"read_bytes": memory.read, "write_bytes": memory.write}
        new = os.urandom(4_000_000)
        await s.debugger.write_bytes(1, 0, "w", 1_000_000, new)
        assert memory.data[1_000_000:] == new
        await s.debugger.write_bytes(1, 0, "w", 3, b"abc")
        assert memory.data[3:6] == b"abc"
        before = bytes(memory.data)
        with pytest.raises(DebuggerError, match="do not fit: there are 5000000"):
            await s.debugger.write_bytes(1, 0, "w", 1_000_001, new)
        assert memory.data == before

    stopped(test)


def test_names():
    async def test(s: Session, executor: ScriptedExecutor) -> None:
        names = pb.Names(variables=["w"], slots=["X"], attributes=["axis"])
        executor.answers["list_names"] = lambda _: {"names": names}
        assert await s.debugger.names(1, 0) == names

    stopped(test)


@pytest.mark.parametrize(
    "look",
    [
        lambda d: d.evaluate(1, 0, "mean(w)"),
        lambda d: d.variables(1, 0, pb.SCOPE_BLOCK),
        lambda d: d.assign(1, 0, "w", "0"),
        lambda d: d.read_bytes(1, 0, "w", 0, 8),
        lambda d: d.write_bytes(1, 0, "w", 0, b"12345678"),
        lambda d: d.names(1, 0),
        lambda d: d.variable_of(1, 0, "w"),
    ],
)
def test_a_caller_that_gives_up_has_its_command_cancelled(look: Any):
    async def test(s: Session, executor: ScriptedExecutor) -> None:
        executor.silent = True
        asking = asyncio.create_task(look(s.debugger))
        while not executor.commands:
            await asyncio.sleep(0.001)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        while len(executor.commands) < 2:
            await asyncio.sleep(0.001)
        assert executor.commands[1].cancel.command == executor.commands[0].id
        # The answer that comes all the same is nobody's, and the next command gets its own.
        executor.silent = False
        await executor.send(reply=pb.Reply(command=executor.commands[0].id, error="given up"))
        executor.answers["evaluate"] = lambda _: {"value": pb.Value(i=3)}
        assert (await s.debugger.evaluate(1, 0, "step")).i == 3

    stopped(test)


def test_one_piece_that_fails_gives_up_the_others():
    async def test(s: Session, executor: ScriptedExecutor) -> None:
        memory = Memory(bytes(40 << 20))

        def read(command: pb.Command) -> dict[str, Any]:
            if command.read_bytes.offset > 4 << 20:
                return {"error": "thread 1 has gone on"}
            return memory.read(command)

        executor.answers["read_bytes"] = read
        with pytest.raises(DebuggerError, match="has gone on"):
            await s.debugger.read_bytes(1, 0, "w", 0, 40 << 20)
        executor.answers["evaluate"] = lambda _: {"value": pb.Value(i=3)}
        assert (await s.debugger.evaluate(1, 0, "step")).i == 3
        assert len(executor.of("read_bytes")) < 30

    stopped(test)
