"""What Python code calls variables, in expressions: which one is meant, and nothing is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.debugged_script import debugged
from opstep_server.model import BreakpointSpec, DebuggerError, PatternWhere
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e

SCRIPT = """
import gc, threading, weakref
import numpy as np
import opstep
from opstep import layers

main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[2])
    doubled = layers.add(x, x, name="doubled")
    # These names mean something else as well: a slot, a variable, a name of the place.
    X = layers.neg(x, name="other")
    step = layers.square(x, name="squared")
    globals()["doubled.out"] = X
    total = layers.reduce_sum(doubled)
test = main.clone(for_test=True)
with opstep.program_guard(opstep.Program("apart"), opstep.Program("startup2")):
    apart = layers.sqrt(layers.data("x", shape=[2]), name="apart")

class Big:
    pass

def run(program, steps):
    inner = doubled
    big = Big()
    alive = weakref.ref(big)
    feed = {"x": np.array([1, 2], np.float32)}
    exe.run(program, feed=feed, fetch_list=[total, X, step])
    del big
    print("alive" if alive() else "gone", flush=True)

exe = opstep.Executor()
exe.run(startup)
run(main, 1)
run(test, 1)
thread = threading.Thread(target=run, args=(main, 1))
thread.start()
thread.join()
"""


def test_which_variable_a_name_means(tmp_path: Path) -> None:
    script = tmp_path / "names.py"
    script.write_text(SCRIPT)
    sums = [BreakpointSpec(PatternWhere("reduce_sum"), condition="doubled.max() > 3")]

    async def main() -> None:
        async with debugged(script, breakpoints=sums) as run:

            async def value(text: str, frame: int = 0) -> pb.Value:
                return await run.debugger.evaluate(run.thread, frame, text, max_elements=4)

            async def first(text: str, frame: int = 0) -> float:
                return (await value(f"{text}[0]", frame)).f

            for number in range(3):  # The program, its copy for tests, and in another thread.
                if number == 0:
                    await run.stop()
                else:
                    await run.go()
                # The op, its caller, the run, and Python's own frame.
                kinds = [frame.kind for frame in run.frames]
                python = kinds.index(pb.StackFrame.PYTHON)
                assert await first("inner", python) == await first("doubled") == 2
                with pytest.raises(DebuggerError, match=r"^there is no variable 'inner' here"):
                    await value("inner")
                # The op's slot and the name of the place come before Python's.
                assert await first("X") == 2
                assert await first("doubled.out") == 2
                assert (await value("step")).i == (2 if number == 2 else 1)
                assert (await value("total.shape")).list == pb.ValueList()
                with pytest.raises(DebuggerError, match=r"^there is no variable 'steps' here"):
                    await value("steps")
                with pytest.raises(DebuggerError, match=r"^there is no variable 'apart' here"):
                    await value("apart")
                with pytest.raises(
                    DebuggerError, match=r"^Python's apart is the variable apart.out of another"
                ):
                    await value("apart", python)
                for frame, wanted in ((0, {"doubled"}), (python, {"doubled", "inner"})):
                    names = await run.debugger.names(run.thread, frame)
                    known = {name.name: name.variable for name in names.python}
                    assert {name for name in known if known[name] == "doubled.out"} == wanted
                    assert "big" not in known and "apart" not in known
            await run.end()
            # What the debugger looked at is not kept by the frames that it looked at.
            assert run.output == "gone\n" * 3

    asyncio.run(main())
