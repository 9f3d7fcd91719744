"""Fault filters in real processes: which op is at fault, by which filter, and where."""

from __future__ import annotations

import asyncio

import pytest

from harness.debugged_script import debugged, top
from opstep_server.model import FaultsChanged, FaultSpec
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e


def test_overflow_stops_at_the_op_that_first_passes_the_limit() -> None:
    async def run() -> None:
        async with debugged("growing.py", faults=[FaultSpec("overflow")]) as run:
            stop = await run.stop()
            assert stop.reason == pb.STOP_OVERFLOW
            # 10^4 · 10 and 2·10^4 · 10 are beyond 65504, and their factors are not.
            assert (top(stop), stop.frames[0].step) == ("left/mul_0", 5)
            assert stop.fault.kind == pb.FAULT_OVERFLOW
            assert stop.fault.variable.name == "left/mul_0.out"
            assert list(stop.fault.variable.dims) == [2, 2]
            assert (stop.fault.count, list(stop.fault.index)) == (4, [0, 0])
            assert stop.message == (
                "[mul] made 4 elements beyond 65504 in left/mul_0.out (float32[2, 2]), "
                "first at [0, 0]"
            )
            assert top(await run.go()) == "right/mul_0"
            # The sum of those had it in its inputs; what comes next is fed.
            assert top(await run.go()) == "x.feed"
            await run.debugger.set_faults([])
            await run.end()

    asyncio.run(run())


def test_a_limit_a_pattern_and_a_condition() -> None:
    async def run() -> None:
        faults = [
            FaultSpec("overflow", ops="right/*", limit=150.0),
            FaultSpec("inf", ops="add", condition="step > 3"),
            FaultSpec("inf", ops="left/*", condition="step < 3"),
        ]
        async with debugged("growing.py", faults=faults) as run:
            stop = await run.stop()
            assert (top(stop), stop.frames[0].step) == ("right/mul_0", 2)
            assert (stop.fault.count, list(stop.fault.index)) == (1, [1, 1])
            assert stop.message.startswith("[mul] made 1 element beyond 150 in ")
            stop = await run.go()
            # The sum of two finite ones passes the largest float32 first.
            assert (stop.reason, top(stop)) == (pb.STOP_INF, "add_0")
            assert stop.fault.kind == pb.FAULT_INF
            await run.end()

    asyncio.run(run())


def test_a_nan_says_where_and_an_error_filter_takes_its_ops_only() -> None:
    async def run() -> None:
        async with debugged("make_nan.py", faults=[FaultSpec("nan")]) as run:
            stop = await run.stop()
            assert (stop.reason, stop.fault.kind) == (pb.STOP_NAN, pb.FAULT_NAN)
            assert (stop.fault.count, list(stop.fault.index)) == (1, [1])
            assert stop.fault.variable.name == "log_0.out"
        async with debugged("make_nan.py", faults=[FaultSpec("nan", ops="mul")]) as run:
            await run.end()  # mul got the NaN from its input

    asyncio.run(run())


def test_a_condition_that_fits_no_op_is_told_and_one_that_fails_stops() -> None:
    async def run() -> None:
        faults = [FaultSpec("nan", condition="nothing > 1"), FaultSpec("inf")]
        async with debugged("make_nan.py", faults=faults) as run:
            await run.end()
            problems = [event.problems for event in run.events if isinstance(event, FaultsChanged)]
            assert problems[-1][0].startswith("the condition 'nothing > 1' cannot be used: ")
            assert problems[-1][1] == ""
        async with debugged("make_nan.py", entry=True) as run:
            await run.stop()
            told = await run.debugger.set_faults(faults)
            assert told[0].startswith("the condition 'nothing > 1' cannot be used: ")
            assert told[1] == ""
            # The truth of a vector: the filter cannot say no.
            assert not any(await run.debugger.set_faults([FaultSpec("nan", condition="X > 0")]))
            stop = await run.go()
            assert stop.reason == pb.STOP_NAN
            assert "the condition of the filter failed" in stop.message
            assert await run.debugger.set_faults([FaultSpec("nan", limit=3.0)]) == [
                "a limit belongs to overflow, not to nan"
            ]
            await run.end()

    asyncio.run(run())


def test_an_op_is_not_blamed_for_what_the_program_put_there() -> None:
    async def run() -> None:
        async with debugged("tampered.py", faults=[FaultSpec("nan")]) as run:
            stop = await run.stop()
            assert (top(stop), stop.frames[0].step) == ("increment_0", 4)
            assert stop.message == (
                "[increment] made 1 NaN in total (float32[4]), first at [2], or code outside "
                "of the runs has put it there since the last run"
            )
            # It is known now, and nobody's fault.
            await run.end()

    asyncio.run(run())
