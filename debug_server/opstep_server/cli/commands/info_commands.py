"""Commands that show the op's values and the session's state: inputs, outputs, attrs, info."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import AsyncIterator, Collection, Iterator

from opstep_server import expr, values
from opstep_server.cli.commands import (
    breakpoint_commands,
    fault_commands,
    focus,
    frame_info,
    graph_commands,
    print_commands,
    thread_commands,
)
from opstep_server.cli.commands.command import Command
from opstep_server.cli.output import descriptions
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError
from opstep_server.wire import debug_pb2 as pb

_PAGE = 200


async def inputs(session: TerminalSession, args: str) -> None:
    async with _op_in_view(session, args):
        await _show_scope(session, pb.SCOPE_INPUTS)


async def outputs(session: TerminalSession, args: str) -> None:
    async with _op_in_view(session, args):
        await _show_scope(session, pb.SCOPE_OUTPUTS)


async def attrs(session: TerminalSession, args: str) -> None:
    async with _op_in_view(session, args):
        focus.op(session)  # Raises when there is none.
        await _show_scope(session, pb.SCOPE_ATTRIBUTES)


async def args(session: TerminalSession, text: str) -> None:
    async with _op_in_view(session, text):
        seen = session.walked or session.stop[1].frames[session.frame].HasField("op")
        shown = await _show_scope(session, pb.SCOPE_INPUTS, "inputs")
        if seen:
            shown += await _show_scope(session, pb.SCOPE_ATTRIBUTES, "attributes")
        if not shown:
            session.screen.line("  none")


@contextlib.asynccontextmanager
async def _op_in_view(session: TerminalSession, args: str) -> AsyncIterator[None]:
    """Puts the named op in view meanwhile; without a name keeps the one in view."""
    session.stop  # noqa: B018  # Raises when there is nothing to look at.
    walked = list(session.walked)
    if args:
        session.walked.append(await graph_commands.find(session, args))
    try:
        yield
    finally:
        session.walked[:] = walked


async def _show_scope(
    session: TerminalSession,
    scope: pb.ScopeKind,
    title: str = "",
    pattern: str = "*",
    without: Collection[str] = (),
    frame: int | None = None,
) -> list[str]:
    """Shows the scope's variables in the op in view or in that frame; returns their names."""
    shown: list[str] = []
    rows: list[tuple[str, str]] = []
    start = 0
    while True:
        page = await focus.variables(session, scope, start, _PAGE, frame)
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
    session.screen.table(rows)
    if not rows and not title:
        session.screen.line("  none")
    return shown


# ---- info ----------------------------------------------------------------------------------------


async def info_ops(session: TerminalSession, pattern: str) -> None:
    current = session.program()
    line_in_view = focus.listing_line(session) if session.stopped is not None else 0
    shown = 0
    for program in session.debugger.programs:
        ops = await session.debugger.ops(program)
        wanted = [op for op in ops if not pattern or _matches(op, pattern)]
        if wanted:
            session.screen.line(f"{program.event.name}:", "bold")
        lines = descriptions.table([descriptions.op_row(op) for op in wanted], "   ")
        for op, line in zip(wanted, lines, strict=True):
            here = program == current and op.listing_line == line_in_view
            session.screen.line(f"=> {line[3:]}" if here else line, "bold" if here else "")
        shown += len(wanted)
    if not shown:
        hint = expr.suggest(pattern, session.names.ops | session.names.types)
        raise DebuggerError(f"no op matches '{pattern}'" + (f": {hint}" if hint else ""))


def _matches(op: pb.OpInfo, pattern: str) -> bool:
    return op.type == pattern or fnmatch.fnmatchcase(op.name, pattern)


async def info_op(session: TerminalSession, pattern: str) -> None:
    async with _op_in_view(session, pattern):
        await _show_op(session)


async def _show_op(session: TerminalSession) -> None:
    op = focus.op(session)
    session.screen.line(descriptions.op_line(op), "bold")
    for line in op.stack:
        session.screen.line(
            f"  made at {descriptions.path(line.file)}:{line.line} in {line.function}"
        )
    if op.forward_op:
        session.screen.line(f"  gradient of op #{op.forward_op}")
    if op.forward_name:
        session.screen.line(f"  gradient of {op.forward_name}")
    for block in op.blocks:
        its = "" if block.name == "block" else f", its {block.name}"
        session.screen.line(f"  runs block {block.block}{its}")
    await _show_scope(session, pb.SCOPE_INPUTS, "inputs")
    await _show_scope(session, pb.SCOPE_OUTPUTS, "outputs")
    await _show_scope(session, pb.SCOPE_ATTRIBUTES, "attributes")


