"""Stops: the threads that are stopped, and the references that clients hold meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field

from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.handles import Handles
from opstep_server.dap.protocol.request_arguments import RequestError
from opstep_server.debugger import Debugger, Thread
from opstep_server.wire import debug_pb2 as pb

# More than any tensor has bytes.
_MEMORY_BITS = 40


class NotStopped(RequestError):
    """The request may be made again when the thread is stopped."""


@dataclass(eq=False)
class Stop:
    thread: Thread
    stopped: pb.Stopped
    # The stack as the client sees it, made at its first request.
    frames: list[types.StackFrame] = field(default_factory=list)
    # By frame, names of program variables that mean something else in the Python code.
    taken: dict[int, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class FrameRef:
    stop: Stop
    # Into Stopped.frames; None for the border between graph and Python.
    index: int | None

    @property
    def frame(self) -> pb.StackFrame | None:
        return None if self.index is None else self.stop.stopped.frames[self.index]


@dataclass(frozen=True)
class Child:
    """The meaning of a row of a scope."""

    expr: pb.Expr
    # As a user would type it.
    text: str
    # Empty for an attribute.
    variable: str


@dataclass(frozen=True)
class ScopeRef:
    stop: Stop
    frame: int
    scope: pb.ScopeKind
    # By the name that the client knows.
    children: dict[str, Child] = field(default_factory=dict)


@dataclass(frozen=True)
class TensorRef:
    """A tensor whose elements come by evaluating `expr` again."""

    stop: Stop
    frame: int
    expr: pb.Expr
    # The expression as a user would type it; empty when it cannot be typed.
    text: str
    length: int
    # Of a ragged tensor, whose children are its sequences: the variable with their starts.
    offsets: str = ""
    # It and its parts are kept for a while only: see `Handles`.
    passing: bool = False
    # The sequences that were shown, by the name that the client knows.
    parts: dict[str, Child] = field(default_factory=dict)


@dataclass(frozen=True)
class ListRef:
    values: tuple[pb.Value, ...]


@dataclass(frozen=True)
class MemoryRef:
    """The bytes of the value of `expr` in the frame."""

    stop: Stop
    frame: int
    expr: pb.Expr


VariableRef = ScopeRef | TensorRef | ListRef


class Stops:
    """Handles live from `enter` to `leave` of their thread's stop."""

    def __init__(self, debugger: Debugger) -> None:
        self._debugger = debugger
        self._stops: dict[int, Stop] = {}
        self.frames: Handles[FrameRef] = Handles()
        self.variables: Handles[VariableRef] = Handles()
        self._memory: Handles[MemoryRef] = Handles()

    def __bool__(self) -> bool:
        return bool(self._stops)

    def __contains__(self, thread_id: int) -> bool:
        return thread_id in self._stops

    @property
    def all(self) -> list[Stop]:
        return list(self._stops.values())

    def enter(self, thread: Thread, stopped: pb.Stopped) -> None:
        self.leave(thread.id)
        self._stops[thread.id] = Stop(thread, stopped)

    def leave(self, thread_id: int) -> None:
        self._stops.pop(thread_id, None)
        self.frames.forget(thread_id)
        self.variables.forget(thread_id)
        self._memory.forget(thread_id)

    def get(self, thread_id: int) -> Stop:
        stop = self._stops.get(thread_id)
        if stop is None:
            if any(thread.id == thread_id for thread in self._debugger.threads):
                raise NotStopped(f"thread {thread_id} is running: pause it first")
            raise RequestError(f"there is no thread {thread_id}")
        return stop

    def check(self) -> None:
        """Raises when nothing is stopped."""
        if not self._stops:
            raise NotStopped(self.why_not())

    def why_not(self) -> str:
        """The error for an inspection while no thread is stopped."""
        if self._debugger.threads:
            return "the program is running: pause it first"
        return "no program is at a stop: set a breakpoint, or pause a program that runs"

    def newest(self) -> Stop:
        """For requests without a frame: the thread that stopped last."""
        self.check()
        return next(reversed(self._stops.values()))

    def frame(self, handle: int) -> FrameRef:
        ref = self.frames.get(handle)
        if ref is None:
            raise RequestError(
                "this frame belongs to an earlier stop: choose one of the stack as it is now"
            )
        return ref

    def begin_answer(self, subject: int = 0) -> None:
        """The references that are made next are for one answer, and stay usable together."""
        self.variables.begin(subject)
        self._memory.begin()

    def variable(self, handle: int) -> VariableRef:
        ref = self.variables.get(handle)
        if ref is None:
            raise RequestError(
                "these values belong to an earlier stop, or are no longer kept: look at them again"
            )
        return ref

    def use(self, handle: int, ref: VariableRef) -> None:
        """Its parts were shown: keeps it as long as them."""
        if isinstance(ref, TensorRef) and ref.passing:
            self.variables.use(ref.stop.thread.id, handle)

    # ---- references to bytes: addresses, far enough apart ----------------------------------------

    def remember(self, ref: MemoryRef, passing: bool = False) -> str:
        handle = self._memory.add(ref.stop.thread.id, ref, passing)
        return f"{handle << _MEMORY_BITS:#x}"

    def remembered(self, reference: str) -> tuple[int, MemoryRef]:
        """The address of the tensor's first byte, and the tensor."""
        try:
            address = int(reference, 16)
        except ValueError:
            raise RequestError(f"'{reference}' is not a reference to a tensor's bytes") from None
        ref = self._memory.get(address >> _MEMORY_BITS)
        if ref is None or address % (1 << _MEMORY_BITS):
            raise RequestError(
                "these bytes belong to an earlier stop, or are no longer kept: open them again"
            )
        return address, ref

    def memory_of(self, thread_id: int) -> list[tuple[str, MemoryRef]]:
        found = self._memory.of(thread_id)
        return [(f"{handle << _MEMORY_BITS:#x}", ref) for handle, ref in found]
