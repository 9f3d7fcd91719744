"""Breakpoints that count, that look at what is written, and that the program itself asks for."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.debugged_script import PROGRAMS, debugged, iteration, marked, top
from harness.patience import wait_until
from opstep_server.connection import Connection
from opstep_server.hub import Hub
from opstep_server.model import BreakpointSpec, DataWhere, PatternWhere
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e


# ---- hit counts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        ("3", [(1, 2)]),
        ("!= 1", [(1, i) for i in (1, 2, 3)] + [(2, i) for i in range(4)]),
        ("% 3", [(1, 2), (2, 1)]),
        (">= 7", [(2, 2), (2, 3)]),
        ("< 2", [(1, 0)]),
    ],
)
def test_visits_of_an_op_in_a_loop_are_counted_over_all_runs(
    hits: str, expected: list[tuple[int, int]]
) -> None:
    # The second run has another shape, so another plan: the count goes on there.
    async def run() -> None:
        spec = BreakpointSpec(PatternWhere("increment"), hit_condition=hits)
        async with debugged(
            "counting.py", "--count", "4", "--runs", "2", breakpoints=[spec]
        ) as run:
            stop = await run.stop()
            for number, place in enumerate(expected):
                assert (top(stop), iteration(stop)) == ("increment_0", place)
                if number + 1 < len(expected):
                    stop = await run.go()
            await run.end()
            assert run.debugger.breakpoints[0].hits == len(expected)

    asyncio.run(run())


def test_a_visit_counts_when_the_condition_holds_and_a_line_once() -> None:
    async def run() -> None:
        specs = [
            BreakpointSpec(PatternWhere("increment"), condition="X > 4", hit_condition="3"),
            # Three ops were made on that line; it is visited once in an iteration.
            BreakpointSpec(marked("counting.py", "add"), hit_condition="5"),
            # … also when any of them may make the condition true.
            BreakpointSpec(
                marked("counting.py", "add"), condition="iteration > 2", hit_condition="6"
            ),
        ]
        async with debugged("counting.py", "--count", "10", breakpoints=specs) as run:
            line = await run.stop()
            assert (list(line.breakpoints), iteration(line)) == ([2], (1, 4))
            number = await run.go()
            assert (list(number.breakpoints), iteration(number)) == ([1], (1, 7))
            other = await run.go()
            assert (list(other.breakpoints), iteration(other)) == ([3], (1, 8))
            await run.end()

    asyncio.run(run())


def test_a_list_that_is_sent_again_keeps_the_counts_and_a_change_begins_anew() -> None:
    async def run() -> None:
        specs = [
            BreakpointSpec(PatternWhere("increment"), hit_condition="4"),
            BreakpointSpec(PatternWhere("increment"), condition="X == 1"),
        ]
        async with debugged("counting.py", "--count", "10", entry=True) as run:
            await run.stop()
            await run.debugger.replace_breakpoints("me", specs)
            assert iteration(await run.go()) == (1, 1)  # the condition
            await run.debugger.replace_breakpoints("me", specs[:1])
            assert iteration(await run.go()) == (1, 3)
            changed = BreakpointSpec(PatternWhere("increment"), hit_condition="3")
            await run.debugger.replace_breakpoints("me", [changed])
            # It stands before the op whose visit was counted for the old one.
            assert iteration(await run.go()) == (1, 6)
            await run.end()

    asyncio.run(run())


# ---- data breakpoints ----------------------------------------------------------------------------


def test_a_parameter_is_watched_in_all_programs() -> None:
    async def run() -> None:
        spec = BreakpointSpec(DataWhere("fc_0.w"))
        async with debugged("mlp.py", "--steps", "3", breakpoints=[spec]) as run:
            stop = await run.stop()
            assert stop.frames[0].program_name == "startup"
            assert stop.frames[0].after
            assert "wrote fc_0.w: nothing → mean" in stop.message
            for step in (1, 2, 3):
                stop = await run.go()
                assert (stop.reason, list(stop.breakpoints)) == (pb.STOP_BREAKPOINT, [1])
                assert (top(stop), stop.frames[0].step) == ("fc_0.w.sgd", step)
                assert stop.message.startswith("[sgd] wrote fc_0.w: mean ")
                old, new = stop.message.split(": ")[1].split(" → ")
                assert old != new
            state = run.debugger.breakpoints[0]
            assert (state.op_count, state.hits) == (2, 4)
            await run.end()

    asyncio.run(run())


def test_writes_in_a_block_count_once_and_a_change_is_a_change_of_bytes(tmp_path: Path) -> None:
    script = tmp_path / "writes.py"
    script.write_text(
        """
