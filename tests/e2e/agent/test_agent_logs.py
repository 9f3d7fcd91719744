"""Log points in real processes: everything arrives, in order, or is counted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.debugged_script import debugged, marked
from opstep_server.model import BreakpointSpec, DataWhere, FaultSpec, PatternWhere
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e


# So many that the server cannot follow.
@pytest.mark.parametrize("count", [10_000, 400_000])
def test_lines_arrive_in_order_or_are_counted(count: int) -> None:
    async def run() -> None:
        spec = BreakpointSpec(PatternWhere("increment"), log_message="{out} of {step}")
        async with debugged("counting.py", "--count", str(count), breakpoints=[spec]) as run:
            await run.end()
            lines = [log for log in run.logs if log.thread is not None]
            dropped = sum(log.dropped for log in run.logs)
            assert len(lines) + dropped == count
            assert len(lines) >= 4_000
            numbers = [int(log.text.split()[0]) for log in lines]
            assert numbers == sorted(set(numbers))
            assert {log.text.split(" ", 1)[1] for log in lines} == {"of 1"}
            assert f"result {count:g}" in run.output
            assert {log.breakpoint for log in run.logs} == {1}
            assert run.debugger.breakpoints[0].hits == count

    asyncio.run(run())


def test_values_formats_conditions_and_what_cannot_be_had() -> None:
    async def run() -> None:
        specs = [
            BreakpointSpec(
                PatternWhere("add"),
                condition="iteration == 1",
                log_message="{{{X.mean():.3f}}} -> {out[0]:>6.2f}, {X} {op.type}",
            ),
            BreakpointSpec(PatternWhere("increment"), hit_condition="% 2", log_message="at {X}"),
            BreakpointSpec(marked("counting.py", "after"), log_message="{X[7]} and {nothing}"),
            BreakpointSpec(DataWhere("fill_0.out", changed=True), log_message="now {out[0]}"),
        ]
        async with debugged("counting.py", "--count", "4", breakpoints=specs) as run:
            await run.end()
            texts: dict[int, list[str]] = {}
            for log in run.logs:
                texts.setdefault(log.breakpoint, []).append(log.text)
            assert texts[1] == ["{1.000} ->   2.00, 1 add"]
            assert texts[2] == ["at 1", "at 3"]
            assert len(texts[3]) == 1
            assert texts[3][0].startswith("<")
            assert " and <" in texts[3][0]
            assert "nothing" in texts[3][0].split(" and ")[1]
            # The op that fills it with 0 first writes it too.
            assert texts[4] == ["now 0", "now 1", "now 2", "now 3", "now 4"]

    asyncio.run(run())


def test_what_was_logged_before_a_stop_is_read_before_it() -> None:
    async def run() -> None:
        specs = [
            BreakpointSpec(PatternWhere("add"), log_message="line {iteration}"),
            BreakpointSpec(PatternWhere("increment"), condition="iteration == 5"),
        ]
        async with debugged("counting.py", breakpoints=specs) as run:
            stop = await run.stop()
            assert stop.reason == pb.STOP_BREAKPOINT
            assert [log.text for log in run.logs] == [f"line {i}" for i in range(6)]
            # What is gone is no longer logged, what is new is.
            await run.debugger.remove_breakpoint(1)
            await run.end()
            assert len(run.logs) == 6

    asyncio.run(run())


def test_nothing_is_perturbed_by_looking_and_writing(tmp_path: Path) -> None:
    async def run() -> None:
        specs = [
            BreakpointSpec(PatternWhere("*"), log_message="{op.type} {step}"),
            BreakpointSpec(PatternWhere("matmul"), log_message="{out.mean()} {norm(X)}"),
            BreakpointSpec(DataWhere("fc_0.w", changed=True), hit_condition=">= 1000000"),
            BreakpointSpec(DataWhere("fc_1.b"), condition="step > 1000000"),
        ]
        faults = [FaultSpec("overflow", limit=1e30), FaultSpec("nan"), FaultSpec("inf")]
        results = []
        for on in (True, False):
            mark = tmp_path / str(on)
            async with debugged(
                "mlp.py",
                "--steps",
                "200",
                "--mark",
                str(mark),
                breakpoints=specs if on else [],
                faults=faults if on else [],
            ) as run:
                await run.end()
                assert bool(run.logs) is on
            results.append(mark.read_text())
        assert results[0] == results[1]

    asyncio.run(run())
