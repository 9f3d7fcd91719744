"""A debugging session with a sanitized extension: scenario.py CORE PRELOAD [PART]...

Each part has its own processes, which run programs of tests/programs with that extension. The
sanitizer writes its reports where its options say; a part checks only that the session works.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from session import HERE, SECONDS, Sanitized, Session, at, marked, records, top

from opstep_server.debugger import Debugger
from opstep_server.model import BreakpointSpec, DataWhere, FaultSpec, ResumeMode, StepUnit
from opstep_server.wire import debug_pb2 as pb

Part = Callable[[Sanitized, Path], Awaitable[None]]
PARTS: dict[str, Part] = {}


def part(function: Part) -> Part:
    PARTS[function.__name__] = function
    return function


# ---- stops, steps and values ---------------------------------------------------------------------


@part
async def stepping(sanitized: Sanitized, folder: Path) -> None:
    """Blocks, branches and gradients, stepped through by ops and by lines."""
    breakpoints = (
        BreakpointSpec(marked("blocks.py", "step"), condition="iteration == 0"),
        at("neg", hit_condition="1"),
        BreakpointSpec(marked("blocks.py", "loss"), gradients=True),
    )
    steps: tuple[tuple[ResumeMode, StepUnit], ...] = (
        *(("over", "op"), ("iteration", "line"), ("into", "op"), ("over", "line"), ("out", "op")),
        *(("continue", "op"), ("into", "line"), ("out", "line"), ("into", "op"), ("run", "op")),
    )
    async with sanitized.debugged("blocks.py", breakpoints=breakpoints) as run:
        await run.stop()
        for mode, unit in steps:
            await run.look()
            await run.go(mode, unit)
        await run.remove_breakpoints()
        await run.end()


@part
async def loops(sanitized: Sanitized, folder: Path) -> None:
    """A loop: by a type and a condition, to the next iteration, and what writes a variable."""
    breakpoints = (at("increment", condition="iteration == 3", temporary=True),)
    async with sanitized.debugged("counting.py", "--runs", "3", breakpoints=breakpoints) as run:
        await run.stop()
        for mode in ("iteration", "over", "into", "out", "run", "iteration"):
            await run.go(mode)
        watch = BreakpointSpec(DataWhere("fill_0.out", changed=True))
        await run.debugger.add_breakpoint(watch)
        for _ in range(4):
            assert (await run.go()).frames[0].after
        await run.remove_breakpoints()
        await run.end()


@part
async def values(sanitized: Sanitized, folder: Path) -> None:
    """Evaluations of all kinds, reading bytes, and edits that the next ops see."""
    case = ("chain", str(folder / "out.npz"))
    async with sanitized.debugged("editing.py", *case, breakpoints=(at("tanh"),)) as run:
        await run.stop()
        for text in ("X.mean()", "X[1:3, ::2] * 2", "isnan(X).any()", "X.shape", "step + 1"):
            await run.debugger.evaluate(run.thread, 0, text, max_elements=100)
        for target, value in (("X[2, 3]", "-1.5"), ("X", "X * 2 + x"), ("X[X > 1]", "-1")):
            await run.debugger.assign(run.thread, 0, target, value)
        data, size = await run.debugger.read_bytes(run.thread, 0, "X", 0, 1 << 20)
        assert len(data) == size == 80
        await run.go()
        await run.end()
    async with sanitized.debugged("kinds.py", breakpoints=(at("concat"),)) as run:
        await run.stop()
        await run.look()
        for name in ("brief", "half", "small", "byte", "i"):
            await run.debugger.evaluate(run.thread, 0, f"{name}.max()")
        await run.end()


@part
async def functions(sanitized: Sanitized, folder: Path) -> None:
    """Steps by the Python calls that made the ops, and the names that Python had there."""
    steps: tuple[ResumeMode, ...] = ("over", "into", "over", "out")
    for mode in ("compiled", "imperative", "to_graph"):
        line = BreakpointSpec(marked("names/tower.py", "first"), temporary=True)
        async with sanitized.debugged("names/tower.py", mode, breakpoints=(line,)) as run:
            await run.stop()
            for step in steps:
                await run.go(step, "line")
                await run.look()
                await run.debugger.evaluate(run.thread, 0, "x")
            await run.end()


@part
async def faults(sanitized: Sanitized, folder: Path) -> None:
    """The op that first makes a NaN."""
    async with sanitized.debugged("make_nan.py", faults=(FaultSpec("nan"),)) as run:
        stop = await run.stop()
        assert (stop.reason, top(stop)) == (pb.STOP_NAN, "log_0")
        await run.look()
        await run.debugger.set_faults([])
        await run.end()


# ---- logs and taps -------------------------------------------------------------------------------


@part
async def flood(sanitized: Sanitized, folder: Path) -> None:
    """More lines than the server takes: each arrives or is counted."""
    count = 20_000
    log = at("increment", log_message="{out} of {step}, {X.mean():.2f}")
    args = ("--count", str(count))
    async with sanitized.debugged("counting.py", *args, breakpoints=(log,)) as run:
        await run.end()
        seen = sum(each.thread is not None for each in run.logs)
        assert seen + sum(each.dropped for each in run.logs) == count


@part
async def taps(sanitized: Sanitized, folder: Path) -> None:
    """Statistics, histograms and whole tensors of training steps, beside a log point and a stop."""
    breakpoints = (at("relu", log_message="{out.max()}"), at("matmul", hit_condition="% 20"))
    async with sanitized.debugged(
        "taps/tapped.py", "60", breakpoints=breakpoints, taps=folder
    ) as run:
        await run.stop()
        await run.go()
        await run.remove_breakpoints()
        await run.end()
    assert records(folder)


# ---- coming and going ----------------------------------------------------------------------------


@part
async def attaching(sanitized: Sanitized, folder: Path) -> None:
    """A process in whose threads programs run, again and again, by its doorbell; also with taps."""
    until = folder / "until"
    async with sanitized.script("forever.py", "--until", str(until), "--threads", "2") as process:
        assert process.stdout is not None
        await asyncio.wait_for(process.stdout.readline(), SECONDS)
        for turn in range(4):
            run = Session(Debugger())
            executor = await run.debugger.attach_pid(process.pid)
            if turn % 2:
                await run.set_taps(folder)
            await run.debugger.add_breakpoint(at("tanh", condition="step > 0"))
            await run.stop()
            await run.go("over")
            await run.let_all_go()
            # All threads run again, so it stops at whatever one of them does next.
            await run.debugger.pause()
            await run.stop()
            if turn == 2:
                await run.debugger.detach(executor)  # While threads are stopped …
            else:
                await run.let_all_go()  # … and while they run.
            await run.debugger.close()
        until.touch()
        output, _ = await asyncio.wait_for(process.communicate(), SECONDS)
        assert process.returncode == 0 and b"done" in output, output


@part
async def threads(sanitized: Sanitized, folder: Path) -> None:
    """Two threads that run the same program: in turns, and both at once."""
    async with sanitized.debugged("two_threads.py", breakpoints=(at("relu"),)) as run:
        for _ in range(6):
            await run.stop()
            await run.look()
            await run.debugger.resume(run.thread, "continue")
        await run.end()
    until = folder / "until"
    words = ("--until", str(until), "--threads", "2")
    async with sanitized.debugged("forever.py", *words) as run:
        await run.debugger.add_breakpoint(at("tanh", condition="out.mean() > 0"))
        for _ in range(20):
            await run.stop()
            thread = next(each.id for each in run.debugger.threads if each.stopped is not None)
            await run.debugger.evaluate(thread, 0, "step")
            await run.debugger.resume(thread, "over", "op")
        until.touch()
        await run.let_all_go()
        assert await run.exit_code() == 0, run.output


@part
async def imperative(sanitized: Sanitized, folder: Path) -> None:
    """Ops that run line by line."""
    breakpoints = (BreakpointSpec(marked("line_by_line.py", "doubled")),)
    nan = (FaultSpec("nan"),)
    async with sanitized.debugged(
        "line_by_line.py", breakpoints=breakpoints, faults=nan, taps=folder
    ) as run:
        await run.stop()
        for mode in ("over", "into", "over", "out", "over"):
            await run.look()
            await run.go(mode, "line")
        await run.remove_breakpoints()
        assert (await run.go()).reason == pb.STOP_NAN
        await run.end()
    assert records(folder)


@part
async def readers(sanitized: Sanitized, folder: Path) -> None:
    """A loop over a reader that reads ahead on a thread; the body is planned when it runs."""
    breakpoints = (
        BreakpointSpec(marked("reader_loop.py", "hidden"), condition="iteration < 2"),
        at("tanh", log_message="{X.shape} {out.mean()}"),
    )
    async with sanitized.debugged("reader_loop.py", breakpoints=breakpoints, taps=folder) as run:
        await run.stop()
        for mode in ("over", "into", "iteration", "over", "out"):
            await run.look()
            await run.go(mode)
        await run.remove_breakpoints()
        await run.end()
        assert "digest" in run.output
    assert records(folder)


@part
async def interrupted(sanitized: Sanitized, folder: Path) -> None:
    """Ctrl-C in a long run, while a debugger is there."""
    async with sanitized.debugged("taps/one_long_run.py", str(folder / "never")) as run:
        await run.debugger.add_breakpoint(at("tanh", condition="iteration > 50", temporary=True))
        await run.stop()
        await run.debugger.resume(run.thread, "continue")
        run.debugger.signal(signal.SIGINT)
        code = await run.exit_code()
        assert code == -signal.SIGINT and "KeyboardInterrupt" in run.output, (code, run.output)


@part
async def killed(sanitized: Sanitized, folder: Path) -> None:
    """The server dies, with one thread stopped and another one running into its breakpoint."""
    until = folder / "until"
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, str(HERE / "session.py")), stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    try:
        address = (await server.stdout.readline()).decode().strip()
        words = ("forever.py", "--until", str(until), "--threads", "2")
        where = {"OPSTEP_SERVER": address, "OPSTEP_WAIT": "100"}
        async with sanitized.script(*words, **where) as process:
            assert await asyncio.wait_for(server.stdout.readline(), SECONDS) == b"stopped\n"
            server.kill()
            until.touch()
            output, _ = await asyncio.wait_for(process.communicate(), SECONDS)
            assert process.returncode == 0 and b"done" in output, output
    finally:
        with contextlib.suppress(ProcessLookupError):
            server.kill()
        await server.wait()


async def main(sanitized: Sanitized, names: list[str]) -> None:
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            await PARTS[name](sanitized, Path(folder))
        print(f"{name}: done", flush=True)
    print(f"scenario: {len(names)} parts passed", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("core")
    parser.add_argument("preload", help="libraries for LD_PRELOAD, with spaces between them")
    parser.add_argument("part", nargs="*", help=f"all if none is named: {', '.join(PARTS)}")
    options = parser.parse_args()
    asyncio.run(main(Sanitized(options.core, options.preload), options.part or list(PARTS)))
