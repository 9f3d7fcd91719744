"""Commands that walk the dataflow: producers, consumers, graph, inspect, back."""

from __future__ import annotations

from collections.abc import Iterator

from opstep_server import expr, inspection
from opstep_server.cli.commands import focus
from opstep_server.cli.commands.command import Command
from opstep_server.cli.commands.dataflow_text import DataflowText
from opstep_server.cli.output import descriptions
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError, ProgramRef
from opstep_server.wire import debug_pb2 as pb

_DEEPEST = 8
# The most lines of either half of a drawing.
_MOST_LINES = 40


async def producers(session: TerminalSession, args: str) -> None:
    flow, name = await _named(session, args, "producers")
    ops = flow.writers(name)
    session.screen.table([descriptions.op_row(op)[:4] for op in ops])
    if not ops or await _is_parameter(session, flow, name):
        await _show_elsewhere(session, flow, name)


async def consumers(session: TerminalSession, args: str) -> None:
    flow, name = await _named(session, args, "consumers")
    readers = flow.readers(name)
    rows = [(*descriptions.op_row(op)[:4], f"as {', '.join(slots)}") for op, slots in readers]
    session.screen.table(rows)
    if not readers:
        session.screen.line(f"  none: no op of {flow.program.event.name} reads {name}")


async def _named(session: TerminalSession, args: str, command: str) -> tuple[DataflowText, str]:
    if not args:
        raise DebuggerError(f"write '{command} VARIABLE', such as '{command} X'")
    return await variable(session, args)


async def variable(session: TerminalSession, text: str) -> tuple[DataflowText, str]:
    """A variable: at a stop by the names of expressions, otherwise by its own name."""
    if session.stopped is not None:
        meant = await focus.variable(session, text)
        return await _flow(session, meant.program or session.program()), meant.variable
    name = inspection.own_name(text) or text
    for program in (session.program(), *session.debugger.programs):
        flow = await _flow(session, program)
        if flow.has(name):
            return flow, name
    raise DebuggerError(f"there is no variable '{name}'{_nearest(name, session.names.variables)}")


async def _python_names(session: TerminalSession) -> set[str]:
    if session.stopped is None:
        return set()
    names = await session.debugger.names(session.thread.id, focus.frame(session))
    return {each.name for each in names.python}


async def find(session: TerminalSession, text: str) -> pb.OpInfo:
    """An op by its number or name, or the op that made a variable before the op in view."""
    flow = await _flow(session, session.program())
    number = text.removeprefix("#")
    if text.startswith("#"):
        if not number.isdecimal():
            raise DebuggerError(f"'{text}' is not an op number: 'info ops' shows them")
        return flow.op(int(number))
    named = [op for op in flow.ops if op.name == text]
    if named:
        return named[0]
    try:
        flow, name = await variable(session, text)
    except DebuggerError as error:
        if not str(error).startswith("there is no variable"):
            raise
        names = session.names
        near = _nearest(text, names.ops | names.variables | await _python_names(session))
        raise DebuggerError(f"there is no op or variable '{text}'{near}") from None
    producer = flow.producer(name, _op_in_view(session, flow))
    if producer is None or flow.program != session.program():
        raise DebuggerError(
            f"no op of {session.program().event.name} makes {name}: "
            + await _origin(session, flow, name)
        )
    return producer


def _nearest(text: str, known: set[str]) -> str:
    """A hint with the nearest names; one that differs only in case comes first."""
    same = next((name for name in sorted(known) if name.lower() == text.lower()), None)
    hint = f"did you mean '{same}'?" if same is not None else expr.suggest(text, known)
    return f": {hint}" if hint else ""


def _op_in_view(session: TerminalSession, flow: DataflowText) -> pb.OpInfo | None:
    """The op in view as an op of this program; None when it is in another program."""
    if session.stopped is None or flow.program != session.program():
        return None
    line = focus.listing_line(session)
    return next((op for op in flow.ops if op.listing_line == line), None)


async def _flow(session: TerminalSession, program: ProgramRef) -> DataflowText:
    return DataflowText(program, await session.debugger.ops(program))


async def _is_parameter(session: TerminalSession, flow: DataflowText, name: str) -> bool:
    """Whether it is read before it is written, so that its value comes from elsewhere."""
    first = min((op.listing_line for op in flow.writers(name)), default=0)
    return any(op.listing_line <= first for op, _ in flow.readers(name))


async def _show_elsewhere(session: TerminalSession, flow: DataflowText, name: str) -> None:
    session.screen.line(f"  before the run: {await _origin(session, flow, name)}")


async def _origin(session: TerminalSession, flow: DataflowText, name: str) -> str:
    """The origin of a value that exists when the run begins."""
    for program in session.debugger.programs:
        if program == flow.program or program.executor is not flow.program.executor:
            continue
        for op in (await _flow(session, program)).writers(name):
            at = f", {descriptions.op_place(op)}" if op.stack else ""
            return f"#{op.id} {op.name} ({op.type}) of {program.event.name}{at}"
    return "it is fed, or stays in the scope"


# ---- a drawing -----------------------------------------------------------------------------------


