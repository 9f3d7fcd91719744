"""Handlers of the commands that show things."""

from __future__ import annotations

import fnmatch
import linecache
from collections.abc import Collection, Iterator

from opstep_server import expr, values
from opstep_server.cli import breaking, render, threads
from opstep_server.cli.command import Command
from opstep_server.cli.session import Session
from opstep_server.debugger import DebuggerError
from opstep_server.wire import debug_pb2 as pb

# A printed tensor up to this size is shown with all its elements.
_ELEMENTS = 100
_PAGE = 200


async def where(session: Session, args: str) -> None:
    _, stopped = session.stop
    for index in range(len(stopped.frames)):
        mark = "*" if index == session.frame else " "
        line = render.frame_line(stopped.frames[index])
        session.screen.line(f"{mark} {index}  {line}", "bold" if mark == "*" else "")


async def frame(session: Session, args: str) -> None:
    if args and not args.isdecimal():
        raise DebuggerError(f"'{args}' is no frame's number: see 'where'")
    _select_frame(session, int(args) if args else session.frame)


async def up(session: Session, args: str) -> None:
    last = len(session.stop[1].frames) - 1
    count = _frames(args)
    if session.frame >= last:
        raise DebuggerError(f"frame {last} is the outermost: there is none further up")
    _select_frame(session, min(session.frame + count, last))


async def down(session: Session, args: str) -> None:
    session.stop  # noqa: B018  # Raises when there are no frames.
    count = _frames(args)
    if session.frame <= 0:
        raise DebuggerError("frame 0, the op, is the innermost: there is none further down")
    _select_frame(session, max(session.frame - count, 0))


def _frames(args: str) -> int:
    if args and not (args.isdecimal() and int(args) > 0):
        raise DebuggerError(f"'{args}' is no number of frames: write 1 or more")
    return int(args or 1)


def _select_frame(session: Session, index: int) -> None:
    _, stopped = session.stop
    last = len(stopped.frames) - 1
    if not 0 <= index <= last:
        raise DebuggerError(f"there is no frame {index}: they go from 0, the op, to {last}")
    session.frame = index
    session.screen.line(f"{index}  {render.frame_line(stopped.frames[index])}")
    session.show_source()


async def list_(session: Session, args: str) -> None:
    if args not in ("", "source", "listing"):
        raise DebuggerError("write 'list', 'list source' or 'list listing'")
    _, stopped = session.stop
    frame = stopped.frames[session.frame]
    if args != "listing" and frame.file:
        linecache.checkcache(frame.file)
        lines = linecache.getlines(frame.file)
        session.screen.line(f"{render.path(frame.file)}:", "bold")
        for line in render.around(lines, frame.line):
            session.screen.source(line, frame.file)
    # Python frames are not in a program: the op that they led to is.
    op_frame = frame if frame.HasField("op") else stopped.frames[0]
    if args != "source" and op_frame.HasField("op"):
        program = session.program()
        session.screen.line(f"listing of {program.event.name}:", "bold")
        listing = await session.debugger.listing(program)
        for line in render.around(listing, op_frame.op.listing_line):
            session.screen.listing(line)


async def print_(session: Session, args: str) -> None:
    texts = expr.split(args)
    for text in texts:
        value = await session.debugger.evaluate(
            session.thread.id, session.frame, text, max_elements=_ELEMENTS
        )
        session.screen.line(f"{text} = {values.in_full(value)}")


async def inputs(session: Session, args: str) -> None:
    await _show_scope(session, pb.SCOPE_INPUTS)


async def outputs(session: Session, args: str) -> None:
    await _show_scope(session, pb.SCOPE_OUTPUTS)


async def _show_scope(
    session: Session,
    scope: pb.ScopeKind,
    title: str = "",
    pattern: str = "*",
    without: Collection[str] = (),
    frame: int | None = None,
) -> list[str]:
    """Shows the scope's variables and returns their names."""
    frame = session.frame if frame is None else frame
    shown: list[str] = []
    rows: list[tuple[str, str]] = []
    start = 0
    while True:
        page = await session.debugger.variables(
            session.thread.id, frame, scope, start=start, count=_PAGE
        )
        for named in page.variables:
            name = named.name
            if named.variable and named.variable != name:
                name += f" = {named.variable}"
            variable = named.variable or named.name
            if fnmatch.fnmatchcase(variable, pattern) and variable not in without:
                rows.append((name, values.describe(named.value)))
                shown.append(variable)
        start += len(page.variables)
        if not page.variables or start >= page.total:
            break
    if rows and title:
        session.screen.line(f"{title}:", "bold")
    for line in render.table(rows):
        session.screen.line(line)
    if not rows and not title:
        session.screen.line("  none")
    return shown


# ---- info ----------------------------------------------------------------------------------------


async def info_ops(session: Session, pattern: str) -> None:
    session.program()  # Raises when there is none.
    shown = 0
    for program in session.debugger.programs:
        ops = await session.debugger.ops(program)
        wanted = [op for op in ops if not pattern or _matches(op, pattern)]
        if wanted:
            session.screen.line(f"{program.event.name}:", "bold")
        for line in render.table([(render.op_line(op), render.op_place(op)) for op in wanted]):
            session.screen.line(line)
        shown += len(wanted)
    if not shown:
        hint = expr.suggest(pattern, session.names.ops | session.names.types)
        raise DebuggerError(f"no op matches '{pattern}'" + (f": {hint}" if hint else ""))


