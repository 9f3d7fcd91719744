"""Terminals that share a server's executors: each is passed on as if it had dialled the terminal.

A guest's debugger sends what it would send to an executor. What concerns all users, breakpoints and
fault filters, is put among theirs; the rest goes to the executor and its answer comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

from opstep_server.hub import Hub
from opstep_server.model import (
    BreakpointChanged,
    ContinuedEvent,
    DebuggerError,
    Event,
    Executor,
    ExecutorJoined,
    ExecutorLost,
    FaultsChanged,
    Logged,
    ProgramCompiled,
    StoppedEvent,
    Thread,
    ThreadEnded,
    ThreadStarted,
)
from opstep_server.wire import debug_pb2 as pb


class Stream(Protocol):
    async def read(self) -> object:
        """The next message from the guest; something else at the end."""

    async def write(self, message: pb.FromExecutor) -> None: ...


class Guests:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._guests: dict[str, Guest] = {}

    async def visit(self, name: str, stream: Stream) -> None:
        """Passes on the next executor that this guest has not yet; until one of both is gone."""
        guest = self._guests.get(name)
        if guest is None:
            guest = self._guests[name] = Guest(self._hub)
        guest.streams += 1
        try:
            await guest.visit(stream)
        finally:
            guest.streams -= 1
            if not guest.streams:
                del self._guests[name]
                await asyncio.shield(self._hub.leave(guest.user))


class Guest:
    """One user of the hub, with a stream for each executor and one that waits for the next."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.streams = 0
        self.user = hub.enter(self._take)
        self._relays: dict[int, Relay] = {}
        # Those that it was shown, and may have sent away.
        self._shown: set[int] = set()
        self._came = asyncio.Event()

    async def visit(self, stream: Stream) -> None:
        while (executor := self._next()) is None:
            self._came.clear()
            await self._came.wait()
        self._shown.add(executor.id)
        relay = self._relays[executor.id] = Relay(self, executor, stream)
        try:
            await relay.run()
        finally:
            del self._relays[executor.id]
            self.hub.breakpoints.drop(relay.owner)
            with contextlib.suppress(DebuggerError):
                await self.hub.push_breakpoints()

    def _next(self) -> Executor | None:
        return next((e for e in self.hub.roster.executors if e.id not in self._shown), None)

    def _take(self, event: Event) -> None:
        if isinstance(event, ExecutorJoined):
            self._came.set()
        elif isinstance(event, (BreakpointChanged, FaultsChanged)):
            for relay in self._relays.values():
                relay.take(event)
        else:
            thread = getattr(event, "thread", None)
            executor = thread.executor if thread is not None else getattr(event, "executor", None)
            if executor is not None and executor.id in self._relays:
                self._relays[executor.id].take(event)


