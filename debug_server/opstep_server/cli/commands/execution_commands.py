"""Commands that resume the script: continue, step, next, finish, until and others."""

from __future__ import annotations

from opstep_server import code_lines
from opstep_server.cli.commands import breakpoint_arguments, process_commands
from opstep_server.cli.commands.command import Command
from opstep_server.cli.output import descriptions
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import (
    BreakpointSpec,
    DebuggerError,
    ResumeMode,
    SourceWhere,
    StepUnit,
)
from opstep_server.wire import debug_pb2 as pb

# The program whose ops run where they are made.
_AT_ONCE = "imperative"


async def continue_(session: TerminalSession, args: str) -> None:
    times = _count(args)
    if session.stopped is None and (session.running or session.awaits):
        await session.wait(session.release())
        return
    for _ in range(times):
        stopped = await session.wait(session.go("continue"), counted=times > 1)
        if session.interrupted or stopped is None or stopped.reason != pb.STOP_BREAKPOINT:
            return


async def pause(session: TerminalSession, args: str) -> None:
    if not session.running:
        raise session.not_running()
    if session.stopped is not None:
        what = "the thread" if session.several else "the script"
        raise DebuggerError(f"{what} is stopped already")
    await session.wait(session.pause())


async def step(session: TerminalSession, args: str) -> None:
    await _step(session, args, "into", "line")


async def next_(session: TerminalSession, args: str) -> None:
    await _step(session, args, "over", "line")


async def stepi(session: TerminalSession, args: str) -> None:
    await _step(session, args, "into", "op")


async def nexti(session: TerminalSession, args: str) -> None:
    await _step(session, args, "over", "op")


async def finish(session: TerminalSession, args: str) -> None:
    modes: dict[str, ResumeMode] = {"": "out", "iteration": "iteration", "run": "run"}
    if args not in modes:
        raise DebuggerError("write 'finish', 'finish iteration' or 'finish run'")
    await _step(session, "", modes[args], "line")


async def return_(session: TerminalSession, args: str) -> None:
    if session.running or session.awaits:
        await finish(session, args)
    else:
        await process_commands.run(session, args)


async def iteration(session: TerminalSession, args: str) -> None:
    await _step(session, args, "iteration", "op")


async def until(session: TerminalSession, args: str) -> None:
    if args:
        await _go_to(session, args, "until", "run")
    else:
        await session.wait(session.go("run", until=await _lines_below(session), awaited=True))


async def advance(session: TerminalSession, args: str) -> None:
    if not args:
        raise DebuggerError("write 'advance WHERE [grad] [if CONDITION]', as for 'break'")
    await _go_to(session, args, "advance", "continue")


async def _go_to(session: TerminalSession, args: str, word: str, mode: ResumeMode) -> None:
    session.stop  # noqa: B018  # Raises when nothing is stopped.
    spec = await breakpoint_arguments.parse(session, args, f"{word} WHERE [grad] [if CONDITION]")
    if spec.log_message:
        raise DebuggerError(f"'{word}' ends with a stop: 'break {args}' sets a log point")
    try:
        await session.wait(session.go(mode, until=[spec]))
    except DebuggerError as error:
        if session.stopped is None:
            raise
        place = descriptions.where(spec)
        raise DebuggerError(f"cannot go on to {place}: {error}; 'tbreak' waits for it") from error


async def _lines_below(session: TerminalSession) -> list[BreakpointSpec]:
    """Places on later lines with ops: of the function in view, and of those that called it."""
    top = session.stop[1].frames[0]
    stack = list(top.op.stack)
    if not stack:
        raise DebuggerError("this op has no Python line: 'nexti' goes to the next op")
    # Calls on the line in view that have not been entered come before it.
    while len(stack) > 1 and not _is_at(stack[0], top):
        stack.pop(0)
    here = {(line.file, line.line) for line in stack}
    first: dict[tuple[str, str], int] = {}
    for line in stack:
        function = line.file, line.function
        first[function] = min(line.line, first.get(function, line.line))
    ops = await session.debugger.ops(session.program())
    made = {
        (line.file, line.line)
        for op in ops
        if not descriptions.is_gradient(op)
        for line in op.stack
        if line.line > first.get((line.file, line.function), line.line)
    }
    if top.program_name == _AT_ONCE:
        # Ops on later lines may not have been made yet.
        for each in stack:
            lines = code_lines.lines_of_function(each.file, each.function, each.line)
            made |= {(each.file, line) for line in lines if line > each.line}
    return [BreakpointSpec(SourceWhere(file, line)) for file, line in sorted(made - here)]