async def graph(session: TerminalSession, args: str) -> None:
    words = args.split()
    depth = 1
    if words and words[-1].isdecimal():
        depth = int(words.pop())
        if not 1 <= depth <= _DEEPEST:
            raise DebuggerError(f"a drawing is from 1 to {_DEEPEST} ops deep, not {depth}")
    if len(words) > 1:
        raise DebuggerError("write 'graph [OP | VARIABLE] [DEPTH]', such as 'graph #12 2'")
    if words and not words[0].startswith("#"):
        flow = await _flow(session, session.program())
        if all(op.name != words[0] for op in flow.ops):
            await _draw_variable(session, *await variable(session, words[0]), depth)
            return
    op = await find(session, words[0]) if words else focus.op(session)
    flow = await _flow(session, session.program())
    op = flow.op(op.id)
    _draw(session, list(flow.above(op, depth)))
    at = f", {descriptions.op_place(op)}" if op.stack else ""
    session.screen.tree(f"=> #{op.id} {op.name} ({op.type}){at}")
    _draw(session, list(flow.below(op, depth)), below=True)


async def _draw_variable(
    session: TerminalSession, flow: DataflowText, name: str, depth: int
) -> None:
    producer = flow.producer(name, _op_in_view(session, flow))
    if producer is not None:
        lines = [f"   {line}" for line in flow.above(producer, depth)] if depth > 1 else []
        _draw(session, [*lines, f"┌─ {flow.tell(producer)}"])
    else:
        _draw(session, [f"┌─ {await _origin(session, flow, name)}"])
    session.screen.tree(f"=> {flow.describe(name)}")
    _draw(session, list(flow.uses(name, depth, producer)), below=True)


def _draw(session: TerminalSession, lines: list[str], below: bool = False) -> None:
    """Draws the lines; of too many, those nearest to the op."""
    left = len(lines) - _MOST_LINES
    if left > 0:
        note = f"… {left} more lines"
        lines = [*lines[:_MOST_LINES], note] if below else [note, *lines[left:]]
    for line in lines:
        session.screen.tree(f"   {line}")


# ---- walking -------------------------------------------------------------------------------------


async def inspect(session: TerminalSession, args: str) -> None:
    session.stop  # noqa: B018  # Raises when there is nothing to look at.
    if args:
        session.walked.append(await find(session, args))
    focus.show(session)


async def back(session: TerminalSession, args: str) -> None:
    session.stop  # noqa: B018  # Raises when there is nothing to look at.
    if args not in ("", "all"):
        raise DebuggerError("write 'back' for one op back, or 'back all'")
    if not session.walked:
        raise DebuggerError(
            "this is where it stopped: 'inspect OP' or 'inspect VAR' goes elsewhere"
        )
    del session.walked[0 if args else -1 :]
    focus.show(session)


async def info_blocks(session: TerminalSession, pattern: str) -> None:
    program = session.program()
    flow = await _flow(session, program)
    frames = session.stopped.frames if session.stopped is not None else ()
    running = {f.block: f for f in frames if f.kind == pb.StackFrame.BLOCK}
    here = frames[session.frame].block if frames and session.frame < len(frames) else -1
    outermost = f"block 0: {program.event.name}, {_count(flow.in_block(0))}"
    lines = [(0, outermost), *_blocks(flow, 0, "", running)]
    for block, text in lines:
        mark = "*" if block == here and session.stopped is not None else " "
        session.screen.tree(f"{mark} {text}")


def _blocks(
    flow: DataflowText, parent: int, indent: str, running: dict[int, pb.StackFrame]
) -> Iterator[tuple[int, str]]:
    blocks = [(op, each) for op in flow.in_block(parent) for each in op.blocks]
    inner = sorted(blocks, key=lambda pair: pair[1].block)
    for number, (op, each) in enumerate(inner, 1):
        last = number == len(inner)
        its = "" if each.name == "block" else f"{each.name} "
        text = f"block {each.block}: {its}of {flow.tell(op)}"
        text += f", {_count(flow.in_block(each.block))}"
        if each.block in running:
            text += f", iteration {running[each.block].iteration}"
        yield each.block, f"{indent}{'└─' if last else '├─'} {text}"
        deeper = indent + ("   " if last else "│  ")
        yield from _blocks(flow, each.block, deeper, running)


def _count(ops: list[pb.OpInfo]) -> str:
    return "1 op" if len(ops) == 1 else f"{len(ops)} ops"


COMMANDS = (
    Command(
        "producers", (), "producers VARIABLE",
        "show the ops that write a variable",
        "At a stop VARIABLE is a name as in expressions, and var(\"x\") the program's own x.",
        producers, "expression",
    ),
    Command(
        "consumers", (), "consumers VARIABLE",
        "show the ops that read a variable", "Those inside of blocks too.", consumers, "expression",
    ),
    Command(
        "graph", (), "graph [OP | VARIABLE] [DEPTH]",
        "draw what feeds an op or a variable, and what uses it",
        "Without one, of the op in view; DEPTH is how many ops far, 1 unless it is given.",
        graph, "node",
    ),
    Command(
        "inspect", ("follow",), "inspect [OP | VARIABLE]",
        "look at another op: #12, its name, or the one that made a variable",
        "'inputs', 'outputs', 'attrs', 'list' and expressions are then about that op, until the\n"
        "script goes on. 'inspect X' again and again walks up the data; 'back' comes back.",
        inspect, "node",
    ),
    Command(
        "back", (), "back [all]",
        "come back from an op that was inspected", "With 'all', to where it stopped.", back,
    ),
)  # fmt: skip