import numpy as np
import opstep
from opstep import layers

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[3])
    y = layers.assign(x)
    i = layers.fill([1], 0, "int64")
    running = layers.less_than(i, 4)
    loop = layers.While(running)
    with loop.block():
        # The first two iterations write what is there already.
        late = layers.cast(layers.greater_than(i, 1), "float32")
        layers.assign(layers.add(y, late), out=y)
        layers.increment(i)
        layers.less_than(i, 4, out=running)
    z = layers.add(y, 0.0)
exe = opstep.Executor()
exe.run(main, feed={"x": np.ones(3, np.float32)}, fetch_list=[z])
"""
    )

    async def run() -> None:
        async with debugged(script, entry=True) as run:
            await run.stop()
            name = next(
                op.outputs[0].name
                for op in await run.debugger.ops(run.debugger.programs[0])
                if op.name == "assign_0"
            )
            writes = [BreakpointSpec(DataWhere(name))]
            await run.debugger.replace_breakpoints("data", writes)
            stops = [await run.go(), await run.go()]
            assert [(top(s), iteration(s)[1]) for s in stops] == [("assign_0", 0), ("assign_1", 0)]
            assert stops[1].message == f"[assign] wrote {name}: mean 1 std 0 [1, 1], unchanged"
            changes = [BreakpointSpec(DataWhere(name, changed=True), condition="X.sum() > 3")]
            await run.debugger.replace_breakpoints("data", changes)
            for number in (2, 3):
                stop = await run.go()
                assert (top(stop), iteration(stop)[1]) == ("assign_1", number)
                old, new = f"mean {number - 1} std 0", f"mean {number} std 0"
                assert stop.message == (
                    f"[assign] wrote {name}: {old} [{number - 1}, {number - 1}] → "
                    f"{new} [{number}, {number}]"
                )
            await run.end()

    asyncio.run(run())


def test_a_data_breakpoint_that_cannot_bind_says_what_is_near() -> None:
    async def run() -> None:
        spec = BreakpointSpec(DataWhere("fc_0.ww"))
        async with debugged("mlp.py", "--steps", "1", breakpoints=[spec]) as run:
            await run.end()
            state = run.debugger.breakpoints[0]
            assert not state.verified
            assert state.message == "no op writes 'fc_0.ww'; nearest: fc_0.w"

    asyncio.run(run())


# ---- the program's own ---------------------------------------------------------------------------


def test_breakpoint_in_a_layer_stops_at_its_first_op_in_each_run() -> None:
    async def run() -> None:
        async with debugged("marked.py") as run:
            for step in (1, 2):
                stop = await (run.stop() if step == 1 else run.go())
                assert stop.reason == pb.STOP_CODE
                assert (top(stop), stop.frames[0].step, stop.frames[0].after) == (
                    "fc_0.matmul",
                    step,
                    False,
                )
            await run.end()
            assert run.output.count("loss") == 2

    asyncio.run(run())


def test_without_a_debugger_nothing_stops() -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPSTEP_")}
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "marked.py")], env=env, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.count("loss"), done.stderr) == (0, 2, "")


def test_a_line_whose_layer_has_only_been_initialised_says_so() -> None:
    async def run() -> None:
        line = marked("mlp.py", "hidden")
        breakpoints = [BreakpointSpec(line), BreakpointSpec(PatternWhere("fc_0.w.init"))]
        async with debugged("mlp.py", breakpoints=breakpoints) as run:
            assert top(await run.stop()) == "fc_0.w.init"
            pending = run.debugger.breakpoints[0]
            assert not pending.verified and pending.message == (
                f"only gradients and first values of parameters were made on mlp.py:{line.line} "
                "so far"
            )
            assert top(await run.go()) == "fc_0.matmul"
            assert run.debugger.breakpoints[0].verified

    asyncio.run(run())


def test_a_run_that_begins_before_the_server_answers_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = Hub.joined

    def late(hub: Hub, connection: Connection) -> pb.Welcome:
        # By then the script's main thread waits in its first run.
        state = Path(f"/proc/{connection.hello.pid}/stat")
        assert wait_until(lambda: state.read_text().rpartition(") ")[2].startswith("S"))
        return joined(hub, connection)

    async def run() -> None:
        monkeypatch.setattr(Hub, "joined", late)
        async with debugged(
            "make_nan.py", breakpoints=[BreakpointSpec(PatternWhere("log"))]
        ) as run:
            assert iteration(await run.stop()) == (1, 0)

    asyncio.run(run())
