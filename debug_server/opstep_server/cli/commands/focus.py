"""The focus of a session: the frame in view, or an op inspected along the dataflow."""

from __future__ import annotations

from collections.abc import Sequence

from opstep_server import tensor_parts
from opstep_server.cli.output import descriptions
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError
from opstep_server.inspection import Meant, own_name
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
    """The value. Notes on its names wait in `session.notes` until the command has ended."""
    try:
        value = await session.debugger.evaluate(
            session.thread.id, frame(session), text, max_elements=max_elements, op=walked(session)
        )
    except DebuggerError as error:
        raise _with_hint(error) from error
    await note(session, text)
    return value


def _with_hint(error: DebuggerError) -> DebuggerError:
    if not str(error).startswith("there is no variable"):
        return error
    join = " " if str(error).endswith("?") else "; " if ":" in str(error) else ": "
    return DebuggerError(f"{error}{join}{_SEE}")


async def variable(session: TerminalSession, text: str) -> Meant:
    """The variable that a name means in what is in view; says so if that is another name."""
    try:
        meant = await session.debugger.variable_of(
            session.thread.id, frame(session), text, walked(session)
        )
    except DebuggerError as error:
        raise _with_hint(error) from error
    typed = own_name(text) or text
    if meant.program is not None:
        session.screen.line(f"{typed} is a variable of {meant.program.event.name}")
    elif meant.variable != typed:
        session.screen.line(f"{typed} is {meant.variable}")
    if text.isidentifier():
        await note(session, text)
    return meant


async def note(session: TerminalSession, text: str | pb.Expr) -> None:
    """Keeps a sentence for each name that means another variable in Python than in the text."""
    notes = await session.debugger.hidden_notes(
        session.thread.id, frame(session), text, walked(session)
    )
    session.notes.update(dict.fromkeys(notes))


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
