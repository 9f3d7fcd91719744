"""The debugger of one user: processes, breakpoints, resuming; CLI and DAP are its faces.

Its other half, `inspection.py`, reads values and programs; `hub.py` has what users share.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from types import EllipsisType
from typing import Any, Literal

from opstep_server import client_terminal, script_process
from opstep_server.access import Endpoint, Place
from opstep_server.attachments import Attachments
from opstep_server.connection import Connection
from opstep_server.guests import Guests
from opstep_server.hub import Hub
from opstep_server.inspection import Inspection
from opstep_server.model import (
    BlockWhere,
    BreakpointChanged,
    BreakpointSpec,
    BreakpointState,
    ConnectionLost,
    ContinuedEvent,
    DataWhere,
    DebuggerError,
    Event,
    ExecutorJoined,
    ExecutorLost,
    ExecutorMoved,
    ExecutorProcess,
    FaultKind,
    FaultsChanged,
    FaultSpec,
    LaunchTarget,
    ListingWhere,
    Logged,
    OpWhere,
    Output,
    PatternWhere,
    ProcessExited,
    ProgramCompiled,
    ProgramRef,
    ResumeMode,
    SourceWhere,
    StepUnit,
    StoppedEvent,
    TapsChanged,
    Thread,
    ThreadEnded,
    ThreadStarted,
)
from opstep_server.tap_api import TapApi
from opstep_server.wire import debug_pb2 as pb

__all__ = [
    "BlockWhere",
    "BreakpointChanged",
    "BreakpointSpec",
    "BreakpointState",
    "ConnectionLost",
    "ContinuedEvent",
    "DataWhere",
    "Debugger",
    "DebuggerError",
    "Event",
    "ExecutorJoined",
    "ExecutorLost",
    "ExecutorMoved",
    "ExecutorProcess",
    "FaultKind",
    "FaultSpec",
    "FaultsChanged",
    "LaunchTarget",
    "ListingWhere",
    "Logged",
    "OpWhere",
    "Output",
    "PatternWhere",
    "ProcessExited",
    "ProgramCompiled",
    "ProgramRef",
    "ResumeMode",
    "SourceWhere",
    "StepUnit",
    "StoppedEvent",
    "TapsChanged",
    "Thread",
    "ThreadEnded",
    "ThreadStarted",
]

# How long to read what a process sent before its end.
LAST_WORDS_SECONDS = 1.0
_MODES = {
    "continue": pb.Resume.CONTINUE,
    "over": pb.Resume.OVER,
    "into": pb.Resume.INTO,
    "out": pb.Resume.OUT,
    "iteration": pb.Resume.ITERATION,
    "run": pb.Resume.RUN,
}
_UNITS = {"op": pb.Resume.OP, "line": pb.Resume.LINE}


class Debugger(Inspection, TapApi):
    """Several debuggers may share a hub; one without a hub makes its own.

    A debugger that is not present only logs, and runs stay as fast as without one.
    """

    def __init__(self, hub: Hub | None = None, *, present: bool = True) -> None:
        self._hub = hub or Hub()
        super().__init__(self._hub.roster)
        self._shares = hub is not None
        self._listeners: list[Callable[[Event], None]] = []
        self._process: script_process.ScriptProcess | client_terminal.TerminalProcess | None = None
        # A debugger on a shared hub gets no events until `replay`.
        self._told = not self._shares
        self._attachments = Attachments(self._hub, self.listen, self._tell)
        self._user = self._hub.enter(self._take, present)

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Calls the listener on the loop for every event; the result unsubscribes it."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    # ---- processes -------------------------------------------------------------------------------

    async def listen(self, endpoint: Endpoint | None = None) -> str:
        """Opens the private socket, and the endpoint if given; returns the address to dial."""
        private = endpoint is None or bool(endpoint.address.path)
        if private and self._hub.server.on_visit is None:
            self.share()  # Only our own user can open a unix socket.
        if endpoint is not None:
            return await self._hub.server.open(endpoint)
        return await self._hub.server.start()

    async def launch(
        self,
        target: LaunchTarget,
        *,
        stop_on_entry: bool = False,
        in_terminal: client_terminal.Terminal | None = None,
    ) -> int:
        """Starts the script under this debugger and returns its process id."""
        if self._shares:
            raise DebuggerError("a debug server that others share starts nothing: attach to it")
        if self._process is not None and self._process.alive:
            raise DebuggerError(f"process {self._process.pid} is still running: end it first")
        address = await self.listen()
        self._hub.stop_first = stop_on_entry
        self._roster.count_anew()  # A program that is started again keeps its threads' numbers.
        if in_terminal is not None:
            self._process = await client_terminal.start(target, address, in_terminal, self._exited)
        else:
            self._process = await script_process.start(target, address, self._output, self._exited)
        return self._process.pid

    async def attach_pid(self, pid: int) -> ExecutorProcess:
        """Asks a running process by its doorbell to dial us, and waits until it is here.

        A process that another debugger of this user has is shared with it; when that one leaves,
        the process comes to us: `ExecutorMoved`.
        """
        return await self._attachments.attach(pid)

    def is_guest(self, executor: ExecutorProcess) -> bool:
        """Whether another debugger has the process and shares it with us."""
        return self._attachments.shares(executor)

    def share(self) -> None:
        """Lets others come as guests to the executors that are here."""
        self._hub.server.on_visit = Guests(self._hub).visit

    async def visit(self, place: Place, gone: Callable[[str], None]) -> None:
        """Shares the executors of a debug server; calls `gone` when that ends."""
        await self._hub.server.visit(place.address, place.token, place.roots, gone)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the launched process, which may handle or ignore it."""
        if self._process is not None:
            self._process.signal(number)

    async def terminate(self) -> None:
        """Ends the launched process, and no other."""
        if self._process is None:
            return
        await self._process.terminate()
        # A child that it forked may hold the stream open.
        for executor in self._own_executors():
            executor.connection.drop()
            await executor.connection.over.wait()

    async def end_executors(self) -> None:
        """Ends all processes that are connected, as SIGTERM does."""
        await self._hub.to_all(lambda: pb.Command(terminate=pb.Terminate()))

    async def detach(self, only: ExecutorProcess | None = None) -> None:
        """Lets all executors, or only one, go on without us."""
        if self._shares:
            await self._hub.leave(self._user)
        else:
            hub = self._hub
            leaving = hub.roster.executors if only is None else [only]
            if not self.is_alone:
                await hub.end_all_taps(leaving)
            await asyncio.gather(*(hub.detach(executor) for executor in leaving))

    async def let_go(self) -> None:
        """Lets the launched process go on by itself."""
        process, self._process = self._process, None
        if process is not None:
            await process.abandon()

    async def close(self) -> None:
        """Ends the server, or leaves it; a live launched process goes on."""
        await self.let_go()
        if self._shares:
            await self._hub.leave(self._user)
            await self.close_taps()
        else:
            if not self.is_alone:
                await self.detach()  # So that guests hear that we leave.
            await self.close_taps()
            await self._hub.close()

    @property
    def shared(self) -> bool:
        """Whether others use these executors and threads too."""
        return self._shares

    # ---- state -----------------------------------------------------------------------------------

    @property
    def threads(self) -> list[Thread]:
        return self._roster.threads

    @property
    def breakpoints(self) -> list[BreakpointState]:
        return self._hub.breakpoints.of(self._user)

    def others_only(self, stopped: pb.Stopped) -> bool:
        """Whether it hit only breakpoints of other clients."""
        owners = [self._hub.breakpoints.owner(id) for id in stopped.breakpoints]
        # A temporary breakpoint of ours is already removed.
        return bool(owners) and all(owner and not owner.startswith(self._user) for owner in owners)

    @property
    def executors(self) -> list[ExecutorProcess]:
        return self._hub.roster.executors

    @property
    def programs(self) -> list[ProgramRef]:
        return self._roster.programs

    # ---- breakpoints -----------------------------------------------------------------------------

    async def replace_breakpoints(
        self, owner: str, specs: Sequence[BreakpointSpec]
    ) -> list[BreakpointState]:
        """Replaces all breakpoints of the owner; equal ones keep their ids."""
        states = self._hub.breakpoints.replace(self._user + owner, specs)
        await self._hub.push_breakpoints()
        return states

    async def add_breakpoint(self, spec: BreakpointSpec) -> BreakpointState:
        state = self._hub.breakpoints.add(self._user, spec)
        await self._hub.push_breakpoints()
        return state

    async def remove_breakpoint(self, id: int) -> None:
        self._hub.breakpoints.remove(id)
        await self._hub.push_breakpoints()

    async def update_breakpoint(
        self,
        id: int,
        *,
        condition: str | EllipsisType | None = ...,
        enabled: bool | EllipsisType = ...,
        hit_condition: str | EllipsisType | None = ...,
        log_message: str | EllipsisType | None = ...,
    ) -> BreakpointState:
        spec = self._hub.breakpoints.state(id).spec
        if not isinstance(condition, EllipsisType):
            spec = replace(spec, condition=condition or None)
        if not isinstance(hit_condition, EllipsisType):
            spec = replace(spec, hit_condition=hit_condition or None)
        if not isinstance(log_message, EllipsisType):
            spec = replace(spec, log_message=log_message or None)
        if not isinstance(enabled, EllipsisType):
            spec = replace(spec, enabled=enabled)
        state = self._hub.breakpoints.update(id, spec)
        await self._hub.push_breakpoints()
        return state

    async def set_faults(self, specs: Sequence[FaultSpec]) -> list[str]:
        """Sets which faults stop; returns a sentence for each unusable spec, "" for the others."""
        faults = self._hub.faults.of(self._user)
        faults.replace(specs)
        await self._hub.push_faults()
        return faults.problems

    # ---- resuming --------------------------------------------------------------------------------

    async def resume(
        self,
        thread_id: int,
        mode: ResumeMode,
        unit: StepUnit = "line",
        block: int = 0,
        until: Sequence[BreakpointSpec] = (),
        awaited: bool = False,
    ) -> None:
        """Resumes the thread; "into" ends only in the given block, unless that is 0.

        The first of `until` that is reached ends it as a step; refused when it names no op, unless
        ops on these places are awaited.
        """
        if until:
            going = self.resume(thread_id, mode, unit, block)
            await self._aim(thread_id, until, awaited, going)
            return
        thread, stopped = self._roster.stopped(thread_id)
        wanted = pb.Resume(mode=_MODES[mode], unit=_UNITS[unit], block=block)
        wanted.thread = thread.wire_id
        command = pb.Command(resume=wanted)

        def went_on(reply: pb.Reply) -> None:
            # The executor may have reported this, and even the next stop, before its reply.
            if not reply.error and thread.stopped is stopped:
                self._hub.continued(thread, "")

        await thread.executor.ask(command, went_on)

    async def _aim(
        self,
        thread_id: int,
        until: Sequence[BreakpointSpec],
        awaited: bool,
        going: Coroutine[Any, Any, None],
    ) -> None:
        """Sets hidden places for one step; they must not outlive it."""
        try:
            thread, _ = self._roster.stopped(thread_id)
            states = self._hub.breakpoints.aim(self._user, thread.id, until)
            try:
                await self._hub.push_breakpoints()
                if not awaited and not any(state.verified for state in states):
                    raise DebuggerError(states[0].message)
                await going
            except BaseException:
                self._hub.breakpoints.forget_aims(thread.id)
                await self._hub.push_breakpoints()
                raise
        finally:
            going.close()

    async def pause(self, thread_id: int | None = None) -> None:
        """Stops the thread, or whichever runs an op next, at its next op."""
        if thread_id is not None:
            thread = self._roster.thread(thread_id)
            await thread.executor.ask(pb.Command(pause=pb.Pause(thread=thread.wire_id)))
        elif self._roster.executors:
            await self._hub.to_all(lambda: pb.Command(pause=pb.Pause()))
        elif self._process is not None and self._process.alive:
            self._hub.stop_first = True  # No thread runs ops yet: stop at the first op.
        else:
            raise DebuggerError("nothing is running")

    # ---- events ----------------------------------------------------------------------------------

    def replay(self) -> None:
        """Reports the present state as events, and from here on what happens."""
        self._told = True
        for program in self.programs:
            self._take(ProgramCompiled(program.executor, program.event))
        for state in self.breakpoints:
            self._take(BreakpointChanged(state))
        for thread in self.threads:
            self._take(ThreadStarted(thread))
            if thread.stopped is not None:
                self._take(StoppedEvent(thread, thread.stopped))

    def _take(self, event: Event) -> None:
        if isinstance(event, ExecutorLost):
            self._forget(event.executor.id)
        if not self._attachments.take(event):
            self._tell(event)

    def _tell(self, event: Event) -> None:
        if not self._told:
            return
        if isinstance(event, StoppedEvent | Logged) and self._process is not None:
            self._process.drain()  # Its earlier output comes first.
        for listener in list(self._listeners):
            listener(event)

    def _output(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        self._take(Output(stream, text))

    def _own_executors(self) -> list[ExecutorProcess]:
        """The executors of the launched process."""
        pid = self._process.pid if self._process is not None else 0
        return [each for each in self.executors if each.pid == pid]

    async def _exited(self, code: int) -> None:
        # Lines of its log points are on the way, and are reported before its end.
        await self._last_words([each.connection for each in self._own_executors()])
        self._take(ProcessExited(code))

    async def _last_words(self, connections: Sequence[Connection]) -> None:
        """Waits until they are read to the end; a child process may keep one open for ever."""
        streams = [each.reader for each in connections if each.reader is not None]
        heard = -1
        while streams and heard != (now := sum(each.heard for each in connections)):
            heard = now
            _, left = await asyncio.wait(streams, timeout=LAST_WORDS_SECONDS)
            streams = list(left)
