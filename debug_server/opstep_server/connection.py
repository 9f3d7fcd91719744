"""The stream to one executor: commands and replies, its events, its heartbeat.

Two tasks: one reads until the stream ends; the pulse sends heartbeats and cancels the reader when
the executor's heartbeats stop. Sending never blocks: a message begins a write at once, and messages
that come before its end wait in a queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from opstep_server import inline_tasks, recording, script_process
from opstep_server.model import ConnectionLost, DebuggerError
from opstep_server.wire import debug_pb2 as pb

# Counts up with every change of debug.proto that an older peer cannot live with.
PROTOCOL = 2
HEARTBEAT_SECONDS = 2.0
MISSED_HEARTBEATS = 3
MESSAGE_LIMIT = 4 << 20
# Seconds that a process may take to end after its stream.
ENDING_SECONDS = 1.0


class Stream(Protocol):
    # Returns something else at the end of the stream.
    def read(self) -> Awaitable[object]: ...
    def write(self, message: pb.ToExecutor, /) -> Awaitable[None]: ...


class Listener(Protocol):
    """Receives what arrives; called on the event loop, in the order of the stream."""

    def joined(self, connection: Connection) -> pb.Welcome: ...
    def received(self, connection: Connection, message: pb.FromExecutor) -> None: ...
    def lost(self, connection: Connection, message: str) -> None: ...


class Connection:
    """One executor's stream."""

    def __init__(
        self,
        hello: pb.Hello,
        stream: Stream,
        broken: tuple[type[Exception], ...],
        recorder: recording.Recorder | None,
    ) -> None:
        """`broken` is what the stream raises when its other side is gone."""
        self.hello = hello
        self._stream = stream
        self._broken = broken
        self._recorder = recorder
        self._number = recorder.connection() if recorder is not None else 0
        self._record(pb.FromExecutor(hello=hello))
        self._ids = itertools.count(1)
        self._pending: dict[
            int, tuple[inline_tasks.Answer[pb.Reply], Callable[[pb.Reply], None] | None]
        ] = {}
        self._outgoing: deque[pb.ToExecutor] = deque()
        self._writing = False
        self._writer: inline_tasks.Started | None = None
        self._lost: str | None = None
        self._missed = 0
        # Messages that it sent.
        self.heard = 0
        # It came through a socket that only our own user can open.
        self.private = False
        # We detached it: the end of its stream is expected.
        self.let_go = False
        self.reader: asyncio.Task[str] | None = None
        # Set when the listener knows of the stream's end.
        self.over = asyncio.Event()

    async def send_command(
        self, command: pb.Command, on_reply: Callable[[pb.Reply], None] | None = None
    ) -> pb.Reply:
        """Sends the command and waits for its reply.

        `on_reply` is called in the order of the stream, before anything that follows the reply is
        handled; the caller itself goes on only later.
        """
        if self._lost is not None:
            raise ConnectionLost(self._lost)
        command.id = next(self._ids)
        if command.ByteSize() > MESSAGE_LIMIT - 1024:
            raise DebuggerError("the command is larger than the 4 MiB that the wire allows")
        answer: inline_tasks.Answer[pb.Reply] = inline_tasks.Answer()
        self._pending[command.id] = answer, on_reply
        self._send(pb.ToExecutor(command=command))
        return await answer

    def tell(self, message: pb.ToExecutor) -> None:
        """Sends a message that has no reply."""
        if self._lost is None:
            self._send(message)

    # ---- the server's side -----------------------------------------------------------------------

    async def serve(self, listener: Listener, welcome: pb.Welcome) -> None:
        """Serves from the welcome to the end of the stream; the listener hears of its loss."""
        welcome.protocol = PROTOCOL
        self._send(pb.ToExecutor(welcome=welcome))
        # Only for a process on this machine we can see whether it has ended.
        local = self.private and script_process.alive(self.hello.pid)
        reader = self.reader = asyncio.create_task(self._read(listener))
        pulse = asyncio.create_task(self._pulse(reader))
        # gRPC cancels us when the stream breaks; raised again, gRPC would print a traceback.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([reader])
        message = f"the connection to process {self.hello.pid} was lost"
        if reader.done() and not reader.cancelled() and reader.exception() is None:
            message = reader.result()
        elif self._missed >= MISSED_HEARTBEATS:
            silent = HEARTBEAT_SECONDS * MISSED_HEARTBEATS
            message = f"process {self.hello.pid} has not been heard of for {silent:g} s"
            local = False
        if self.let_go:
            message = ""
        elif message and local and await self._has_ended():
            message = f"process {self.hello.pid} has ended"
        reader.cancel()
        pulse.cancel()
        self._end(message)
        listener.lost(self, message)
        self.over.set()

    async def _has_ended(self) -> bool:
        """A process that ends closes the stream first; a moment later it is gone."""
        pid = self.hello.pid
        if script_process.alive(pid):
            ending = asyncio.create_task(script_process.end_of(pid))
            # gRPC may cancel us once meanwhile, as above.
            for _ in range(2):
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([ending], timeout=ENDING_SECONDS)
                    break
            ending.cancel()
        return not script_process.alive(pid)

    def drop(self) -> None:
        """Ends the stream; the listener hears of its loss."""
        if self.reader is not None:
            self.reader.cancel()

    def _reply(self, reply: pb.Reply) -> inline_tasks.Answer[pb.Reply] | None:
        answer, on_reply = self._pending.pop(reply.command, (None, None))
        if answer is None:
            return None  # Answered already, or never asked: no reason to end a session.
        if on_reply is not None:
            on_reply(reply)
        if not answer.done():
            answer.set_result(reply)
        return answer

    def _end(self, message: str) -> None:
        # An executor that says goodbye gives no reason.
        self._lost = message or "the executor has left"
        pending, self._pending = self._pending, {}
        for answer, _ in pending.values():
            if not answer.done():
                answer.set_exception(ConnectionLost(self._lost))
                answer.exception()  # The caller may have given up: avoids a warning.
            answer.go_on()
        if self._writer is not None:
            self._writer.cancel()

    def _record(self, message: recording.Message) -> None:
        if self._recorder is not None:
            self._recorder.write(self._number, message)

    def _send(self, message: pb.ToExecutor) -> None:
        self._record(message)
        self._outgoing.append(message)
        if not self._writing:
            self._writer = inline_tasks.start(self._write(), alone=True)

    async def _write(self) -> None:
        self._writing = True
        # The reader handles a broken stream.
        with contextlib.suppress(*self._broken):
            while self._outgoing:
                await self._stream.write(self._outgoing.popleft())
        self._writing = False

    async def _pulse(self, reader: asyncio.Task[str]) -> None:
        # Counts ticks, not seconds: a debugger that was suspended does not lose its executors.
        while self._missed < MISSED_HEARTBEATS:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            self._missed += 1
            self._send(pb.ToExecutor(heartbeat=pb.Heartbeat()))
        reader.cancel()

    async def _read(self, listener: Listener) -> str:
        """Reads to the end; returns why it ended, empty when the executor said goodbye."""
        while True:
            message = await self._stream.read()
            if not isinstance(message, pb.FromExecutor):
                return f"the connection to process {self.hello.pid} was lost"
            self._missed = 0
            self.heard += 1
            answers: list[inline_tasks.Answer[pb.Reply]] = []
            try:
                for each in message.batch.messages or (message,):
                    self._record(each)
                    if each.HasField("goodbye"):
                        return ""
                    self._take(each, listener, answers)
            finally:
                # A caller that waited for a reply sees all that came with it.
                for answer in answers:
                    answer.go_on()

    def _take(
        self,
        message: pb.FromExecutor,
        listener: Listener,
        answers: list[inline_tasks.Answer[pb.Reply]],
    ) -> None:
        kind = message.WhichOneof("message")
        if kind == "reply":
            answer = self._reply(message.reply)
            if answer is not None:
                answers.append(answer)
        elif kind is not None and kind != "heartbeat":
            listener.received(self, message)
            if kind == "logs":
                taken = pb.LogsTaken(records=len(message.logs.records))
                self._send(pb.ToExecutor(logs_taken=taken))
