"""The one debugger core: executors, threads, breakpoints and going on; CLI and DAP are its faces.
Looking at values and programs is its other half, `looking.py`.

Everything happens on one event loop. What arrives from executors is worked in at once and in order
(`joined`, `received`, `lost`), so the state that listeners see is never older than their event.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from types import EllipsisType
from typing import Any, Literal

from opstep_server import process
from opstep_server.breakpoints import Breakpoints
from opstep_server.faults import Faults
from opstep_server.looking import Looking
from opstep_server.model import (
    BreakpointChanged,
    BreakpointSpec,
    BreakpointState,
    ContinuedEvent,
    DataWhere,
    DebuggerError,
    Event,
    Executor,
    ExecutorJoined,
    ExecutorLost,
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
    Thread,
    ThreadEnded,
    ThreadStarted,
)
from opstep_server.roster import Roster
from opstep_server.transport import Connection, ConnectionLost, Server
from opstep_server.wire import debug_pb2 as pb

__all__ = [
    "BreakpointChanged",
    "BreakpointSpec",
    "BreakpointState",
    "ContinuedEvent",
    "DataWhere",
    "Debugger",
    "DebuggerError",
    "Event",
    "Executor",
    "ExecutorJoined",
    "ExecutorLost",
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
    "Thread",
    "ThreadEnded",
    "ThreadStarted",
]

DETACH_SECONDS = 2.0
_MODES = {
    "continue": pb.Resume.CONTINUE,
    "over": pb.Resume.OVER,
    "into": pb.Resume.INTO,
    "out": pb.Resume.OUT,
    "iteration": pb.Resume.ITERATION,
    "run": pb.Resume.RUN,
}
_UNITS = {"op": pb.Resume.OP, "line": pb.Resume.LINE}


class Debugger(Looking):
    def __init__(self) -> None:
        super().__init__(Roster(self._emit))
        self._listeners: list[Callable[[Event], None]] = []
        self._server = Server(self)
        self._process: process.Process | None = None
        self._breakpoints = Breakpoints()
        self._faults = Faults()
        self._stop_first = False
        self._push_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Calls the listener on the loop for every event; the result unsubscribes it."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    # ---- life ------------------------------------------------------------------------------------

    async def listen(self) -> str:
        """Opens the private socket and returns its address."""
        return await self._server.start()

    async def launch(self, target: LaunchTarget, *, stop_on_entry: bool = False) -> int:
        """Starts the script under this debugger and returns its process id."""
        if self._process is not None and self._process.alive:
            raise DebuggerError(f"process {self._process.pid} is still running: end it first")
        address = await self.listen()
        self._stop_first = stop_on_entry
        self._process = await process.start(target, address, self._output, self._exited)
        return self._process.pid

    async def terminate(self) -> None:
        """Ends the launched process, and none other."""
        if self._process is not None:
            await self._process.terminate()

    async def detach(self) -> None:
        """All executors go on without us."""
        await asyncio.gather(*(self._detach(e) for e in self._roster.executors))

    async def close(self) -> None:
        """Ends the server; a launched process that is still alive is left to itself."""
        if self._process is not None:
            await self._process.abandon()
        await self._server.stop()
        for task in list(self._tasks):
            task.cancel()

    # ---- what there is ---------------------------------------------------------------------------

    @property
    def threads(self) -> list[Thread]:
        return self._roster.threads

    @property
    def breakpoints(self) -> list[BreakpointState]:
        return self._breakpoints.states

    @property
    def programs(self) -> list[ProgramRef]:
        return self._roster.programs

    # ---- breakpoints -----------------------------------------------------------------------------

    async def replace_breakpoints(
        self, owner: str, specs: Sequence[BreakpointSpec]
    ) -> list[BreakpointState]:
        """Makes `specs` all that the owner has; ids of equal ones stay."""
        states = self._breakpoints.replace(owner, specs)
        await self._push_breakpoints()
        return states

    async def add_breakpoint(self, spec: BreakpointSpec) -> BreakpointState:
        state = self._breakpoints.add("", spec)
        await self._push_breakpoints()
        return state

    async def remove_breakpoint(self, id: int) -> None:
        self._breakpoints.remove(id)
        await self._push_breakpoints()

    async def update_breakpoint(
        self,
        id: int,
        *,
        condition: str | EllipsisType | None = ...,
        enabled: bool | EllipsisType = ...,
        hit_condition: str | EllipsisType | None = ...,
        log_message: str | EllipsisType | None = ...,
    ) -> BreakpointState:
        spec = self._breakpoints.state(id).spec
        if not isinstance(condition, EllipsisType):
            spec = replace(spec, condition=condition or None)
        if not isinstance(hit_condition, EllipsisType):
            spec = replace(spec, hit_condition=hit_condition or None)
        if not isinstance(log_message, EllipsisType):
            spec = replace(spec, log_message=log_message or None)
        if not isinstance(enabled, EllipsisType):
            spec = replace(spec, enabled=enabled)
        state = self._breakpoints.update(id, spec)
        await self._push_breakpoints()
        return state

    async def set_exceptions(self, specs: Sequence[FaultSpec]) -> list[str]:
        """Which faults stop; a sentence for each that cannot be used, "" for the others."""
        self._faults.replace(specs)
        for executor in self._roster.executors:
            command = pb.Command(set_exceptions=self._faults.message())
            with contextlib.suppress(ConnectionLost):
                reply = await executor.ask(command)
                self._faults.report(executor.id, reply.faults.messages)
        return self._faults.problems

    # ---- going on --------------------------------------------------------------------------------

    async def resume(
        self, thread_id: int, mode: ResumeMode, unit: StepUnit = "line", block: int = 0
    ) -> None:
        """Lets the thread go on; "into" ends in that block only, unless it is 0."""
        thread, stopped = self._roster.stopped(thread_id)
        wanted = pb.Resume(mode=_MODES[mode], unit=_UNITS[unit], block=block)
        wanted.thread = thread.wire_id
        command = pb.Command(resume=wanted)

        def went_on(reply: pb.Reply) -> None:
            # The executor may have told of it, and even of the next stop, before it replied.
            if not reply.error and thread.stopped is stopped:
                self._continued(thread, "")

        await thread.executor.ask(command, went_on)

    async def pause(self, thread_id: int | None = None) -> None:
        """Stops the thread, or whichever runs an op next, at its next op."""
        if thread_id is not None:
            thread = self._roster.thread(thread_id)
            await thread.executor.ask(pb.Command(pause=pb.Pause(thread=thread.wire_id)))
        elif self._roster.executors:
            await self._to_all(lambda: pb.Command(pause=pb.Pause()))
        elif self._process is not None and self._process.alive:
            self._stop_first = True  # Nothing runs ops yet: stop at the first one.
        else:
            raise DebuggerError("nothing is running")

    # ---- what executors tell ---------------------------------------------------------------------

    def joined(self, connection: Connection) -> pb.Welcome:
        executor = self._roster.join(connection)
        welcome = pb.Welcome(
            breakpoints=self._breakpoints.message(),
            exceptions=self._faults.message(),
            stop_on_entry=self._stop_first,
            present=True,
        )
        self._stop_first = False
        self._emit(ExecutorJoined(executor))
        return welcome

    def received(self, connection: Connection, message: pb.FromExecutor) -> None:
        executor = self._roster.executor(connection)
        kind = message.WhichOneof("message")
        if kind == "stopped":
            self._stopped(executor, message.stopped)
        elif kind == "continued":
            thread = self._roster.wire_thread(executor, message.continued.thread)
            if thread.stopped is not None:
                self._continued(thread, message.continued.message)
        elif kind == "thread":
            self._roster.thread_event(executor, message.thread)
        elif kind == "program":
            self._roster.compiled(executor, message.program)
        elif kind == "breakpoint":
            self._status(executor, message.breakpoint.status)
        elif kind == "logs":
            self._logged(executor, message.logs)
        elif kind == "faults" and self._faults.report(executor.id, message.faults.messages):
            self._emit(FaultsChanged(self._faults.problems))

    def lost(self, connection: Connection, message: str) -> None:
        executor = self._roster.leave(connection)
        self._faults.forget(executor.id)
        self._forget(executor.id)
        for state in self._breakpoints.forget(executor.id):
            self._emit(BreakpointChanged(state))
        self._emit(ExecutorLost(executor, message))

    def _stopped(self, executor: Executor, stopped: pb.Stopped) -> None:
        thread = self._roster.wire_thread(executor, stopped.thread)
        thread.stopped = stopped
        spent = []
        for id in stopped.breakpoints:
            state = self._breakpoints.hit(id)
            if state is not None and state.spec.temporary:
                spent.append(self._breakpoints.remove(id))
        self._emit(StoppedEvent(thread, stopped))
        for state in spent:
            self._emit(BreakpointChanged(state, removed=True))
        if spent and len(self._roster.executors) > 1:
            self._background(self._push_breakpoints())

    def _logged(self, executor: Executor, logs: pb.Logs) -> None:
        if logs.dropped:
            plural = "" if logs.dropped == 1 else "s"
            text = f"{logs.dropped} log message{plural} came too fast and were dropped"
            self._emit(Logged(None, text, 0, logs.dropped))
        for record in logs.records:
            self._breakpoints.hit(record.breakpoint)
            thread = self._roster.wire_thread(executor, record.thread)
            text = self._breakpoints.log_text(record)
            self._emit(Logged(thread, text, record.breakpoint))

    def _continued(self, thread: Thread, message: str) -> None:
        thread.stopped = None
        self._emit(ContinuedEvent(thread, message))

    def _status(self, executor: Executor, status: pb.BreakpointStatus) -> None:
        state = self._breakpoints.report(executor.id, status)
        if state is not None:
            self._emit(BreakpointChanged(state))

    def _output(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        self._emit(Output(stream, text))

    def _exited(self, code: int) -> None:
        self._emit(ProcessExited(code))

    # ---- inside ----------------------------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        for listener in list(self._listeners):
            listener(event)

    async def _push_breakpoints(self) -> None:
        # One push at a time: statuses of an older list must not overwrite those of a newer one.
        async with self._push_lock:
            for executor in self._roster.executors:
                command = pb.Command(set_breakpoints=self._breakpoints.message())
                try:
                    reply = await executor.ask(command)
                except ConnectionLost:
                    continue  # It gets all of them in its next welcome.
                for status in reply.breakpoints.statuses:
                    self._status(executor, status)

    async def _to_all(self, command: Callable[[], pb.Command]) -> None:
        for executor in self._roster.executors:
            try:
                await executor.ask(command())
            except ConnectionLost:
                continue

    async def _detach(self, executor: Executor) -> None:
        command = pb.Command(detach=pb.Detach())
        # One that is gone or deaf sees the stream close, which has the same effect.
        with contextlib.suppress(DebuggerError, asyncio.TimeoutError):
            await asyncio.wait_for(executor.ask(command), DETACH_SECONDS)

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
