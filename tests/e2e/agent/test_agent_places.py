"""Blocks, ops of no particular program and first lines of loops; and going on to a place."""

from __future__ import annotations

import asyncio

import pytest

from harness.debugged_script import PROGRAMS, debugged, iteration, marked, top
from opstep_server.model import (
    BlockWhere,
    BreakpointSpec,
    DataWhere,
    DebuggerError,
    ListingWhere,
    OpWhere,
    PatternWhere,
    SourceWhere,
    Where,
)
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e


def line_with(script: str, text: str) -> SourceWhere:
    path = PROGRAMS / script
    (line,) = [n for n, each in enumerate(path.read_text().splitlines(), 1) if text in each]
    return SourceWhere(str(path), line)


# ---- blocks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "block", "expected"),
    [
        ("loop.py", "while_0", [("add_0", run, i) for run in (1, 2) for i in range(5)]),
        ("loop.py", "1", [("add_0", run, i) for run in (1, 2) for i in range(5)]),
        ("branch.py", "cond_0", [("add_0", 1, 0), ("neg_0", 2, 0)]),
        ("branch.py", "cond_0.true_*", [("add_0", 1, 0)]),
        ("branch.py", "cond_0.false_block", [("neg_0", 2, 0)]),
        # What only saves values for the gradient comes before the first op that people know of.
        ("blocks.py", "recurrent_0", [("mul_0", 1, 0), ("mul_0", 1, 1)]),
        ("blocks.py", "ifelse", [("sqrt_0", 1, 0), ("neg_0", 1, 0), ("neg_0.grad", 1, 0),
                                 ("sqrt_0.out.restore", 1, 0)]),
    ],
)  # fmt: skip
def test_a_block_stops_at_each_of_its_entries(
    script: str, block: str, expected: list[tuple[str, int, int]]
) -> None:
    async def body() -> None:
        async with debugged(script, breakpoints=[BreakpointSpec(BlockWhere(block))]) as run:
            stops = [await run.stop()]
            while len(stops) < len(expected):
                stops.append(await run.go())
            assert sorted((top(stop), *iteration(stop)) for stop in stops) == sorted(expected)
            await run.end()

    asyncio.run(body())


def test_a_block_that_nobody_runs_is_told_with_the_ops_that_do() -> None:
    async def body() -> None:
        specs = [BreakpointSpec(BlockWhere("whale_0")), BreakpointSpec(PatternWhere("fill_3"))]
        async with debugged("loop.py", breakpoints=specs) as run:
            await run.stop()
            state = run.debugger.breakpoints[0]
            assert not state.verified
            assert state.message == (
                "no block matches 'block:whale_0'; ops that run blocks: while_0"
            )

    asyncio.run(body())


# ---- what is bound to which program and line -----------------------------------------------------


@pytest.mark.parametrize("where", [OpWhere(0, 3), ListingWhere("", 4)])
def test_what_names_no_program_is_bound_to_the_one_that_computes(where: Where) -> None:
    # The startup program runs before and has such an op too.
    async def body() -> None:
        async with debugged("mlp.py", breakpoints=[BreakpointSpec(where)]) as run:
            assert top(await run.stop()) == "fc_0.matmul"
            (state,) = run.debugger.breakpoints
            assert (state.op_count, state.message) == (1, "bound to program 'main'")

    asyncio.run(body())


def test_the_first_line_of_a_loop_stops_where_its_block_stands() -> None:
    async def body() -> None:
        specs = [
            BreakpointSpec(line_with("loop.py", "layers.While(running)")),
            BreakpointSpec(line_with("loop.py", "with opstep.program_guard")),
        ]
        async with debugged("loop.py", breakpoints=specs) as run:
            for _ in range(2):
                stop = await run.stop() if not run.thread else await run.go()
                assert (top(stop), list(stop.breakpoints)) == ("while_0", [1])
            first, second = run.debugger.breakpoints
            line = line_with("loop.py", "with loop.block()").line
            assert first.message == (
                f"moved to line {line}, where the op that runs the block was made"
            )
            assert not second.verified
            # Sent again it stays where it is.
            await run.debugger.remove_breakpoint(second.id)
            assert (first.verified, first.op_count) == (True, 1)
            await run.end()

    asyncio.run(body())


def test_a_watch_that_is_set_before_the_op_that_writes_sees_it() -> None:
    async def body() -> None:
        spec = BreakpointSpec(PatternWhere("fc_0.w.sgd"), temporary=True)
        async with debugged("mlp.py", "--steps", "1", breakpoints=[spec]) as run:
            await run.stop()
            await run.debugger.add_breakpoint(BreakpointSpec(DataWhere("fc_0.w")))
            stop = await run.go()
            assert (top(stop), stop.frames[0].after) == ("fc_0.w.sgd", True)

    asyncio.run(body())


# ---- going on to a place -------------------------------------------------------------------------


def test_a_thread_goes_on_to_a_place_as_by_a_step() -> None:
    async def body() -> None:
        async with debugged("loop.py", entry=True) as run:
            await run.stop()
            aim = BreakpointSpec(PatternWhere("increment"), condition="iteration == 2")
            await run.debugger.resume(run.thread, "continue", until=[aim])
            stop = await run.stop()
            assert (top(stop), iteration(stop)) == ("increment_0", (1, 2))
            assert (stop.reason, list(stop.breakpoints)) == (pb.STOP_STEP, [])
            # It is gone, and never was one of the user's own.
            assert run.debugger.breakpoints == []
            assert (
                await run.debugger.add_breakpoint(BreakpointSpec(marked("loop.py", "after")))
            ).id == 1
            assert list((await run.go()).breakpoints) == [1]

    asyncio.run(body())


def test_what_stops_before_the_place_ends_it_too() -> None:
    async def body() -> None:
        specs = [BreakpointSpec(marked("loop.py", "double"))]
        async with debugged("loop.py", breakpoints=specs, entry=True) as run:
            await run.stop()
            aim = BreakpointSpec(marked("loop.py", "keep"))
            await run.debugger.resume(run.thread, "continue", until=[aim])
            assert list((await run.stop()).breakpoints) == [1]
            # The place is forgotten: the next stop is another visit of the breakpoint.
            stop = await run.go()
            assert (list(stop.breakpoints), iteration(stop)) == ([1], (1, 1))
            # Both at once are the breakpoint's.
            await run.debugger.resume(run.thread, "continue", until=specs)
            stop = await run.stop()
            assert (stop.reason, list(stop.breakpoints)) == (pb.STOP_BREAKPOINT, [1])

    asyncio.run(body())


def test_a_place_without_ops_is_refused_and_the_thread_stays() -> None:
    async def body() -> None:
        async with debugged("loop.py", entry=True) as run:
            await run.stop()
            with pytest.raises(DebuggerError, match="no op matches 'nothing'"):
                await run.debugger.resume(
                    run.thread, "continue", until=[BreakpointSpec(PatternWhere("nothing"))]
                )
            assert run.debugger.threads[0].stopped is not None
            assert top(await run.go("over")) == "assign_0"

    asyncio.run(body())


def test_a_place_behind_the_end_of_the_run_is_not_waited_for() -> None:
    async def body() -> None:
        specs = [BreakpointSpec(marked("loop.py", "after"), temporary=True)]
        async with debugged("loop.py", breakpoints=specs) as run:
            await run.stop()
            await run.debugger.resume(
                run.thread, "run", until=[BreakpointSpec(marked("loop.py", "double"))]
            )
            stop = await run.stop()
            assert (top(stop), stop.frames[0].after, stop.frames[0].step) == ("add_1", True, 1)
            await run.end()

    asyncio.run(body())
