"""The one debugger core: executors, threads, breakpoints and going on; CLI and DAP are its faces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import EllipsisType

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


class Debugger:
    def __init__(self) -> None: ...

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        raise NotImplementedError

    async def listen(self) -> str:
        raise NotImplementedError

    async def launch(self, target: LaunchTarget, *, stop_on_entry: bool = False) -> int:
        raise NotImplementedError

    async def terminate(self) -> None:
        raise NotImplementedError

    async def detach(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    @property
    def threads(self) -> list[Thread]:
        raise NotImplementedError

    @property
    def breakpoints(self) -> list[BreakpointState]:
        raise NotImplementedError

    @property
    def programs(self) -> list[ProgramRef]:
        raise NotImplementedError

    async def replace_breakpoints(
        self, owner: str, specs: Sequence[BreakpointSpec]
    ) -> list[BreakpointState]:
        raise NotImplementedError

    async def add_breakpoint(self, spec: BreakpointSpec) -> BreakpointState:
        raise NotImplementedError

    async def remove_breakpoint(self, id: int) -> None:
        raise NotImplementedError

    async def update_breakpoint(
        self,
        id: int,
        *,
        condition: str | None | EllipsisType = ...,
        enabled: bool | EllipsisType = ...,
    ) -> BreakpointState:
        raise NotImplementedError

    async def set_exceptions(self, *, nan: bool, inf: bool, error: bool) -> None:
        raise NotImplementedError

    async def resume(self, thread_id: int, mode: ResumeMode, unit: StepUnit = "line") -> None:
        raise NotImplementedError

    async def pause(self, thread_id: int | None = None) -> None:
        raise NotImplementedError

    async def variables(
        self,
        thread_id: int,
        frame: int,
        scope: pb.ScopeKind.ValueType,
        start: int = 0,
        count: int = 0,
    ) -> pb.Variables:
        raise NotImplementedError

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
        raise NotImplementedError

    async def ops(self, program: ProgramRef) -> list[pb.OpInfo]:
        raise NotImplementedError

    async def listing(self, program: ProgramRef) -> list[str]:
        raise NotImplementedError