async def info_vars(session: TerminalSession, pattern: str) -> None:
    shown: list[str] = []
    wanted = pattern or "*"
    # A block's parameters and gradients are also among its variables: show them once.
    for scope, title in ((pb.SCOPE_PARAMETERS, "parameters"), (pb.SCOPE_GRADIENTS, "gradients")):
        shown += await _show_scope(session, scope, title, wanted, without=shown)
    for frame, block in _blocks(session):
        title = f"other variables of {block}"
        shown += await _show_scope(session, pb.SCOPE_BLOCK, title, wanted, shown, frame)
    if not shown and not await _show_named(session, pattern):
        hint = expr.suggest(pattern, session.names.variables)
        raise DebuggerError(
            f"no variable matches '{wanted}' in this frame" + (f": {hint}" if hint else "")
        )


def _blocks(session: TerminalSession) -> Iterator[tuple[int, str]]:
    """The block of the frame in view and those around it, each with one of its frames."""
    frames = session.stop[1].frames
    first = focus.frame(session)
    yield first, "the block"
    # The frames of an op, of the calls that made it and of its block are in the same block.
    same = frames[first].kind in (pb.StackFrame.OP, pb.StackFrame.MADE)
    for index in range(first + 1, len(frames)):
        frame = frames[index]
        if frame.kind not in (pb.StackFrame.BLOCK, pb.StackFrame.RUN):
            continue
        if same:
            same = False
        elif frame.kind == pb.StackFrame.BLOCK:
            yield index, f"the block around it, of #{frame.op.id} {frame.op.name}"
        else:
            yield index, "the outermost block"


async def _show_named(session: TerminalSession, name: str) -> bool:
    """Shows names that 'print' knows but no block lists: slots, attributes, gradients."""
    try:
        value = await focus.evaluate(session, name, max_elements=values.SMALL)
    except DebuggerError:
        return False
    session.screen.table([(name, values.describe(value))])
    return True


async def info_programs(session: TerminalSession, pattern: str) -> None:
    session.program()  # Raises when there is none.
    rows = []
    for program in session.debugger.programs:
        event = program.event
        blocks = "1 block" if event.block_count == 1 else f"{event.block_count} blocks"
        size = f"{descriptions.size(event.planned_bytes)} for tensors"
        about = f"version {event.version}, process {program.executor.pid}"
        rows.append((event.name, f"{event.op_count} ops", blocks, size, about))
    session.screen.table(rows)


INFO = {
    "breakpoints": breakpoint_commands.info_breakpoints,
    "taps": breakpoint_commands.info_taps,
    "op": info_op,
    "ops": info_ops,
    "blocks": graph_commands.info_blocks,
    "display": print_commands.info_display,
    "catch": fault_commands.info_faults,
    "vars": info_vars,
    "programs": info_programs,
    "threads": thread_commands.info_threads,
    "frame": frame_info.info_frame,
    "locals": frame_info.info_locals,
    "line": frame_info.info_line,
    "watchpoints": frame_info.info_watchpoints,
    "args": args,
}
# As in other debuggers.
_TOPICS = {
    "b": "breakpoints",
    "t": "threads",
    "f": "frame",
    "l": "locals",
    "variables": "vars",
    "stack": "where",
}


async def info(session: TerminalSession, text: str) -> None:
    words = text.split()
    topic = _TOPICS.get(words[0], words[0]) if words else ""
    if topic == "where":
        raise DebuggerError("write 'where'")
    matching = [name for name in INFO if topic and name.startswith(topic)]
    if topic in INFO:
        matching = [topic]
    if len(matching) != 1:
        hint = f" ({near})" if topic and (near := expr.suggest(topic, INFO)) else ""
        raise DebuggerError("write 'info' and one of " + ", ".join(INFO) + hint)
    await INFO[matching[0]](session, " ".join(words[1:]))


COMMANDS = (
    Command(
        "inputs", (), "inputs [OP]", "show what goes into the op in view, or another one",
        "OP is #12, its name, or a variable for the op that made it.", inputs, "node",
    ),
    Command(
        "outputs", (), "outputs [OP]", "show what the op in view made, or another one",
        "Before the op has run there is nothing to see.", outputs, "node",
    ),
    Command(
        "attrs", ("attributes",), "attrs [OP]", "show the attributes of the op in view, or another",
        "", attrs, "node",
    ),
    Command(
        "args", ("a",), "args [OP]", "show the inputs and attributes of the op in view, or another",
        "In the frame of the run, what it was fed with.", args, "node",
    ),
    Command(
        "info", ("i",), "info TOPIC [PATTERN]",
        "show the session's state",
        "TOPIC is breakpoints, watchpoints, catch, taps, display, op [OP], ops [PATTERN],\n"
        "vars [PATTERN], locals, args [OP], frame, line [LINE], blocks, programs or threads.\n"
        "PATTERN is an op's type or a name with * and ?.\n"
        "'info vars' goes from the block of the frame in view outwards; 'info locals' are\n"
        "Python's names, and 'info line' the ops that a line made.", info,
        ("info", "node"),
    ),
)  # fmt: skip