class Relay:
    """One executor for one guest. Tasks: the writer, and one for each command under way."""

    def __init__(self, guest: Guest, executor: Executor, stream: Stream) -> None:
        self._hub = guest.hub
        self._user = guest.user
        self._executor = executor
        self._stream = stream
        self.owner = f"{guest.user}{executor.id}"
        # By our numbers, what the guest calls his breakpoints; also one that had its only stop.
        self._names: dict[int, int] = {}
        self._outgoing: asyncio.Queue[pb.FromExecutor | None] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        writer = asyncio.create_task(self._write())
        reader = asyncio.create_task(self._read())
        self._send(hello=self._executor.hello)
        try:
            await asyncio.wait([writer, reader], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writer, reader, *self._tasks):
                task.cancel()

    async def _write(self) -> None:
        while (message := await self._outgoing.get()) is not None:
            await self._stream.write(message)

    async def _read(self) -> None:
        while isinstance(message := await self._stream.read(), pb.ToExecutor):
            if message.HasField("heartbeat"):
                self._send(heartbeat=pb.Heartbeat())
            elif message.HasField("welcome"):
                await self._set_breakpoints(message.welcome.breakpoints)
                await self._set_exceptions(message.welcome.exceptions)
                self._tell_all()
            elif message.HasField("command"):
                task = asyncio.create_task(self._answer(message.command))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _send(self, **message: object) -> None:
        self._outgoing.put_nowait(pb.FromExecutor(**message))  # type: ignore[arg-type]

    # ---- what the guest wants --------------------------------------------------------------------

    async def _answer(self, command: pb.Command) -> None:
        kind = command.WhichOneof("command")
        try:
            if kind == "set_breakpoints":
                statuses = await self._set_breakpoints(command.set_breakpoints)
                reply = pb.Reply(breakpoints=pb.BreakpointStatuses(statuses=statuses))
            elif kind == "set_exceptions":
                problems = await self._set_exceptions(command.set_exceptions)
                reply = pb.Reply(faults=pb.FaultStatuses(messages=problems))
            elif kind in ("set_presence", "detach"):
                reply = pb.Reply(done=pb.Done())
            else:
                reply = await self._pass_on(command)
        except DebuggerError as error:
            reply = pb.Reply(error=str(error))
        reply.command = command.id
        self._send(reply=reply)
        if kind == "detach":
            self._end()

    async def _pass_on(self, command: pb.Command) -> pb.Reply:
        copy = pb.Command()
        copy.CopyFrom(command)
        if not command.HasField("resume"):
            return await self._executor.connection.send_command(copy)
        thread = self._hub.roster.wire_thread(self._executor, command.resume.thread)
        stopped = thread.stopped

        def went_on(reply: pb.Reply) -> None:
            if not reply.error and stopped is not None and thread.stopped is stopped:
                self._hub.continued(thread, "")

        return await self._executor.connection.send_command(copy, went_on)

    async def _set_breakpoints(self, wanted: pb.SetBreakpoints) -> list[pb.BreakpointStatus]:
        self._names = self._hub.breakpoints.replace_wire(
            self.owner, self._executor.id, wanted.breakpoints
        )
        await self._hub.push_breakpoints()
        return self._hub.breakpoints.wire_statuses(self.owner, self._executor.id)

    async def _set_exceptions(self, wanted: pb.SetExceptions) -> list[str]:
        faults = self._hub.faults.of(self._user)
        faults.replace_wire(wanted)
        await self._hub.push_faults()
        return faults.problems

    # ---- what the guest is told ------------------------------------------------------------------

    def _tell_all(self) -> None:
        """What there is, as if it came now."""
        roster = self._hub.roster
        for program in roster.programs:
            if program.executor is self._executor:
                self._send(program=program.event)
        for thread in roster.threads:
            if thread.executor is self._executor:
                self._thread(thread)
                if thread.stopped is not None:
                    self._stopped(thread.stopped)

    def take(self, event: Event) -> None:
        if isinstance(event, StoppedEvent):
            self._stopped(event.stopped)
        elif isinstance(event, ContinuedEvent):
            continued = pb.Continued(thread=event.thread.wire_id, message=event.message)
            self._send(continued=continued)
        elif isinstance(event, ThreadStarted):
            self._thread(event.thread)
        elif isinstance(event, ThreadEnded):
            self._thread(event.thread, ended=True)
        elif isinstance(event, ProgramCompiled):
            self._send(program=event.program)
        elif isinstance(event, BreakpointChanged):
            for status in self._hub.breakpoints.wire_statuses(
                self.owner, self._executor.id, event.state.id
            ):
                self._send(breakpoint=pb.BreakpointEvent(status=status))
        elif isinstance(event, FaultsChanged):
            self._send(faults=pb.FaultStatuses(messages=event.problems))
        elif isinstance(event, Logged):
            self._logged(event)
        elif isinstance(event, ExecutorLost):
            self._end()

    def _end(self) -> None:
        self._send(goodbye=pb.Goodbye())
        self._outgoing.put_nowait(None)

    def _thread(self, thread: Thread, ended: bool = False) -> None:
        self._send(thread=pb.ThreadEvent(thread=thread.wire_id, name=thread.name, ended=ended))

    def _stopped(self, stopped: pb.Stopped) -> None:
        copy = pb.Stopped()
        copy.CopyFrom(stopped)
        # Those of other users are nothing that the guest knows.
        theirs = [self._names[id] for id in stopped.breakpoints if id in self._names]
        del copy.breakpoints[:]
        copy.breakpoints.extend(theirs)
        self._send(stopped=copy)

    def _logged(self, event: Logged) -> None:
        if event.record is None:
            self._send(logs=pb.Logs(dropped=event.dropped))
            return
        record = pb.LogRecord()
        record.CopyFrom(event.record)
        record.breakpoint = self._names.get(event.breakpoint, 0)
        if record.breakpoint:
            self._send(logs=pb.Logs(records=[record]))
