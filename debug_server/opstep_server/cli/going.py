"""Handlers of the commands that make the script run."""

from __future__ import annotations

from opstep_server.cli.command import Command
from opstep_server.cli.session import Session
from opstep_server.debugger import DebuggerError, ResumeMode, StepUnit
from opstep_server.wire import debug_pb2 as pb


async def continue_(session: Session, args: str) -> None:
    times = _count(args)
    if session.running and session.stopped is None:
        await session.wait(session.release())
        return
    for _ in range(times):
        stopped = await session.wait(session.go("continue"), counted=times > 1)
        if session.interrupted or stopped is None or stopped.reason != pb.STOP_BREAKPOINT:
            return


async def pause(session: Session, args: str) -> None:
    if not session.running:
        raise session.not_running()
    if session.stopped is not None:
        what = "the thread" if session.several else "the script"
        raise DebuggerError(f"{what} is stopped already")
    await session.wait(session.pause())


async def step(session: Session, args: str) -> None:
    await _step(session, args, "into", "line")


async def next_(session: Session, args: str) -> None:
    await _step(session, args, "over", "line")


async def stepi(session: Session, args: str) -> None:
    await _step(session, args, "into", "op")


async def nexti(session: Session, args: str) -> None:
    await _step(session, args, "over", "op")


async def finish(session: Session, args: str) -> None:
    modes: dict[str, ResumeMode] = {"": "out", "iteration": "iteration", "run": "run"}
    if args not in modes:
        raise DebuggerError("write 'finish', 'finish iteration' or 'finish run'")
    await _step(session, "", modes[args], "op")


async def _step(session: Session, args: str, mode: ResumeMode, unit: StepUnit) -> None:
    times = _count(args)
    for _ in range(times):
        stopped = await session.wait(session.go(mode, unit), counted=times > 1)
        # Whatever else stops is what the person wants to see.
        if session.interrupted or stopped is None or stopped.reason != pb.STOP_STEP:
            return


def _count(args: str) -> int:
    if not args:
        return 1
    if not args.isdecimal() or int(args) < 1:
        raise DebuggerError(f"'{args}' is no number of times: write 1 or more")
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
        "to the next Python line that made ops, into blocks", _TIMES, step, repeats=True,
    ),
    Command(
        "next", ("n",), "next [TIMES]",
        "to the next Python line that made ops, over blocks", _TIMES, next_, repeats=True,
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
        "out of the block, to the op after the one that runs it",
        "With 'iteration', to the block's next iteration, or behind the loop when there is none.\n"
        "With 'run', after the last op of the run.",
        finish,
    ),
)  # fmt: skip
