"""Parameters and losses are bit-identical whatever the debugger does."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from opstep_server.debugger import Debugger
from opstep_server.model import (
    BreakpointSpec,
    FaultSpec,
    LaunchTarget,
    Output,
    PatternWhere,
    ProcessExited,
    StoppedEvent,
)
from opstep_server.wire import debug_pb2 as pb

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

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

    async def digest(self) -> str:
        assert await self.ended == 0, self.output
        await asyncio.sleep(0.1)
        return next(
            line.split()[1] for line in self.output.splitlines() if line.startswith("digest")
        )


def digest_with(
    script: Path, scenario: Callable[[Run], Awaitable[None]], *, entry: bool = False
) -> str:
    async def main() -> str:
        debugger = Debugger()
        await debugger.listen()
        try:
            run = Run(debugger)
            target = LaunchTarget(str(script), args=("--steps", str(STEPS)), python=sys.executable)
            await debugger.launch(target, stop_on_entry=entry)
            await scenario(run)
            return await run.digest()
        finally:
            await debugger.close()

    return asyncio.run(main())


@pytest.fixture(scope="module")
def script() -> Path:
    return Path(__file__).resolve().parents[1] / "programs" / "digest.py"


@pytest.fixture(scope="module")
def undisturbed(script: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(script), "--steps", str(STEPS)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()[1]


def test_attached_and_idle(script: Path, undisturbed: str) -> None:
    async def idle(run: Run) -> None:
        pass

    assert digest_with(script, idle) == undisturbed


def test_a_hundred_random_pauses(script: Path, undisturbed: str) -> None:
    choose = random.Random(7)
    seen: set[tuple[int, str]] = set()

    paused = 0

    async def pauses(run: Run) -> None:
        nonlocal paused
        debugger, stop = run.debugger, await run.stop()  # entry, in the startup program
        thread = stop.thread.id
        await debugger.add_breakpoint(BreakpointSpec(PatternWhere("x.feed"), temporary=True))
        await debugger.resume(thread, "continue")
        stop = await run.stop()
        main = next(program for program in debugger.programs if program.event.name == "main")
        names = [op.name for op in await debugger.ops(main)]
        for _ in range(100):
            # To a random op of one of the next runs, in a random iteration of the loop, ...
            step = next(frame.step for frame in stop.stopped.frames if frame.kind == frame.RUN)
            condition = f"step >= {step + choose.randrange(1, 4)}"
            spec = BreakpointSpec(PatternWhere(choose.choice(names)), condition, temporary=True)
            await debugger.add_breakpoint(spec)
            await debugger.resume(thread, "continue")
            await run.stop()
            # ... and from there a pause. Together: the script must not get to its end in between.
            await asyncio.gather(debugger.resume(thread, "continue"), debugger.pause(thread))
            stop = await run.stop()
            paused += stop.stopped.reason == pb.STOP_PAUSE
            for _ in range(choose.randrange(3)):
                await debugger.resume(thread, choose.choice(["over", "into"]), "op")
                stop = await run.stop()
            seen.add((len(stop.stopped.frames), stop.stopped.frames[0].op.name))
            for scope in (pb.SCOPE_INPUTS, pb.SCOPE_BLOCK, pb.SCOPE_PARAMETERS):
                await debugger.variables(thread, 0, scope)
        await debugger.resume(thread, "continue")

    assert digest_with(script, pauses, entry=True) == undisturbed
    assert paused == 100
    assert len(seen) > 20, f"the pauses fell on too few different ops to mean something: {seen}"


def test_watching_every_op_for_nan_and_inf(script: Path, undisturbed: str) -> None:
    async def watch(run: Run) -> None:
        await run.stop()
        await run.debugger.set_exceptions([FaultSpec(k) for k in ("nan", "inf", "error")])
        await run.debugger.resume(run.debugger.threads[0].id, "continue")

    assert digest_with(script, watch, entry=True) == undisturbed


def test_conditions_that_never_hold(script: Path, undisturbed: str) -> None:
    async def conditions(run: Run) -> None:
        stop = await run.stop()
        for pattern in ("matmul", "add", "tanh", "sgd", "fc_*", "grad:*"):
            await run.debugger.add_breakpoint(
                BreakpointSpec(PatternWhere(pattern), condition="step > 1000000")
            )
        await run.debugger.resume(stop.thread.id, "continue")

    assert digest_with(script, conditions, entry=True) == undisturbed


def test_detached_in_the_middle(script: Path, undisturbed: str) -> None:
    async def detach(run: Run) -> None:
        await run.stop()
        await run.debugger.resume(run.debugger.threads[0].id, "continue")
        await asyncio.sleep(0.05)
        await run.debugger.detach()

    assert digest_with(script, detach, entry=True) == undisturbed
