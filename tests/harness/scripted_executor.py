"""An executor whose answers a test sets: debug.proto over the real socket with real gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio

from opstep_server.connection import PROTOCOL
from opstep_server.debugger import Debugger, Event
from opstep_server.wire import debug_pb2 as pb

PATIENCE = 120.0 * float(os.environ.get("OPSTEP_TEST_PATIENCE", "1"))  # As in patience.py.
# Raised by gRPC for a write to a call that has ended, or ends meanwhile.
ENDED = (asyncio.InvalidStateError, grpc.aio.AioRpcError)

Answer = Callable[[pb.Command], dict[str, Any]]


class ScriptedExecutor:
    def __init__(self, address: str, *, protocol: int = PROTOCOL, pid: int = 4242) -> None:
        self._channel = grpc.aio.insecure_channel(address)
        attach = self._channel.stream_stream(
            "/opstep.proto.DebugServer/Attach",
            request_serializer=pb.FromExecutor.SerializeToString,
            response_deserializer=pb.ToExecutor.FromString,
        )
        self._call = attach()
        self._writing = asyncio.Lock()
        self._hello = pb.Hello(protocol=protocol, pid=pid, host="here", opstep_version="0.0.7")
        self._reader: asyncio.Task[None] | None = None
        self.commands: list[pb.Command] = []
        self.heartbeats = 0
        self.silent = False
        # Answers by the command's kind; other commands get Done.
        self.answers: dict[str, Answer] = {}

    async def connect(self) -> pb.Welcome:
        await self.send(hello=self._hello)
        message = await asyncio.wait_for(self._call.read(), PATIENCE)
        assert message.WhichOneof("message") == "welcome"
        if not message.welcome.error:
            self._reader = asyncio.create_task(self._read())
        return message.welcome

    async def send(self, **message: Any) -> None:
        async with self._writing:
            await self._call.write(pb.FromExecutor(**message))

    async def stop_at(self, op: pb.OpInfo, **fields: Any) -> None:
        frames = [
            pb.StackFrame(kind=pb.StackFrame.OP, op=op, program=1, program_name="main", step=3),
            pb.StackFrame(kind=pb.StackFrame.RUN, program=1, program_name="main", step=3),
        ]
        if op.stack:
            frames[0].file, frames[0].line = op.stack[0].file, op.stack[0].line
        fields = {"thread": 1, "stop": 1, "reason": pb.STOP_BREAKPOINT, "frames": frames, **fields}
        await self.send(stopped=pb.Stopped(**fields))

    async def goodbye(self) -> None:
        # The server may have ended the call first.
        with contextlib.suppress(*ENDED):
            await self.send(goodbye=pb.Goodbye())
            await self._call.done_writing()
        await asyncio.wait_for(self._call.code(), PATIENCE)
        await self.close()

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self._call.cancel()
        await self._channel.close()

    async def _read(self) -> None:
        with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
            while True:
                message = await self._call.read()
                if not isinstance(message, pb.ToExecutor):
                    return
                if message.HasField("heartbeat"):
                    self.heartbeats += 1
                    if not self.silent:
                        await self.send(heartbeat=pb.Heartbeat())
                elif message.HasField("command"):
                    self.commands.append(message.command)
                    if not self.silent:
                        await self._answer(message.command)
                else:
                    self.other(message)

    def other(self, message: pb.ToExecutor) -> None:
        """Handles a message that is not a command."""

    async def _answer(self, command: pb.Command) -> None:
        kind = command.WhichOneof("command")
        answer = self.answers.get(kind, lambda _: {"done": pb.Done()})(command)
        # A command may come after the goodbye: it is read, but gets no answer.
        with contextlib.suppress(*ENDED):
            await self.send(reply=pb.Reply(command=command.id, **answer))

    def of(self, kind: str) -> list[Any]:
        """All commands of a kind so far."""
        return [getattr(c, kind) for c in self.commands if c.WhichOneof("command") == kind]


class Session:
    """A debugger that keeps its events."""

    def __init__(self, debugger: Debugger, address: str) -> None:
        self.debugger = debugger
        self.address = address
        self.events: list[Event] = []
        self._changed = asyncio.Event()
        self._executors: list[ScriptedExecutor] = []
        debugger.subscribe(self._take)

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()

    async def join(self, **options: Any) -> ScriptedExecutor:
        executor = ScriptedExecutor(self.address, **options)
        self._executors.append(executor)
        welcome = await executor.connect()
        assert not welcome.error
        return executor

    async def wait_for(self, kind: type[Event], count: int = 1) -> Any:
        """The count-th event of the kind; waits for it if needed."""

        async def wait() -> Any:
            while True:
                found = [event for event in self.events if isinstance(event, kind)]
                if len(found) >= count:
                    return found[count - 1]
                self._changed.clear()
                await self._changed.wait()

        return await asyncio.wait_for(wait(), PATIENCE)

    async def close(self) -> None:
        for executor in self._executors:
            await executor.close()
        await self.debugger.close()


@contextlib.asynccontextmanager
async def session() -> AsyncIterator[Session]:
    debugger = Debugger()
    opened = Session(debugger, await debugger.listen())
    try:
        yield opened
    finally:
        await opened.close()


def op(id: int = 14, name: str = "fc_0.matmul", type: str = "matmul", line: int = 10) -> pb.OpInfo:
    return pb.OpInfo(
        id=id,
        name=name,
        type=type,
        listing_line=id + 1,
        outputs=[pb.VarInfo(name="fc_0.out", dtype="FLOAT32", dims=[128, 32])],
        stack=[pb.SourceLine(file="/models/train.py", line=line, function="net")],
    )
