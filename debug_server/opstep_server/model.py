"""The types that the debugger exchanges with its faces: targets, breakpoints, threads, events.

Frames, ops and values are the wire's own messages (`pb`), not a second set of classes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.connection import Connection

# "iteration": to the next iteration, or past the loop; "run": after the last op of the run.
ResumeMode = Literal["continue", "over", "into", "out", "iteration", "run"]
StepUnit = Literal["op", "line"]
FaultKind = Literal["nan", "inf", "overflow", "error"]


class DebuggerError(Exception):
    """One sentence for people: what is wrong, where, what to do."""


class ConnectionLost(DebuggerError):
    """The executor is gone, and will not answer."""


@dataclass(frozen=True)
class LaunchTarget:
    program: str
    args: tuple[str, ...] = ()
    cwd: str | None = None
    # None removes a variable.
    env: Mapping[str, str | None] = field(default_factory=dict)
    # None: the interpreter that runs the debugger.
    python: str | None = None
    # `program` is a module's name, as in `python -m`.
    module: bool = False
    # "events": as Output events. "terminal": the same, but the script sees a terminal.
    # "inherit": the script writes to our own stdout and stderr, without events.
    output: Literal["events", "terminal", "inherit"] = "events"
    # The script's input.
    stdin: Literal["nothing", "inherit"] = "nothing"
    # False: the script runs as if there were no debugger.
    debug: bool = True
    # When the debugger is killed, the script goes on (True) or ends too.
    keep: bool = True


# ---- breakpoints ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceWhere:
    file: str
    line: int


@dataclass(frozen=True)
class ListingWhere:
    # "": the first program that does more than give parameters their first values.
    program_name: str
    line: int


@dataclass(frozen=True)
class PatternWhere:
    """An op type or a pattern over op names; "grad:" before it takes gradient ops only."""

    pattern: str


@dataclass(frozen=True)
class OpWhere:
    """An op by number; each process numbers its programs from the start."""

    # 0: the first program that does more than give parameters their first values.
    program: int
    op: int
    # 0: any executor with such a program.
    executor: int = 0
    # For messages.
    program_name: str = ""


@dataclass(frozen=True)
class BlockWhere:
    """The first op of a block, each time that the block is entered."""

    # The op that runs it, as for PatternWhere, also with its attribute: "cond_0.true_block"; or the
    # block's number.
    block: str


@dataclass(frozen=True)
class DataWhere:
    """Every op that writes the variable; the stop is after it."""

    variable: str
    # Only when its bytes changed.
    changed: bool = False


Where = SourceWhere | ListingWhere | PatternWhere | OpWhere | BlockWhere | DataWhere


@dataclass
class BreakpointSpec:
    """What a user asked for."""

    where: Where
    condition: str | None = None
    gradients: bool = False
    temporary: bool = False
    enabled: bool = True
    # The visits that count: "5", ">= 100", "% 10".
    hit_condition: str | None = None
    # Written instead of stopping: "loss {loss.mean():.3f} at {step}".
    log_message: str | None = None


@dataclass
class BreakpointState:
    """The state of a breakpoint."""

    id: int
    spec: BreakpointSpec
    verified: bool = False
    message: str = ""
    op_count: int = 0
    first: pb.OpInfo | None = None
    # Its stops, or the lines of a log point.
    hits: int = 0


@dataclass(frozen=True)
class FaultSpec:
    """Stops after an op that failed, or made a fault that none of its inputs had."""

    kind: FaultKind
    # An op type or a pattern over op names; "" takes all ops.
    ops: str = ""
    condition: str | None = None
    # For overflow: the largest allowed magnitude; None: 65504, float16's largest.
    limit: float | None = None


# ---- processes -----------------------------------------------------------------------------------


@dataclass(eq=False)
class ExecutorProcess:
    """One process with an agent in it."""

    id: int
    connection: Connection
    hello: pb.Hello

    @property
    def pid(self) -> int:
        return self.hello.pid

    async def ask(
        self, command: pb.Command, on_reply: Callable[[pb.Reply], None] | None = None
    ) -> pb.Reply:
        """The reply to the command; an error in it is raised."""
        reply = await self.connection.send_command(command, on_reply)
        if reply.error:
            raise DebuggerError(reply.error)
        return reply

    async def give_up(self, command: int) -> None:
        """Tells the executor that the answer to this command is no longer needed."""
        # The executor may have left, or answered in the meantime.
        with contextlib.suppress(DebuggerError):
            await self.ask(pb.Command(cancel=pb.Cancel(command=command)))


@dataclass(eq=False)
class Thread:
    # Unique over all executors, from 1; `wire_id` is the number in its own executor.
    id: int
    name: str
    executor: ExecutorProcess
    wire_id: int
    stopped: pb.Stopped | None = None


@dataclass(frozen=True, eq=False)
class ProgramRef:
    executor: ExecutorProcess
    event: pb.ProgramEvent


# ---- events --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ThreadStarted:
    thread: Thread


@dataclass(frozen=True)
class ThreadEnded:
    thread: Thread


@dataclass(frozen=True)
class StoppedEvent:
    thread: Thread
    stopped: pb.Stopped


@dataclass(frozen=True)
class ContinuedEvent:
    thread: Thread
    # Why, when the executor went on by itself; otherwise empty.
    message: str


@dataclass(frozen=True)
class BreakpointChanged:
    state: BreakpointState
    # True for a temporary breakpoint after its stop.
    removed: bool = False


@dataclass(frozen=True)
class Logged:
    """A log point wrote a line; or, without a thread, some of its lines were dropped."""

    thread: Thread | None
    text: str
    # Its id; 0 when that is not known.
    breakpoint: int
    dropped: int = 0
    # As it came.
    record: pb.LogRecord | None = None
    # The executor of the log point, also when records were dropped.
    executor: ExecutorProcess | None = None


@dataclass(frozen=True)
class FaultsChanged:
    """The executors' answers to the fault filters, as `Debugger.set_faults` returns them."""

    problems: list[str]


@dataclass(frozen=True)
class TapsChanged:
    """An executor's statuses of taps that this user has set."""

    executor: ExecutorProcess
    statuses: list[pb.TapStatus]


@dataclass(frozen=True)
class ProgramCompiled:
    executor: ExecutorProcess
    program: pb.ProgramEvent


@dataclass(frozen=True)
class Output:
    category: Literal["stdout", "stderr", "console"]
    text: str


@dataclass(frozen=True)
class ProcessExited:
    """The launched process ended and its output was delivered; negative: killed by that signal."""

    code: int


@dataclass(frozen=True)
class ExecutorJoined:
    executor: ExecutorProcess


@dataclass(frozen=True)
class ExecutorLost:
    """Its stream ended; the message is empty when it said goodbye."""

    executor: ExecutorProcess
    message: str


@dataclass(frozen=True)
class ExecutorMoved:
    """The debugger through which we had it has left; we have it ourselves, or through another."""

    executor: ExecutorProcess
    now: ExecutorProcess
    # One sentence for users.
    message: str
    # Why the stream through that debugger ended; empty when it left in order.
    broken: str


Event = (
    ThreadStarted
    | ThreadEnded
    | StoppedEvent
    | ContinuedEvent
    | BreakpointChanged
    | Logged
    | FaultsChanged
    | TapsChanged
    | ProgramCompiled
    | Output
    | ProcessExited
    | ExecutorJoined
    | ExecutorLost
    | ExecutorMoved
)
