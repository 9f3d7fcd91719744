"""Several users of one hub, with a scripted executor."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.patience import SECONDS, until_async as until
from harness.scripted_executor import ScriptedExecutor, op
from harness.shared_hub import shared
from opstep_server.debugger import (
    BreakpointSpec,
    Debugger,
    Event,
    FaultSpec,
    OpWhere,
    PatternWhere,
    StoppedEvent,
    ThreadStarted,
)
from opstep_server.hub import Hub


class User:
    def __init__(self, hub: Hub) -> None:
        self.debugger = Debugger(hub)
        self.events: list[Event] = []
        self.debugger.subscribe(self.events.append)
        self.debugger.replay()

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def test_executors_know_whether_somebody_is_there(tmp_path: Any) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            executor = ScriptedExecutor(address)
            assert not (await executor.connect()).present
            one = User(hub)
            await until(lambda: executor.of("set_presence"))
            two = User(hub)
            await one.debugger.close()
            assert [p.present for p in executor.of("set_presence")] == [True]
            await two.debugger.close()
            assert [p.present for p in executor.of("set_presence")] == [True, False]
            three = User(hub)
            late = ScriptedExecutor(address, pid=5)
            assert (await late.connect()).present
            await three.debugger.close()
            await executor.close()
            await late.close()

    asyncio.run(run())


def test_what_a_user_has_set_is_his_own_and_goes_with_him(tmp_path: Any) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            executor = ScriptedExecutor(address)
            await executor.connect()
            one, two = User(hub), User(hub)
            for user, pattern in ((one, "tanh"), (two, "matmul")):
                await user.debugger.replace_breakpoints(
                    "function", [BreakpointSpec(PatternWhere(pattern))]
                )
                await user.debugger.set_faults([FaultSpec("nan")])
            patterns = [b.pattern for b in executor.of("set_breakpoints")[-1].breakpoints]
            assert patterns == ["tanh", "matmul"]
            assert len(executor.of("set_fault_filters")[-1].filters) == 2
            assert [s.spec.where for s in one.debugger.breakpoints] == [PatternWhere("tanh")]
            await one.debugger.close()
            patterns = [b.pattern for b in executor.of("set_breakpoints")[-1].breakpoints]
            assert patterns == ["matmul"]
            assert len(executor.of("set_fault_filters")[-1].filters) == 1
            await two.debugger.close()
            await executor.close()

    asyncio.run(run())


def test_an_op_of_one_executor_is_none_of_another(tmp_path: Any) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            one, two = ScriptedExecutor(address, pid=1), ScriptedExecutor(address, pid=2)
            await one.connect()
            await two.connect()
            first, _ = hub.roster.executors
            user = User(hub)
            await user.debugger.replace_breakpoints(
                "instruction", [BreakpointSpec(OpWhere(1, 14, first.id))]
            )
            assert len(one.of("set_breakpoints")[-1].breakpoints) == 1
            assert len(two.of("set_breakpoints")[-1].breakpoints) == 0
            # Started again, it is the only one, and has them.
            await one.close()
            await two.close()
            await until(lambda: not hub.roster.executors)
            again = ScriptedExecutor(address, pid=3)
            assert len((await again.connect()).breakpoints.breakpoints) == 1
            await again.close()

    asyncio.run(run())


def test_everybody_sees_stops_also_those_of_before(tmp_path: Any) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            executor = ScriptedExecutor(address)
            await executor.connect()
            one = User(hub)
            await executor.stop_at(op())
            await until(lambda: one.of(StoppedEvent))
            two = User(hub)
            assert [e.thread for e in two.of(ThreadStarted)] == one.debugger.threads
            assert two.of(StoppedEvent) == one.of(StoppedEvent)
            await two.debugger.resume(one.debugger.threads[0].id, "continue")
            assert one.debugger.threads[0].stopped is None
            await executor.close()

    asyncio.run(run())


def test_one_that_comes_back_takes_its_own_place(tmp_path: Any) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            first, second = ScriptedExecutor(address), ScriptedExecutor(address)
            for executor in (first, second):
                executor._hello.identity = "the same"
            await first.connect()
            await second.connect()
            await until(lambda: len(hub.roster.executors) == 1)
            await first.close()
            await second.close()

    asyncio.run(run())


def test_a_deaf_executor_holds_nobody_back(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("opstep_server.hub.DETACH_SECONDS", 0.2)

    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            executor = ScriptedExecutor(address)
            await executor.connect()
            user = User(hub)
            await until(lambda: executor.of("set_presence"))
            executor.silent = True
            await asyncio.wait_for(user.debugger.close(), SECONDS)
            await executor.close()

    asyncio.run(run())