def _matches(op: pb.OpInfo, pattern: str) -> bool:
    return op.type == pattern or fnmatch.fnmatchcase(op.name, pattern)


async def info_op(session: Session, pattern: str) -> None:
    _, stopped = session.stop
    frame = stopped.frames[session.frame]
    if not frame.HasField("op"):
        raise DebuggerError("this frame has no op: 'frame 0' goes to the one that is stopped at")
    session.screen.line(render.op_line(frame.op), "bold")
    for line in frame.op.stack:
        session.screen.line(f"  made at {render.path(line.file)}:{line.line} in {line.function}")
    if frame.op.forward_op:
        session.screen.line(f"  gradient of op #{frame.op.forward_op}")
    await _show_scope(session, pb.SCOPE_INPUTS, "inputs")
    await _show_scope(session, pb.SCOPE_OUTPUTS, "outputs")
    await _show_scope(session, pb.SCOPE_ATTRIBUTES, "attributes")


async def info_vars(session: Session, pattern: str) -> None:
    shown: list[str] = []
    wanted = pattern or "*"
    # A block's own parameters and gradients are among its variables: once is enough.
    for scope, title in ((pb.SCOPE_PARAMETERS, "parameters"), (pb.SCOPE_GRADIENTS, "gradients")):
        shown += await _show_scope(session, scope, title, wanted, without=shown)
    for frame, block in _blocks(session):
        title = f"other variables of {block}"
        shown += await _show_scope(session, pb.SCOPE_BLOCK, title, wanted, shown, frame)
    if not shown and not await _show_named(session, pattern):
        raise DebuggerError(f"no variable matches '{wanted}' in this frame")


def _blocks(session: Session) -> Iterator[tuple[int, str]]:
    """The block of the frame in view and those around it, each with a frame that is in it."""
    frames = session.stop[1].frames
    first = session.frame
    yield first, "the block"
    # The frame of an op and that of its block are in the same block.
    start = first + 1 if frames[first].kind != pb.StackFrame.OP else first + 2
    for index in range(start, len(frames)):
        frame = frames[index]
        if frame.kind == pb.StackFrame.BLOCK:
            yield index, f"the block around it, of #{frame.op.id} {frame.op.name}"
        elif frame.kind == pb.StackFrame.RUN:
            yield index, "the outermost block"


async def _show_named(session: Session, name: str) -> bool:
    """What 'print' finds by that name though no block lists it: slots, attributes, gradients."""
    try:
        value = await session.debugger.evaluate(
            session.thread.id, session.frame, name, max_elements=_ELEMENTS
        )
    except DebuggerError:
        return False
    for line in render.table([(name, values.describe(value))]):
        session.screen.line(line)
    return True


async def info_programs(session: Session, pattern: str) -> None:
    session.program()  # Raises when there is none.
    for program in session.debugger.programs:
        event = program.event
        blocks = "1 block" if event.block_count == 1 else f"{event.block_count} blocks"
        session.screen.line(
            f"{event.name}: {event.op_count} ops in {blocks}, version {event.version}, "
            f"process {program.executor.pid}"
        )


INFO = {
    "breakpoints": breaking.info_breakpoints,
    "taps": breaking.info_taps,
    "op": info_op,
    "ops": info_ops,
    "vars": info_vars,
    "programs": info_programs,
    "threads": threads.info_threads,
}


async def info(session: Session, args: str) -> None:
    words = args.split()
    # As in other debuggers.
    topic = {"b": "breakpoints", "t": "threads"}.get(words[0], words[0]) if words else ""
    matching = [name for name in INFO if topic and name.startswith(topic)]
    if topic in INFO:
        matching = [topic]
    if len(matching) != 1:
        raise DebuggerError("write 'info' and one of " + ", ".join(INFO))
    await INFO[matching[0]](session, " ".join(words[1:]))


COMMANDS = (
    Command(
        "where", ("w", "bt", "backtrace"), "where",
        "show the stack: the op, its blocks, the run, the Python frames",
        "The frame in view is marked with *.", where,
    ),
    Command(
        "frame", ("f",), "frame [NUMBER]",
        "look at a frame of the stack", "Expressions and 'list' use that frame.", frame,
    ),
    Command(
        "up", (), "up [FRAMES]",
        "look at the next frame outwards", "With a number, that many frames further.", up,
    ),
    Command(
        "down", (), "down [FRAMES]",
        "look at the next frame inwards", "With a number, that many frames further.", down,
    ),
    Command(
        "list", ("l",), "list [source|listing]",
        "show the source around the line and the listing around the op",
        "The current place is marked with =>.", list_,
    ),
    Command(
        "print", ("p",), "print EXPRESSION[, EXPRESSION…]",
        "show the value of expressions", "See 'help expressions'.", print_, "expression",
    ),
    Command(
        "inputs", (), "inputs", "show what goes into the op", "", inputs,
    ),
    Command(
        "outputs", (), "outputs", "show what the op made",
        "Before the op has run there is nothing to see.", outputs,
    ),
    Command(
        "info", ("i",), "info breakpoints|taps|op|ops [PATTERN]|vars [PATTERN]|programs|threads",
        "show what there is",
        "PATTERN is an op's type or a name with * and ?.\n"
        "'info vars' goes from the block of the frame in view outwards.", info, "info",
    ),
)  # fmt: skip
