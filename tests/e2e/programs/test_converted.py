"""A debugger at a converted function: lines of the original, its loop and branch, a saved model."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from harness.debugged_script import PROGRAMS, debugged, iteration, marked, top
from harness.processes import OPSTEP
from opstep_server.model import BreakpointSpec
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e

SCRIPT = "converted.py"
LINES = "turns 3, 5.055770\nturns 3, -0.995599\n"


def lines(stopped: pb.Stopped) -> list[int]:
    return [frame.line for frame in stopped.frames[0].op.stack]


def at(marker: str) -> int:
    return marked(SCRIPT, marker).line


def test_a_breakpoint_in_the_loop_stops_in_each_turn() -> None:
    async def main() -> None:
        async with debugged(SCRIPT, breakpoints=[BreakpointSpec(marked(SCRIPT, "halve"))]) as run:
            largest = []
            for turn in range(6):  # three of each call
                stopped = await (run.go() if turn else run.stop())
                assert lines(stopped) == [at("halve"), at("call")]
                assert stopped.frames[0].op.stack[0].function == "settled"
                assert iteration(stopped) == (1 + turn // 3, turn % 3)
                what = "abs(while_0.x).max()"  # the name in the loop
                value = await run.debugger.evaluate(run.thread, 0, what, max_elements=4)
                largest.append(value.f)
            assert largest == [8, 4, 2] * 2
            await run.end()
            assert run.output == LINES

    asyncio.run(main())


def test_stepping_into_the_loop_and_the_branch() -> None:
    async def main() -> None:
        async with debugged(SCRIPT, breakpoints=[BreakpointSpec(marked(SCRIPT, "while"))]) as run:
            stopped = await run.stop()
            assert lines(stopped)[0] == at("while")
            while not top(stopped).startswith("while_0") or "." in top(stopped):
                stopped = await run.go("over", "op")
            stopped = await run.go("into", "op")
            assert len(stopped.frames) > 1 and lines(stopped)[0] == at("halve")
            for state in list(run.debugger.breakpoints):
                await run.debugger.remove_breakpoint(state.id)
            stopped = await run.go("out", "op")
            while not top(stopped).startswith("cond_0"):
                assert lines(stopped)[0] == at("if")
                stopped = await run.go("over", "op")
            stopped = await run.go("into", "op")
            assert lines(stopped)[0] == at("yes") and stopped.frames[0].op.type == "exp"
            await run.end()
            assert run.output == LINES

    asyncio.run(main())


def test_only_the_branch_that_runs_stops() -> None:
    specs = [BreakpointSpec(marked(SCRIPT, each)) for each in ("yes", "no")]

    async def main() -> None:
        async with debugged(SCRIPT, breakpoints=specs) as run:
            stopped = await run.stop()
            assert (lines(stopped)[0], iteration(stopped)[0]) == (at("yes"), 1)
            stopped = await run.go()
            assert (lines(stopped)[0], iteration(stopped)[0]) == (at("no"), 2)
            value = await run.debugger.evaluate(run.thread, 0, "X.sum()", max_elements=4)
            assert value.f == -1.25
            await run.end()

    asyncio.run(main())


def test_the_model_runs_elsewhere(tmp_path: Path) -> None:
    model, feed = tmp_path / "model", tmp_path / "x.npy"
    script = [sys.executable, str(PROGRAMS / SCRIPT), str(model)]
    assert subprocess.run(script, capture_output=True, text=True, check=True).stdout == LINES
    listing = subprocess.run(
        [*OPSTEP, "show", str(model)], capture_output=True, text=True, check=True
    ).stdout
    assert "= while(" in listing and f"converted.py:{at('halve')}" in listing
    np.save(feed, np.array([3, -1, 8], np.float32))
    command = [*OPSTEP, "run", str(model), "--feed", f"x={feed}", "--out", str(tmp_path / "out")]
    subprocess.run(command, capture_output=True, text=True, check=True)
    assert np.load(tmp_path / "out" / "out_0.npy").sum() == pytest.approx(5.055770)
    assert np.load(tmp_path / "out" / "out_1.npy") == 3
