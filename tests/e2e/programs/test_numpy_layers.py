"""A debugger at layers written in NumPy: they stop, step and are watched as any op."""

from __future__ import annotations

import asyncio

import pytest

from harness.debugged_script import debugged, marked, top
from opstep_server.model import BreakpointSpec, FaultSpec, PatternWhere

pytestmark = pytest.mark.e2e

SCRIPT = "numpy_layer.py"


def test_stops_before_forward_and_backward_in_both_modes() -> None:
    specs = [BreakpointSpec(PatternWhere(name)) for name in ("py_layer", "py_layer_grad")]

    async def main() -> None:
        async with debugged(SCRIPT, breakpoints=specs) as run:
            stopped = await run.stop()
            for marker, name in (("compiled", "root_0"), ("at_once", "root")):
                assert top(stopped) == name
                assert stopped.frames[0].op.stack[0].line == marked(SCRIPT, marker).line
                value = await run.debugger.evaluate(run.thread, 0, "X[0][0, 1]", max_elements=4)
                assert value.f == 9
                # The thread stands outside of Python; the layer's code runs in a step.
                stepped = await run.go("over", "op")
                assert top(stepped).startswith("mean")
                stopped = await run.go()
                assert top(stopped) == f"{name}.grad"
                value = await run.debugger.evaluate(run.thread, 0, "out[0][0, 1]", max_elements=4)
                assert value.f == 3
                if marker == "compiled":
                    stopped = await run.go()
            await run.end()
            lines = dict(line.split(" ", 1) for line in run.output.splitlines())
            assert lines["compiled"] == lines["at_once"]

    asyncio.run(main())


def test_nan_is_caught_at_the_layer() -> None:
    async def main() -> None:
        async with debugged(SCRIPT, "spoil", faults=[FaultSpec("nan")]) as run:
            stopped = await run.stop()
            assert top(stopped) == "root"
            assert stopped.frames[0].op.stack[0].line == marked(SCRIPT, "spoil").line
            await run.end()

    asyncio.run(main())
