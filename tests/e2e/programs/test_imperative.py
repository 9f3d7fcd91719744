"""A debugger at a script in imperative mode: breakpoints, conditions, values, NaN, steps."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.debugged_script import debugged, marked, top
from opstep_server.model import BreakpointSpec, FaultSpec, PatternWhere
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e

SCRIPT = "line_by_line.py"


def line(stopped: pb.Stopped) -> int:
    return stopped.frames[0].op.stack[0].line


def test_an_op_type_stops_each_time() -> None:
    spec = BreakpointSpec(PatternWhere("mul"))

    async def main() -> None:
        async with debugged(SCRIPT, breakpoints=[spec]) as run:
            stopped = await run.stop()
            for number in range(3):
                if number:
                    stopped = await run.go()
                assert stopped.frames[0].op.type == "mul"
                assert line(stopped) == marked(SCRIPT, "doubled").line
                # The slot, and what Python calls the value.
                slot = await run.debugger.evaluate(run.thread, 0, "X[0, 0]", max_elements=4)
                named = await run.debugger.evaluate(run.thread, 0, "x[0, 0]", max_elements=4)
                assert slot.f == named.f != 0
            await run.end()
            assert "trained" in run.output

    asyncio.run(main())


def test_a_line_stops_with_its_values() -> None:
    async def main() -> None:
        async with debugged(SCRIPT, breakpoints=[BreakpointSpec(marked(SCRIPT, "root"))]) as run:
            stopped = await run.stop()
            assert top(stopped) == "sqrt"
            value = await run.debugger.evaluate(run.thread, 0, "negative[1]", max_elements=4)
            assert value.f == -1
            await run.end()
            assert "2.0" in run.output

    asyncio.run(main())


def test_an_op_of_a_layer_by_its_name_and_a_condition() -> None:
    where = PatternWhere("sequential/step_0.matmul")

    async def main() -> None:
        spec = BreakpointSpec(where, condition="out.max() > -100")
        async with debugged(SCRIPT, breakpoints=[spec]) as run:
            stopped = await run.stop()
            assert top(stopped) == "sequential/step_0.matmul"
            lines = [frame.line for frame in stopped.frames[0].op.stack]
            assert lines[0] == marked(SCRIPT, "model").line
            await run.go()
            await run.go()
            await run.end()

    asyncio.run(main())


def test_a_gradient_op_stops_on_the_line_of_its_forward_op() -> None:
    async def main() -> None:
        async with debugged(SCRIPT, breakpoints=[BreakpointSpec(PatternWhere("relu_grad"))]) as run:
            for number in range(3):
                stopped = await (run.go() if number else run.stop())
                assert line(stopped) == marked(SCRIPT, "model").line
            await run.end()

    asyncio.run(main())


def test_the_optimizer_stops_on_the_line_of_its_step() -> None:
    async def main() -> None:
        async with debugged(SCRIPT, breakpoints=[BreakpointSpec(PatternWhere("sgd"))]) as run:
            stopped = await run.stop()
            assert line(stopped) == marked(SCRIPT, "step").line
            value = await run.debugger.evaluate(run.thread, 0, "param.shape", max_elements=4)
            assert value is not None
            for _ in range(11):  # four parameters, three steps
                await run.go()
            await run.end()

    asyncio.run(main())


def test_nan_is_caught_where_it_comes_from() -> None:
    async def main() -> None:
        async with debugged(SCRIPT, faults=[FaultSpec("nan")]) as run:
            stopped = await run.stop()
            assert top(stopped) == "sqrt"
            assert line(stopped) == marked(SCRIPT, "root").line
            assert "trained" in run.output

    asyncio.run(main())


def test_steps_by_ops_and_by_lines() -> None:
    async def main() -> None:
        async with debugged(SCRIPT, breakpoints=[BreakpointSpec(marked(SCRIPT, "doubled"))]) as run:
            assert top(await run.stop()) == "mul"
            # The first call of a layer fills its parameters.
            assert top(await run.go("over", "op")) == "sequential/step_0.w.init"
            assert top(await run.go("over", "op")) == "sequential/step_0.b.init"
            assert top(await run.go("over", "op")) == "sequential/step_0.matmul"
            assert top(await run.go("continue")) == "mul"
            assert line(await run.go("over", "line")) == marked(SCRIPT, "model").line

    asyncio.run(main())


BREAKPOINT = """
import numpy as np
import opstep
from opstep import imperative, layers

with imperative.guard():
    x = imperative.to_variable(np.ones(3, np.float32))
    for number in range(3):
        if number == 1:
            opstep.debug.breakpoint()
        y = layers.exp(x * number)
    print("end", flush=True)
"""


def test_a_breakpoint_in_the_code_stops_the_next_op(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text(BREAKPOINT)

    async def main() -> None:
        async with debugged(script) as run:
            assert top(await run.stop()) == "mul"
            value = await run.debugger.evaluate(run.thread, 0, "Y", max_elements=4)
            assert value is not None
            await run.end()
            assert "end" in run.output

    asyncio.run(main())
