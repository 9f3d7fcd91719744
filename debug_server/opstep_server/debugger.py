"""The one debugger core: executors, threads, breakpoints and going on; CLI and DAP are its faces.

Everything happens on one event loop. What arrives from executors is worked in at once and in order
(`joined`, `received`, `lost`), so the state that listeners see is never older than their event.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from types import EllipsisType
from typing import Any, Literal

from opstep_server import expr, process
from opstep_server.breakpoints import Breakpoints
from opstep_server.model import (
    BreakpointChanged,
    BreakpointSpec,
    BreakpointState,
    ContinuedEvent,
    DebuggerError,
    Event,
    Executor,
    ExecutorJoined,
    ExecutorLost,
    LaunchTarget,
    ListingWhere,
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
from opstep_server.transport import Connection, ConnectionLost, Server
from opstep_server.wire import debug_pb2 as pb

__all__ = [
    "BreakpointChanged",
    "BreakpointSpec",
    "BreakpointState",
    "ContinuedEvent",
    "Debugger",
    "DebuggerError",
    "Event",
    "Executor",
    "ExecutorJoined",
    "ExecutorLost",
    "LaunchTarget",
    "ListingWhere",
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
_PAGE = 1000
_MODES = {
    "continue": pb.Resume.CONTINUE,
    "over": pb.Resume.OVER,
    "into": pb.Resume.INTO,
    "out": pb.Resume.OUT,
}
_UNITS = {"op": pb.Resume.OP, "line": pb.Resume.LINE}


class Debugger:
    def __init__(self) -> None:
        self._listeners: list[Callable[[Event], None]] = []
        self._server = Server(self)
        self._socket_dir: str | None = None
        self._address: str | None = None
        self._process: process.Process | None = None
        self._executors: dict[Connection, Executor] = {}
        self._threads: dict[int, Thread] = {}
        self._programs: dict[tuple[int, int], ProgramRef] = {}
        self._ops: dict[tuple[int, int], tuple[int, list[pb.OpInfo]]] = {}
        self._breakpoints = Breakpoints()
        self._exceptions = pb.SetExceptions()
        self._stop_first = False
        self._executor_ids = itertools.count(1)
        self._thread_ids = itertools.count(1)
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
        if self._address is None:
            self._socket_dir = _private_dir()
            self._address = await self._server.start(os.path.join(self._socket_dir, "socket"))
        return self._address

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
        await asyncio.gather(*(self._detach(e) for e in list(self._executors.values())))

    async def close(self) -> None:
        """Ends the server; a launched process that is still alive is left to itself."""
        if self._process is not None:
            await self._process.abandon()
        await self._server.stop()
        for task in list(self._tasks):
            task.cancel()
        if self._socket_dir is not None:
            shutil.rmtree(self._socket_dir, ignore_errors=True)
            self._socket_dir = self._address = None

    # ---- what there is ---------------------------------------------------------------------------

    @property
    def threads(self) -> list[Thread]:
        return list(self._threads.values())

    @property
    def breakpoints(self) -> list[BreakpointState]:
        return self._breakpoints.states

    @property
    def programs(self) -> list[ProgramRef]:
        return list(self._programs.values())

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
    ) -> BreakpointState:
        spec = self._breakpoints.state(id).spec
        if not isinstance(condition, EllipsisType):
            spec = replace(spec, condition=condition or None)
        if not isinstance(enabled, EllipsisType):
            spec = replace(spec, enabled=enabled)
        state = self._breakpoints.update(id, spec)
        await self._push_breakpoints()
        return state

    async def set_exceptions(self, *, nan: bool, inf: bool, error: bool) -> None:
        """Which faults stop."""
        self._exceptions = pb.SetExceptions(nan=nan, inf=inf, error=error)
        await self._to_all(lambda: pb.Command(set_exceptions=self._exceptions))

    # ---- going on --------------------------------------------------------------------------------

    async def resume(self, thread_id: int, mode: ResumeMode, unit: StepUnit = "line") -> None:
        thread, stopped = self._stopped_thread(thread_id)
        command = pb.Command(
            resume=pb.Resume(thread=thread.wire_id, mode=_MODES[mode], unit=_UNITS[unit])
        )

        def went_on(reply: pb.Reply) -> None:
            # The executor may have told of it, and even of the next stop, before it replied.
            if not reply.error and thread.stopped is stopped:
                self._continued(thread, "")

        await _ask(thread.executor, command, went_on)

    async def pause(self, thread_id: int | None = None) -> None:
        """Stops the thread, or whichever runs an op next, at its next op."""
        if thread_id is not None:
            thread = self._thread(thread_id)
            await _ask(thread.executor, pb.Command(pause=pb.Pause(thread=thread.wire_id)))
        elif self._executors:
            await self._to_all(lambda: pb.Command(pause=pb.Pause()))
        elif self._process is not None and self._process.alive:
            self._stop_first = True  # Nothing runs ops yet: stop at the first one.
        else:
            raise DebuggerError("nothing is running")

    # ---- looking ---------------------------------------------------------------------------------

    async def variables(
        self, thread_id: int, frame: int, scope: pb.ScopeKind, start: int = 0, count: int = 0
    ) -> pb.Variables:
        thread, stopped = self._stopped_thread(thread_id)
        command = pb.Command(
            get_variables=pb.GetVariables(
                thread=thread.wire_id,
                stop=stopped.stop,
                frame=frame,
                scope=scope,
                start=start,
                count=count,
            )
        )
        return (await _ask(thread.executor, command)).variables

    async def evaluate(
        self,
        thread_id: int,
        frame: int,
        text: str | pb.Expr,
        *,
        max_elements: int = 0,
        start: int = 0,
        count: int = 0,
    ) -> pb.Value:
        """The expression's value in the frame; raises ExprError when the text is wrong."""
        parsed = expr.parse(text) if isinstance(text, str) else text
        thread, stopped = self._stopped_thread(thread_id)
        command = pb.Command(
            evaluate=pb.Evaluate(
                thread=thread.wire_id,
                stop=stopped.stop,
                frame=frame,
                expr=parsed,
                max_elements=max_elements,
                start=start,
                count=count,
            )
        )
        return (await _ask(thread.executor, command)).value

    async def ops(self, program: ProgramRef) -> list[pb.OpInfo]:
        """All ops in the order of the listing; asked for once for each version of the program."""
        key = program.executor.id, program.event.program
        version, known = self._ops.get(key, (None, []))
        if version == program.event.version:
            return known
        ops: list[pb.OpInfo] = []
        while True:
            page = pb.ListOps(program=program.event.program, start=len(ops), count=_PAGE)
            reply = (await _ask(program.executor, pb.Command(list_ops=page))).ops
            ops.extend(reply.ops)
            if not reply.ops or len(ops) >= reply.total:
                break
        self._ops[key] = program.event.version, ops
        return ops

    async def listing(self, program: ProgramRef) -> list[str]:
        lines: list[str] = []
        while True:
            page = pb.GetListing(program=program.event.program, start=len(lines) + 1, count=_PAGE)
            reply = (await _ask(program.executor, pb.Command(get_listing=page))).listing
            lines.extend(reply.lines)
            if not reply.lines or len(lines) >= reply.total:
                return lines

    # ---- what executors tell ---------------------------------------------------------------------

    def joined(self, connection: Connection) -> pb.Welcome:
        executor = Executor(next(self._executor_ids), connection, connection.hello)
        self._executors[connection] = executor
        welcome = pb.Welcome(
            breakpoints=self._breakpoints.message(),
            exceptions=self._exceptions,
            stop_on_entry=self._stop_first,
        )
        self._stop_first = False
        self._emit(ExecutorJoined(executor))
        return welcome

    def received(self, connection: Connection, message: pb.FromExecutor) -> None:
        executor = self._executors[connection]
        kind = message.WhichOneof("message")
        if kind == "stopped":
            self._stopped(executor, message.stopped)
        elif kind == "continued":
            thread = self._wire_thread(executor, message.continued.thread)
            if thread.stopped is not None:
                self._continued(thread, message.continued.message)
        elif kind == "thread":
            self._thread_event(executor, message.thread)
        elif kind == "program":
            program = message.program
            self._programs[executor.id, program.program] = ProgramRef(executor, program)
            self._emit(ProgramCompiled(executor, program))
        elif kind == "breakpoint":
            self._status(executor, message.breakpoint.status)

    def lost(self, connection: Connection, message: str) -> None:
        executor = self._executors.pop(connection)
        for thread in self.threads:
            if thread.executor is executor:
                self._end_thread(thread)
        for key in [key for key in self._programs if key[0] == executor.id]:
            del self._programs[key]
            self._ops.pop(key, None)
        for state in self._breakpoints.forget(executor.id):
            self._emit(BreakpointChanged(state))
        self._emit(ExecutorLost(executor, message))

    def _stopped(self, executor: Executor, stopped: pb.Stopped) -> None:
        thread = self._wire_thread(executor, stopped.thread)
        thread.stopped = stopped
        spent = []
        for id in stopped.breakpoints:
            state = self._breakpoints.hit(id)
            if state is not None and state.spec.temporary:
                spent.append(self._breakpoints.remove(id))
        self._emit(StoppedEvent(thread, stopped))
        for state in spent:
            self._emit(BreakpointChanged(state, removed=True))
        if spent and len(self._executors) > 1:
            self._background(self._push_breakpoints())

    def _continued(self, thread: Thread, message: str) -> None:
        thread.stopped = None
        self._emit(ContinuedEvent(thread, message))

    def _thread_event(self, executor: Executor, event: pb.ThreadEvent) -> None:
        thread = self._wire_thread(executor, event.thread, event.name)
        if event.ended:
            self._end_thread(thread)
        elif event.name:
            thread.name = event.name

    def _wire_thread(self, executor: Executor, wire_id: int, name: str = "") -> Thread:
        """The thread that the executor means; new when it was not heard of before."""
        for thread in self._threads.values():
            if thread.executor is executor and thread.wire_id == wire_id:
                return thread
        name = name or f"thread {wire_id}"
        thread = Thread(next(self._thread_ids), name, executor, wire_id)
        self._threads[thread.id] = thread
        self._emit(ThreadStarted(thread))
        return thread

    def _end_thread(self, thread: Thread) -> None:
        thread.stopped = None
        del self._threads[thread.id]
        self._emit(ThreadEnded(thread))

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

    def _thread(self, id: int) -> Thread:
        if id not in self._threads:
            raise DebuggerError(f"there is no thread {id}")
        return self._threads[id]

    def _stopped_thread(self, id: int) -> tuple[Thread, pb.Stopped]:
        thread = self._thread(id)
        if thread.stopped is None:
            raise DebuggerError(f"thread {id} ({thread.name}) is running: pause it first")
        return thread, thread.stopped

    async def _push_breakpoints(self) -> None:
        # One push at a time: statuses of an older list must not overwrite those of a newer one.
        async with self._push_lock:
            for executor in list(self._executors.values()):
                command = pb.Command(set_breakpoints=self._breakpoints.message())
                try:
                    reply = await _ask(executor, command)
                except ConnectionLost:
                    continue  # It gets all of them in its next welcome.
                for status in reply.breakpoints.statuses:
                    self._status(executor, status)

    async def _to_all(self, command: Callable[[], pb.Command]) -> None:
        for executor in list(self._executors.values()):
            try:
                await _ask(executor, command())
            except ConnectionLost:
                continue

    async def _detach(self, executor: Executor) -> None:
        command = pb.Command(detach=pb.Detach())
        # One that is gone or deaf sees the stream close, which has the same effect.
        with contextlib.suppress(DebuggerError, asyncio.TimeoutError):
            await asyncio.wait_for(_ask(executor, command), DETACH_SECONDS)

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _ask(
    executor: Executor, command: pb.Command, on_reply: Callable[[pb.Reply], None] | None = None
) -> pb.Reply:
    reply = await executor.connection.send_command(command, on_reply)
    if reply.error:
        raise DebuggerError(reply.error)
    return reply


def _private_dir() -> str:
    # A unix socket's path has room for 107 bytes, less than some temporary folders take.
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) > 70:
        base = "/tmp"
    return tempfile.mkdtemp(prefix="opstep-", dir=base)