def _is_at(line: pb.SourceLine, frame: pb.StackFrame) -> bool:
    return (line.file, line.line, line.function) == (frame.file, frame.line, frame.function)


async def _step(session: TerminalSession, args: str, mode: ResumeMode, unit: StepUnit) -> None:
    times = _count(args)
    for _ in range(times):
        stopped = await session.wait(session.go(mode, unit), counted=times > 1)
        # Any other stop is more interesting to the user.
        if session.interrupted or stopped is None or stopped.reason != pb.STOP_STEP:
            return


def _count(args: str) -> int:
    if not args:
        return 1
    if not args.isdecimal() or int(args) < 1:
        raise DebuggerError(f"'{args}' is not a number of times: write 1 or more")
    return int(args)


_TIMES = "With a number it does so that many times, up to a stop of another kind or Ctrl-C."

COMMANDS = (
    Command(
        "continue", ("c",), "continue [TIMES]",
        "go on to the next stop",
        "Ctrl-C pauses a running script at its next op.\n" + _TIMES, continue_, repeats=True,
    ),
    Command(
        "pause", (), "pause", "stop at the next op, whichever thread runs it", "", pause,
    ),
    Command(
        "step", ("s",), "step [TIMES]",
        "to the next Python line that made ops, into functions and blocks", _TIMES, step,
        repeats=True,
    ),
    Command(
        "next", ("n",), "next [TIMES]",
        "to the next Python line that made ops, over functions and blocks", _TIMES, next_,
        repeats=True,
    ),
    Command(
        "stepi", ("si",), "stepi [TIMES]",
        "to the next op, into blocks", _TIMES, stepi, repeats=True,
    ),
    Command(
        "nexti", ("ni",), "nexti [TIMES]",
        "to the next op, over blocks", _TIMES, nexti, repeats=True,
    ),
    Command(
        "finish", ("fin",), "finish [iteration | run]",
        "out of the function that made the op, or out of the block",
        "Out of a function it stops on the line that called it, after the function's last op; in\n"
        "imperative mode at the next op outside it, on that line or further on. Out of a block it\n"
        "stops at the op after the one that runs it.\n"
        "With 'iteration', to the block's next iteration, or behind the loop when there is none.\n"
        "With 'run', after the last op of the run.",
        finish,
    ),
    Command(
        "return", ("r",), "return",
        "as 'finish'; before the script was started, as 'run'",
        "So that 'r' does what it does in pdb, and at the beginning what it does in gdb.", return_,
    ),
    Command(
        "iteration", ("it",), "iteration [TIMES]",
        "to the next iteration of the block, or behind the loop",
        "Outside of blocks, to the first op of the next run.\n" + _TIMES, iteration, repeats=True,
    ),
    Command(
        "until", ("unt",), "until [WHERE [grad] [if CONDITION]]",
        "to a line below the current one, or to a place",
        "Without WHERE it goes on up to an op of a later line of the same function, or of the "
        "function that\ncalled it: past helpers, what is left of a loop, and gradients. WHERE is "
        "as for 'break'.\n"
        "Whatever happens it stops after the last op of the run.",
        until, ("where", "clause"), repeats=True,
    ),
    Command(
        "advance", ("adv",), "advance WHERE [grad] [if CONDITION]",
        "go on to a place, once",
        "WHERE is as for 'break'. It may be in a later run.", advance, ("where", "clause"),
    ),
)  # fmt: skip
