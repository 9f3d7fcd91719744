"""Guests of a debug server: each gets the server's executors as if they had dialled it.

A guest's debugger sends what it would send to an executor. Breakpoints and fault filters join those
of the other users; the rest goes to the executor and its answer comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from opstep_server import connection
from opstep_server.hub import Hub
from opstep_server.model import (
    BreakpointChanged,
    ContinuedEvent,
    DebuggerError,
    Event,
    ExecutorJoined,
    ExecutorLost,
    ExecutorProcess,
    FaultsChanged,
    Logged,
    ProgramCompiled,
    StoppedEvent,
    TapsChanged,
    Thread,
    ThreadEnded,
    ThreadStarted,
)
from opstep_server.taps.forwarder import Forwarder
from opstep_server.taps.registry import Wanted
from opstep_server.wire import debug_pb2 as pb

# Bytes that a guest may leave unread before log records are counted instead of kept, and before
# the guest is disconnected.
MAX_UNREAD_LOGS = 8 << 20
MAX_UNREAD = 64 << 20


class Stream(Protocol):
    async def read(self) -> object:
        """The next message from the guest; another object at the end."""

    async def write(self, message: pb.FromExecutor) -> None: ...


class Guests:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._guests: dict[str, Guest] = {}

    async def visit(self, name: str, stream: Stream) -> None:
        """Passes on the next executor that is new to this guest, until one of the two is gone."""
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
    """A user of the hub, with a stream for each executor and one that waits for the next."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.streams = 0
        self.user = hub.enter(self._take, present=False)
        self._relays: dict[int, Relay] = {}
        # By executor and by the guest's number of the log point, lines that were on a stream which
        # ended because the guest did not read it.
        self.missed_logs: dict[int, Counter[int]] = {}
        # Executors that the guest was shown, and may have detached.
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
            if relay.unheard.is_set():
                self.missed_logs[executor.id] = relay.unread_logs()
                # A slow guest asks for it again. When the guest is gone, its last stream, which
                # waits for an executor, finds that out with this one.
                self._shown.discard(executor.id)
                self._came.set()
            self.hub.breakpoints.drop(relay.owner)
            with contextlib.suppress(DebuggerError):
                await self.hub.push_breakpoints()
            if self.hub.taps.drop(relay.owner):
                relay.tapped.end()
                await self.hub.push_taps()

    def _next(self) -> ExecutorProcess | None:
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
    """One executor for one guest. Tasks: writer, reader, pulse, each command under way."""

    def __init__(self, guest: Guest, executor: ExecutorProcess, stream: Stream) -> None:
        self._hub = guest.hub
        self._user = guest.user
        self._executor = executor
        self._stream = stream
        # Ends with a slash, so that no owner is the beginning of another.
        self.owner = f"{guest.user}{executor.id}/"
        # The guest's numbers of its breakpoints, by ours; temporary ones stay after their stop.
        self._names: dict[int, int] = {}
        self._outgoing: asyncio.Queue[pb.FromExecutor | None] = asyncio.Queue()
        self._unread = 0
        # Log records that were dropped and not yet reported to the guest.
        self._dropped = guest.missed_logs.pop(executor.id, Counter())
        self._missed = 0
        # By the guest's numbers, commands that the executor has not answered yet, with its numbers.
        self._asked: dict[int, pb.Command] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # The guest was silent for too long, or left too much unread.
        self.unheard = asyncio.Event()
        self.tapped = Forwarder(executor, self._send, lambda: self._unread > MAX_UNREAD_LOGS)

    async def run(self) -> None:
        work = (self._write(), self._read(), self._pulse(), self.unheard.wait())
        tasks = [asyncio.create_task(each) for each in work]
        self._send(hello=self._executor.hello)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, *self._tasks):
                task.cancel()

    async def _write(self) -> None:
        while (message := await self._outgoing.get()) is not None:
            await self._stream.write(message)
            self._unread -= message.ByteSize()
            if self._unread <= MAX_UNREAD_LOGS // 2:
                self._tell_dropped()

    def _tell_dropped(self) -> None:
        if self._dropped:
            dropped, self._dropped = self._dropped, Counter()
            self._send(logs=_drops(dropped))

    def unread_logs(self) -> Counter[int]:
        """How many lines of log points the guest has not read, by the guest's numbers."""
        unread = self._dropped
        while not self._outgoing.empty():
            message = self._outgoing.get_nowait()
            if message is not None and message.HasField("logs"):
                unread.update(dict(message.logs.dropped_by))
                unread.update(record.breakpoint for record in message.logs.records)
        return unread

    async def _pulse(self) -> None:
        # Counts ticks, not seconds: a server that was suspended does not lose its guests.
        while self._missed < connection.MISSED_HEARTBEATS:
            await asyncio.sleep(connection.HEARTBEAT_SECONDS)
            self._missed += 1
        self.unheard.set()

    async def _read(self) -> None:
        while isinstance(message := await self._stream.read(), pb.ToExecutor):
            self._missed = 0
            if message.HasField("heartbeat"):
                self._send(heartbeat=pb.Heartbeat())
            elif message.HasField("welcome"):
                await self._set_breakpoints(message.welcome.breakpoints)
                await self._set_fault_filters(message.welcome.fault_filters)
                if message.welcome.HasField("taps"):
                    self._send(tap_statuses=await self._set_taps(message.welcome.taps))
                if message.welcome.present:
                    self._hub.come(self._user)
                self._tell_all()
            elif message.HasField("taps_taken"):
                self.tapped.taken(message.taps_taken)
            elif message.HasField("command"):
                task = asyncio.create_task(self._answer(message.command))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _send(self, **message: object) -> None:
        out = pb.FromExecutor(**message)  # type: ignore[arg-type]
        if self._unread > MAX_UNREAD:
            self.unheard.set()
            return
        self._unread += out.ByteSize()
        self._outgoing.put_nowait(out)

    # ---- messages from the guest -----------------------------------------------------------------

    async def _answer(self, command: pb.Command) -> None:
        kind = command.WhichOneof("command")
        try:
            if kind == "set_breakpoints":
                statuses = await self._set_breakpoints(command.set_breakpoints)
                reply = pb.Reply(breakpoints=pb.BreakpointStatuses(statuses=statuses))
            elif kind == "set_fault_filters":
                problems = await self._set_fault_filters(command.set_fault_filters)
                reply = pb.Reply(faults=pb.FaultStatuses(messages=problems))
            elif kind == "set_taps":
                reply = pb.Reply(taps=await self._set_taps(command.set_taps))
            elif kind == "drop_taps":
                await self._hub.drop_taps(command.drop_taps, self._executor)
                reply = pb.Reply(done=pb.Done())
            elif kind in ("set_presence", "detach") or self._is_answered(command):
                reply = pb.Reply(done=pb.Done())
            else:
                reply = await self._pass_on(command)
        except DebuggerError as error:
            reply = pb.Reply(error=str(error))
        if command.set_presence.present:
            self._hub.come(self._user)
        reply.command = command.id
        if kind == "detach":
            self._tell_dropped()
        self._send(reply=reply)
        if kind == "detach":
            self._end()

    async def _pass_on(self, command: pb.Command) -> pb.Reply:
        copy = pb.Command()
        copy.CopyFrom(command)
        if command.HasField("cancel"):
            copy.cancel.command = self._asked[command.cancel.command].id
        self._asked[command.id] = copy
        try:
            return await self._executor.connection.send_command(copy, self._on_reply(command))
        except asyncio.CancelledError:
            self._hub.background(self._executor.give_up(copy.id))
            raise
        finally:
            self._asked.pop(command.id, None)

    def _is_answered(self, command: pb.Command) -> bool:
        """Whether it cancels a command that is answered, or that no executor got."""
        return command.HasField("cancel") and command.cancel.command not in self._asked

    def _on_reply(self, command: pb.Command) -> Callable[[pb.Reply], None] | None:
        if not command.HasField("resume"):
            return None
        thread = self._hub.roster.wire_thread(self._executor, command.resume.thread)
        stopped = thread.stopped

        def went_on(reply: pb.Reply) -> None:
            if not reply.error and stopped is not None and thread.stopped is stopped:
                self._hub.continued(thread, "")

        return went_on

    async def _set_breakpoints(self, wanted: pb.SetBreakpoints) -> list[pb.BreakpointStatus]:
        # Removed ones stay: their lines may still be on the way.
        self._names |= self._hub.breakpoints.replace_wire(
            self.owner, self._executor.id, wanted.breakpoints
        )
        await self._hub.push_breakpoints()
        return self._hub.breakpoints.wire_statuses(self.owner, self._executor.id)

    async def _set_fault_filters(self, wanted: pb.SetFaultFilters) -> list[str]:
        faults = self._hub.faults.of(self._user)
        faults.replace_wire(wanted)
        await self._hub.push_faults()
        return faults.problems

    async def _set_taps(self, wanted: pb.SetTaps) -> pb.TapStatuses:
        identity = self._executor.hello.identity
        taps = [Wanted(tap, identity) for tap in wanted.taps]
        self._hub.taps.replace(self.owner, taps, self.tapped)
        await self._hub.push_taps()
        known = self._hub.taps.statuses(self.owner)
        return pb.TapStatuses(statuses=[s for id, s in known if id == self._executor.id])

    # ---- messages to the guest -------------------------------------------------------------------

    def _tell_all(self) -> None:
        """Sends the present state, as if it came now."""
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
        elif isinstance(event, TapsChanged):
            self._send(tap_statuses=pb.TapStatuses(statuses=event.statuses))
        elif isinstance(event, Logged):
            self._logged(event)
        elif isinstance(event, ExecutorLost):
            self._end()

    def _end(self) -> None:
        self._tell_dropped()
        self._send(goodbye=pb.Goodbye())
        self._outgoing.put_nowait(None)

    def _thread(self, thread: Thread, ended: bool = False) -> None:
        self._send(thread=pb.ThreadEvent(thread=thread.wire_id, name=thread.name, ended=ended))

    def _stopped(self, stopped: pb.Stopped) -> None:
        copy = pb.Stopped()
        copy.CopyFrom(stopped)
        # The guest does not know breakpoints of other users.
        theirs = [self._names[id] for id in stopped.breakpoints if id in self._names]
        del copy.breakpoints[:]
        copy.breakpoints.extend(theirs)
        self._send(stopped=copy)

    def _logged(self, event: Logged) -> None:
        name = self._names.get(event.breakpoint, 0)
        if event.breakpoint and not name:
            return
        # The executor gets its answer at once and never waits for a guest.
        if self._dropped or self._unread > MAX_UNREAD_LOGS:
            self._dropped[name] += event.dropped or 1
        elif event.record is None:
            self._send(logs=_drops(Counter({name: event.dropped})))
        else:
            record = pb.LogRecord()
            record.CopyFrom(event.record)
            record.breakpoint = name
            self._send(logs=pb.Logs(records=[record]))


def _drops(dropped: Counter[int]) -> pb.Logs:
    """The message, by the guest's numbers; 0: of no known log point."""
    known = {name: count for name, count in dropped.items() if name}
    return pb.Logs(dropped=dropped.total(), dropped_by=known)
