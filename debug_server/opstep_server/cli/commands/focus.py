"""The focus of a session: the frame in view, or an op inspected along the dataflow."""

from __future__ import annotations

from collections.abc import Sequence

from opstep_server import expr, tensor_parts
from opstep_server.cli.output import descriptions
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError
from opstep_server.functions import hidden_name_note
from opstep_server.wire import debug_pb2 as pb

# Elements that a command lets the executor process at once.
PART_ELEMENTS = 1 << 22
_SEE = "'info locals' and 'info vars' show those that are here"


def frame(session: TerminalSession) -> int:
    """The frame in which values are evaluated."""
    session.stop  # noqa: B018  # Raises when there are no frames.
    return session.frame


def op(session: TerminalSession) -> pb.OpInfo:
    """The op in view."""
    if session.walked:
        return session.walked[-1]
    seen = session.stop[1].frames[session.frame]
    if not seen.HasField("op"):
        raise DebuggerError("this frame has no op: 'frame 0' goes to the one that is stopped at")
    return seen.op


def listing_line(session: TerminalSession) -> int:
    """The listing line of the op in view, or of the op of the stop."""
    if session.walked:
        return session.walked[-1].listing_line
    frames = session.stop[1].frames
    seen = frames[session.frame]
    return (seen if seen.HasField("op") else frames[0]).op.listing_line


async def evaluate(
    session: TerminalSession, text: str | pb.Expr, max_elements: int = 0
) -> pb.Value:
    try:
        return await session.debugger.evaluate(
            session.thread.id, frame(session), text, max_elements=max_elements, op=walked(session)
        )
    except DebuggerError as error:
        if str(error).startswith("there is no variable"):
            join = " " if str(error).endswith("?") else "; " if ":" in str(error) else ": "
            raise DebuggerError(f"{error}{join}{_SEE}") from error
        raise


async def hidden_notes(session: TerminalSession, text: str) -> list[str]:
    """One sentence for each name that means another variable in Python than in the expression."""
    hidden = await session.debugger.hidden_names(
        session.thread.id, frame(session), expr.parse(text), walked(session)
    )
    return [hidden_name_note(each.name, each.variable or each.name) for each in hidden]


async def first_position(
    session: TerminalSession, text: str, dims: Sequence[int], test: str
) -> str:
    """` at [3, 1]`: the first element of a tensor for which the test holds.

    Empty when there is none: a float may not represent a large whole number.
    """
    for part in tensor_parts.parts(dims, PART_ELEMENTS):
        holds = test.format(f"({part.cut(text)})")
        if (await evaluate(session, f"({holds}).any()")).b:
            at = await evaluate(session, f"argmax({holds})")
            return f" at {part.position(at.i)}"
    return ""


async def variables(
    session: TerminalSession,
    scope: pb.ScopeKind,
    start: int = 0,
    count: int = 0,
    index: int | None = None,
) -> pb.Variables:
    """The variables of the op in view, or of the frame with that index."""
    if index is not None:
        return await session.debugger.variables(session.thread.id, index, scope, start, count)
    return await session.debugger.variables(
        session.thread.id, frame(session), scope, start, count, walked(session)
    )


async def has_inputs(session: TerminalSession) -> bool:
    """Whether the op in view has inputs."""
    return (await variables(session, pb.SCOPE_INPUTS, count=1)).total > 0


def walked(session: TerminalSession) -> int:
    """The number of the inspected op; 0 for none."""
    return session.walked[-1].id if session.walked else 0


def show(session: TerminalSession) -> None:
    """Shows what is in view."""
    if session.walked:
        seen = session.walked[-1]
        at = f", {descriptions.op_place(seen)}" if seen.stack else ""
        session.screen.line(f"looking at op {descriptions.op_line(seen)}{at}", "bold")
    else:
        seen_frame = session.stop[1].frames[session.frame]
        session.screen.line(f"{session.frame}  {descriptions.frame_line(seen_frame)}")
    session.show_source()
