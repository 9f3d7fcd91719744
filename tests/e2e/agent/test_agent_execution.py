"""Going on to the next iteration, to the end of the run, and into one block of several."""

from __future__ import annotations

import asyncio

import pytest

from harness.debugged_script import debugged, iteration, top
from opstep_server.model import BreakpointSpec, PatternWhere
from opstep_server.values import describe
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e


def test_to_the_next_iteration_and_behind_the_loop() -> None:
    async def run() -> None:
        spec = BreakpointSpec(PatternWhere("increment"), temporary=True)
        async with debugged("counting.py", "--count", "3", breakpoints=[spec]) as run:
            assert iteration(await run.stop()) == (1, 0)
            for number in (1, 2):
                stop = await run.go("iteration")
                assert stop.reason == pb.STOP_STEP
                assert (top(stop), iteration(stop)) == ("fill_2", (1, number))
            stop = await run.go("iteration")
            assert (top(stop), stop.frames[0].block) == ("reduce_sum_0", 0)
            await run.end()

    asyncio.run(run())


def test_to_the_end_of_the_run_and_then_the_next_one() -> None:
    async def run() -> None:
        spec = BreakpointSpec(PatternWhere("increment"), temporary=True)
        async with debugged("counting.py", "--runs", "3", breakpoints=[spec]) as run:
            await run.stop()
            stop = await run.go("run")
            assert (stop.reason, top(stop), stop.frames[0].after) == (
                pb.STOP_STEP,
                "reduce_sum_0",
                True,
            )
            value = await run.debugger.evaluate(run.thread, 0, "out", max_elements=1)
            assert describe(value) == "10"
            # There is nothing behind the end of the run but the next one.
            stop = await run.go("run")
            assert (top(stop), stop.frames[0].step, stop.frames[0].after) == ("x.feed", 2, False)
            stop = await run.go("run")
            assert (top(stop), stop.frames[0].step) == ("reduce_sum_0", 2)
            # Block 0 has no other iteration: the next run is one.
            stop = await run.go("iteration")
            assert (top(stop), stop.frames[0].step) == ("x.feed", 3)
            await run.end()

    asyncio.run(run())


@pytest.mark.parametrize("number", [0, 1])
def test_into_either_block_of_an_op_that_has_two(number: int) -> None:
    async def run() -> None:
        spec = BreakpointSpec(PatternWhere("ifelse_0"))
        async with debugged("blocks.py", breakpoints=[spec]) as run:
            stop = await run.stop()
            blocks = [block.block for block in stop.frames[0].op.blocks]
            assert len(blocks) == 2
            stop = await run.go("into", "op", blocks[number])
            assert (stop.reason, stop.frames[0].block) == (pb.STOP_STEP, blocks[number])
            await run.end()

    asyncio.run(run())
