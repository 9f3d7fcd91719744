"""Parameters and losses are bit-identical whatever the debugger does."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from opstep_server.debugger import Debugger
from opstep_server.model import (
    BlockWhere,
    BreakpointSpec,
    DebuggerError,
    FaultSpec,
    LaunchTarget,
    Output,
    PatternWhere,
    ProcessExited,
    StoppedEvent,
)
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
STEPS = 2000


class Run:
    """The script under a Debugger: what it printed, where it stops, when it ends."""

    def __init__(self, debugger: Debugger) -> None:
        self.debugger = debugger
        self.output = ""
        self.stops: asyncio.Queue[StoppedEvent] = asyncio.Queue()
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        debugger.subscribe(self._event)

    def _event(self, event: object) -> None:
        if isinstance(event, Output):
            self.output += event.text
        elif isinstance(event, StoppedEvent):
            self.stops.put_nowait(event)
        elif isinstance(event, ProcessExited):
            self.ended.set_result(event.code)

    async def stop(self) -> StoppedEvent:
        get = asyncio.ensure_future(self.stops.get())
        await asyncio.wait([get, self.ended], return_when=asyncio.FIRST_COMPLETED)
        assert get.done(), f"the script ended too early: {self.output[-500:]}"
        return get.result()

    async def stop_or_end(self) -> StoppedEvent | None:
        get = asyncio.ensure_future(self.stops.get())
        await asyncio.wait([get, self.ended], return_when=asyncio.FIRST_COMPLETED)
        return get.result() if get.done() else None

    async def digest(self) -> str:
        assert await self.ended == 0, self.output
        while "\ndigest " not in f"\n{self.output}" or not self.output.endswith("\n"):
            await asyncio.sleep(0.01)
        return next(
            line.split()[1] for line in self.output.splitlines() if line.startswith("digest")
        )


# How each is run: short, but with some thousand ops at the least.
PROGRAMS = ROOT / "tests" / "programs"
SCRIPTS = {
    "digest": (PROGRAMS / "digest.py", "--steps", str(STEPS)),
    "digits_conv": (PROGRAMS / "digest_of.py", str(EXAMPLES / "digits_conv.py"), "3"),
    "digits_mlp": (PROGRAMS / "digest_of.py", str(EXAMPLES / "digits_mlp.py")),
    "digits_rnn": (PROGRAMS / "digest_of.py", str(EXAMPLES / "digits_rnn.py"), "3"),
    "find_the_nan": (PROGRAMS / "digest_of.py", str(EXAMPLES / "find_the_nan.py")),
    "gan": (PROGRAMS / "digest_of.py", str(EXAMPLES / "gan.py"), "100"),
    "kepler": (PROGRAMS / "digest_of.py", str(EXAMPLES / "kepler.py")),
    "line_by_line": (PROGRAMS / "digest_of.py", str(EXAMPLES / "line_by_line.py")),
    "linear_regression": (PROGRAMS / "digest_of.py", str(EXAMPLES / "linear_regression.py"), "20"),
    "loop": (PROGRAMS / "digest_of.py", str(EXAMPLES / "loop.py")),
    "reader_loop": (PROGRAMS / "reader_loop.py", "--passes", str(STEPS // 4)),
    "sequences": (PROGRAMS / "digest_of.py", str(EXAMPLES / "sequences.py"), "6"),
    "softmax_regression": (PROGRAMS / "digest_of.py", str(EXAMPLES / "softmax_regression.py"), "5"),
    # Loops as ops.
    "in_program/digits_conv": (
        PROGRAMS / "digest_of.py",
        str(EXAMPLES / "in_program" / "digits_conv.py"),
        "6",
    ),
    "in_program/gan": (
        PROGRAMS / "digest_of.py",
        str(EXAMPLES / "in_program" / "gan.py"),
        "60",
    ),
    "in_program/linear_regression": (
        PROGRAMS / "digest_of.py",
        str(EXAMPLES / "in_program" / "linear_regression.py"),
        "5",
    ),
    "in_program/sequences": (
        PROGRAMS / "digest_of.py",
        str(EXAMPLES / "in_program" / "sequences.py"),
        "6",
    ),
}
# Too slow for all of these: it is only watched.
WATCHED = {
    "both_modes/transformer": (
        PROGRAMS / "digest_of.py",
        str(EXAMPLES / "both_modes" / "transformer.py"),
        "2",
        "--imperative",
    ),
}


def test_no_example_is_forgotten() -> None:
    paths = [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("in_program/*.py")]
    names = {str(path.relative_to(EXAMPLES).with_suffix("")) for path in paths}
    assert names == set(SCRIPTS) - {"digest", "reader_loop"}


@pytest.fixture(scope="module", params=SCRIPTS)
def script(request: pytest.FixtureRequest) -> str:
    return request.param


@functools.cache
def undisturbed(script: str) -> str:
    command = [sys.executable, *map(str, (SCRIPTS | WATCHED)[script])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split()[1]


def digest_with(
    script: str, scenario: Callable[[Run], Awaitable[None]], *, entry: bool = False
) -> str:
    async def main() -> str:
        debugger = Debugger()
        await debugger.listen()
        try:
            run = Run(debugger)
            program, *args = (SCRIPTS | WATCHED)[script]
            target = LaunchTarget(str(program), args=tuple(args), python=sys.executable)
            await debugger.launch(target, stop_on_entry=entry)
            await scenario(run)
            return await run.digest()
        finally:
            await debugger.close()

    return asyncio.run(main())


def test_attached_and_idle(script: str) -> None:
    async def idle(run: Run) -> None:
        pass

    assert digest_with(script, idle) == undisturbed(script)


def test_a_transformer_line_by_line_attached_and_idle() -> None:
    async def idle(run: Run) -> None:
        pass

    script = "both_modes/transformer"
    assert digest_with(script, idle) == undisturbed(script)


def test_a_hundred_random_pauses(script: str) -> None:
    choose = random.Random(7)
    seen: set[tuple[int, str]] = set()
    paused = 0

    async def pauses(run: Run) -> None:
        nonlocal paused
        debugger, stop = run.debugger, await run.stop()  # entry, in the first program
        while paused < 100 and stop is not None:
            # To a random op of those that come, in a random iteration of a loop, ...
            program = next(
                p for p in debugger.programs if p.event.program == stop.stopped.frames[0].program
            )
            op = choose.choice(await debugger.ops(program)).name
            # or to what comes in each run, or in each iteration of a loop over a reader, ...
            # or in each step of one that runs line by line, where each op is a program, ...
            again = "matmul" if script == "line_by_line" else "*.feed"
            for place in (PatternWhere(op), PatternWhere(again), BlockWhere("reader_loop")):
                await debugger.add_breakpoint(BreakpointSpec(place, temporary=True))
            await debugger.resume(stop.thread.id, "continue")
            stop = await run.stop_or_end()
            for state in list(debugger.breakpoints):
                with contextlib.suppress(DebuggerError):  # another thread has just met it
                    await debugger.remove_breakpoint(state.id)
            if stop is None:
                break
            # ... and from there a pause, asked for first: the script must not end before it.
            await debugger.pause()
            await debugger.resume(stop.thread.id, "continue")
            stop = await run.stop_or_end()
            if stop is None:
                break
            paused += stop.stopped.reason == pb.STOP_PAUSE
            for _ in range(choose.randrange(3)):
                await debugger.resume(stop.thread.id, choose.choice(["over", "into"]), "op")
                stop = await run.stop_or_end()
                if stop is None:
                    return
            seen.add((len(stop.stopped.frames), stop.stopped.frames[0].op.name))
            for scope in (pb.SCOPE_INPUTS, pb.SCOPE_BLOCK, pb.SCOPE_PARAMETERS):
                await debugger.variables(stop.thread.id, 0, scope)
        # What a reader maps runs on its own thread, which a pause may have stopped too.
        while stop is not None:
            await debugger.resume(stop.thread.id, "continue")
            stop = await run.stop_or_end()

    assert digest_with(script, pauses, entry=True) == undisturbed(script)
    # One that is over soon leaves no room for a hundred.
    short = {"loop": (2, 1), "kepler": (5, 3), "find_the_nan": (30, 15), "line_by_line": (100, 5)}
    wanted = short.get(script, (100, 15))
    assert paused >= wanted[0]
    assert len(seen) > wanted[1], f"the pauses fell on too few different ops: {seen}"


def test_watching_every_op_for_nan_and_inf(script: str) -> None:
    async def watch(run: Run) -> None:
        stop = await run.stop()
        await run.debugger.set_faults([FaultSpec(k) for k in ("nan", "inf", "error")])
        while stop is not None:
            await run.debugger.resume(stop.thread.id, "continue")
            stop = await run.stop_or_end()

    assert digest_with(script, watch, entry=True) == undisturbed(script)


def test_fifty_conditions_that_never_hold(script: str) -> None:
    everywhere = ("step > 1000000", "step < 0", "step % 2 == 2", "iteration > 1000000", "not op")
    values = ("out.size < 0", "out.max() > 1e38", "out.min() < -1e38", "isinf(out).any()")
    values += ("norm(out) < 0",)
    specs = [
        BreakpointSpec(PatternWhere(pattern), condition)
        for patterns, conditions in (
            (("*", "grad:*", "fc_*", "*.feed", "mean_*"), everywhere),
            (("matmul", "add", "*.feed", "relu", "tanh"), values),
        )
        for pattern in patterns
        for condition in conditions
    ]

    async def conditions(run: Run) -> None:
        stop = await run.stop()
        for spec in specs:
            await run.debugger.add_breakpoint(spec)
        assert len(run.debugger.breakpoints) == 50
        await run.debugger.resume(stop.thread.id, "continue")
        stop = await run.stop_or_end()
        assert stop is None, stop.stopped.message

    assert digest_with(script, conditions, entry=True) == undisturbed(script)


def test_detached_in_the_middle(script: str) -> None:
    async def detach(run: Run) -> None:
        await run.stop()
        await run.debugger.resume(run.debugger.threads[0].id, "continue")
        await run.debugger.detach()

    assert digest_with(script, detach, entry=True) == undisturbed(script)
