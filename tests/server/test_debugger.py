"""The Debugger over the real wire, with executors whose answers the test writes down."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.scripted_executor import op, session
from opstep_server.debugger import (
    BreakpointChanged,
    BreakpointSpec,
    ContinuedEvent,
    DebuggerError,
    ExecutorLost,
    FaultSpec,
    ListingWhere,
    OpWhere,
    PatternWhere,
    ProgramCompiled,
    SourceWhere,
    StoppedEvent,
    ThreadEnded,
    ThreadStarted,
)
from opstep_server.wire import debug_pb2 as pb


def bind_matmul(command: pb.Command) -> dict[str, Any]:
    """Answers as an agent whose program has one op, of type matmul, made on line 10."""
    statuses = []
    for b in command.set_breakpoints.breakpoints:
        bound = b.pattern == "matmul" or b.line.line == 10
        status = pb.BreakpointStatus(id=b.id, verified=bound)
        if bound:
            status.op_count = 1
            status.first.CopyFrom(op())
        statuses.append(status)
    return {"breakpoints": pb.BreakpointStatuses(statuses=statuses)}


def test_breakpoints_set_before_an_executor_are_in_its_welcome():
    async def run() -> None:
        async with session() as s:
            specs = [
                BreakpointSpec(SourceWhere("/m/train.py", 12), gradients=True),
                BreakpointSpec(ListingWhere("main", 7), temporary=True),
                BreakpointSpec(PatternWhere("fc*"), condition="norm(out) > 100"),
                BreakpointSpec(OpWhere(1, 14)),
                BreakpointSpec(PatternWhere("off"), enabled=False),
            ]
            states = [await s.debugger.add_breakpoint(spec) for spec in specs]
            assert [state.verified for state in states] == [False] * 5
            assert [state.message for state in states] == [
                "no op was made on line 12 of train.py yet",
                "program 'main' has no op on line 7 yet",
                "no op matches 'fc*' yet",
                "program 1 has no op #14 yet",
                "disabled",
            ]
            await s.debugger.set_faults([FaultSpec("nan"), FaultSpec("error")])

            from harness.scripted_executor import ScriptedExecutor

            executor = ScriptedExecutor(s.address)
            welcome = await executor.connect()
            line, listing, pattern, ref = welcome.breakpoints.breakpoints
            assert (line.line.file, line.line.line, line.gradients) == ("/m/train.py", 12, True)
            assert (listing.listing.program_name, listing.listing.line) == ("main", 7)
            assert listing.temporary
            assert pattern.pattern == "fc*"
            assert pattern.condition.compare.first.call.function == "norm"
            assert pattern.condition_text == "norm(out) > 100"
            assert (ref.op.program, ref.op.op) == (1, 14)
            assert [f.kind for f in welcome.fault_filters.filters] == [pb.FAULT_NAN, pb.FAULT_ERROR]
            assert not welcome.stop_on_entry
            await executor.close()

    asyncio.run(run())


def test_a_breakpoint_is_verified_by_any_executor_and_pending_again_when_all_are_gone():
    async def run() -> None:
        async with session() as s:
            one, two = await s.join(pid=1), await s.join(pid=2)
            one.answers["set_breakpoints"] = bind_matmul
            state = await s.debugger.add_breakpoint(BreakpointSpec(PatternWhere("matmul")))
            assert (state.verified, state.op_count, state.message) == (True, 1, "")
            assert state.first is not None
            assert state.first.name == "fc_0.matmul"
            bound = pb.BreakpointStatus(id=state.id, verified=True, op_count=2)
            await two.send(breakpoint={"status": bound})
            await s.wait_for(BreakpointChanged, 2)
            assert state.op_count == 3
            await one.goodbye()
            await two.goodbye()
            await s.wait_for(ExecutorLost, 2)
            assert (state.verified, state.message) == (False, "no op matches 'matmul' yet")

    asyncio.run(run())


def test_replacing_keeps_equal_ones_and_tells_wrong_conditions():
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            executor.answers["set_breakpoints"] = bind_matmul
            a = BreakpointSpec(SourceWhere("/m/train.py", 10))
            b = BreakpointSpec(SourceWhere("/m/train.py", 11))
            wrong = BreakpointSpec(SourceWhere("/m/train.py", 12), condition="maxx(out)")
            first = await s.debugger.replace_breakpoints("source:/m/train.py", [a, b])
            other = await s.debugger.replace_breakpoints(
                "function", [BreakpointSpec(PatternWhere("matmul"))]
            )
            again = await s.debugger.replace_breakpoints("source:/m/train.py", [wrong, a])
            assert again[1].id == first[0].id
            assert again[1].verified
            assert not again[0].verified
            assert again[0].message == (
                "the condition cannot be used: there is no function 'maxx' (column 1): "
                "did you mean 'max'?"
            )
            sent = [b.id for b in executor.of("set_breakpoints")[-1].breakpoints]
            assert sorted(sent) == sorted([first[0].id, other[0].id])
            assert await s.debugger.replace_breakpoints("source:/m/train.py", []) == []
            assert [state.id for state in s.debugger.breakpoints] == [other[0].id]

    asyncio.run(run())


def test_update_and_remove():
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            executor.answers["set_breakpoints"] = bind_matmul
            state = await s.debugger.add_breakpoint(BreakpointSpec(PatternWhere("matmul")))
            with pytest.raises(DebuggerError, match="no function 'nope'"):
                await s.debugger.update_breakpoint(state.id, condition="nope(x)")
            assert state.spec.condition is None
            await s.debugger.update_breakpoint(state.id, condition="step > 3")
            assert executor.of("set_breakpoints")[-1].breakpoints[0].condition_text == "step > 3"
            await s.debugger.update_breakpoint(state.id, enabled=False)
            assert len(executor.of("set_breakpoints")[-1].breakpoints) == 0
            assert not state.verified
            await s.debugger.update_breakpoint(state.id, enabled=True)
            assert (state.verified, state.spec.condition) == (True, "step > 3")
            await s.debugger.remove_breakpoint(state.id)
            assert len(executor.of("set_breakpoints")[-1].breakpoints) == 0
            with pytest.raises(DebuggerError, match="there is no breakpoint 1"):
                await s.debugger.remove_breakpoint(state.id)
            with pytest.raises(DebuggerError, match="never closed"):
                await s.debugger.add_breakpoint(BreakpointSpec(PatternWhere("x"), condition="("))
            assert s.debugger.breakpoints == []

    asyncio.run(run())


def test_a_temporary_breakpoint_is_gone_after_its_stop():
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            other = await s.join(pid=2)
            spec = BreakpointSpec(PatternWhere("matmul"), temporary=True)
            state = await s.debugger.add_breakpoint(spec)
            await executor.stop_at(op(), breakpoints=[state.id])
            changed = await s.wait_for(BreakpointChanged)
            assert (changed.state.id, changed.removed, state.hits) == (state.id, True, 1)
            assert s.debugger.breakpoints == []
            while len(other.of("set_breakpoints")) < 2:
                await asyncio.sleep(0.01)
            assert len(other.of("set_breakpoints")[-1].breakpoints) == 0

    asyncio.run(run())


def test_stop_look_and_go_on():
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            await executor.send(thread=pb.ThreadEvent(thread=5, name="MainThread"))
            await executor.stop_at(op(), thread=5, stop=9)
            stopped: StoppedEvent = await s.wait_for(StoppedEvent)
            thread = stopped.thread
            assert (thread.id, thread.name, thread.wire_id) == (1, "MainThread", 5)
            assert thread.stopped is not None

            value = pb.Value(f=0.5)
            executor.answers["evaluate"] = lambda _: {"value": value}
            assert await s.debugger.evaluate(1, 0, "out.mean()", max_elements=3) == value
            asked = executor.of("evaluate")[-1]
            assert (asked.thread, asked.stop, asked.max_elements) == (5, 9, 3)
            assert asked.expr.call.function == "mean"

            variables = pb.Variables(variables=[pb.NamedValue(name="X", value=value)], total=1)
            executor.answers["get_variables"] = lambda _: {"variables": variables}
            assert await s.debugger.variables(1, 0, pb.SCOPE_INPUTS, 2, 3) == variables
            asked = executor.of("get_variables")[-1]
            assert (asked.scope, asked.start, asked.count) == (pb.SCOPE_INPUTS, 2, 3)

            executor.answers["evaluate"] = lambda _: {"error": "there is no variable 'y'"}
            with pytest.raises(DebuggerError, match="there is no variable 'y'"):
                await s.debugger.evaluate(1, 0, "y")

            await s.debugger.resume(1, "over", "op")
            asked = executor.of("resume")[-1]
            assert (asked.thread, asked.mode, asked.unit) == (5, pb.Resume.OVER, pb.Resume.OP)
            continued = await s.wait_for(ContinuedEvent)
            assert (continued.thread, continued.message) == (thread, "")
            assert thread.stopped is None
            with pytest.raises(DebuggerError, match=r"thread 1 \(MainThread\) is running"):
                await s.debugger.evaluate(1, 0, "out")
            with pytest.raises(DebuggerError, match="is running"):
                await s.debugger.resume(1, "continue")
            with pytest.raises(DebuggerError, match="there is no thread 9"):
                await s.debugger.resume(9, "continue")

    asyncio.run(run())


def test_the_stop_after_a_step_is_not_lost_when_it_is_faster_than_the_reply():
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            await executor.stop_at(op(14))
            thread = (await s.wait_for(StoppedEvent)).thread
            executor.silent = True
            step = asyncio.create_task(s.debugger.resume(1, "over", "op"))
            while not executor.of("resume"):
                await asyncio.sleep(0.01)
            id = executor.commands[-1].id
            # One burst, so that nothing of ours runs in between.
            await executor.send(continued=pb.Continued(thread=1))
            await executor.stop_at(op(15), stop=2)
            await executor.send(reply=pb.Reply(command=id, done=pb.Done()))
            await step
            kinds = [
                type(event)
                for event in s.events
                if isinstance(event, StoppedEvent | ContinuedEvent)
            ]
            assert kinds == [StoppedEvent, ContinuedEvent, StoppedEvent]
            assert thread.stopped is not None
            assert thread.stopped.frames[0].op.id == 15

    asyncio.run(run())


def test_an_executor_may_go_on_by_itself():
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            await executor.stop_at(op())
            await s.wait_for(StoppedEvent)
            message = "went on after 60 s"
            await executor.send(continued=pb.Continued(thread=1, by_itself=True, message=message))
            assert (await s.wait_for(ContinuedEvent)).message == message

    asyncio.run(run())


def test_threads_of_several_executors_have_their_own_numbers():
    async def run() -> None:
        async with session() as s:
            one, two = await s.join(pid=1), await s.join(pid=2)
            for executor in (one, two):
                await executor.send(thread=pb.ThreadEvent(thread=1, name="MainThread"))
            await s.wait_for(ThreadStarted, 2)
            assert [(t.id, t.wire_id) for t in s.debugger.threads] == [(1, 1), (2, 1)]
            second = next(t for t in s.debugger.threads if t.executor.pid == 2)
            await two.stop_at(op())
            await s.wait_for(StoppedEvent)
            await s.debugger.resume(second.id, "continue")
            assert len(two.of("resume")) == 1
            assert len(one.of("resume")) == 0
            await s.debugger.pause(second.id)
            assert (len(one.of("pause")), len(two.of("pause"))) == (0, 1)
            await s.debugger.pause()
            assert (len(one.of("pause")), len(two.of("pause"))) == (1, 2)
            await two.send(thread=pb.ThreadEvent(thread=1, ended=True))
            assert (await s.wait_for(ThreadEnded)).thread is second
            await one.close()
            await s.wait_for(ThreadEnded, 2)
            assert s.debugger.threads == []

    asyncio.run(run())


def test_ops_and_listing_are_paged_and_ops_are_kept_for_each_version():
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            all_ops = [op(id) for id in range(1, 2501)]
            lines = [f"line {n}" for n in range(1, 2301)]

            def list_ops(command: pb.Command) -> dict[str, Any]:
                start, count = command.list_ops.start, command.list_ops.count
                page = all_ops[start : start + count]
                return {"ops": pb.Ops(ops=page, total=len(all_ops))}

            def listing(command: pb.Command) -> dict[str, Any]:
                start, count = command.get_listing.start - 1, command.get_listing.count
                page = lines[start : start + count]
                return {"listing": pb.Listing(lines=page, total=len(lines))}

            executor.answers |= {"list_ops": list_ops, "get_listing": listing}
            event = pb.ProgramEvent(program=3, name="main", version=1, op_count=2500)
            await executor.send(program=event)
            await s.wait_for(ProgramCompiled)
            (program,) = s.debugger.programs
            assert [o.id for o in await s.debugger.ops(program)] == list(range(1, 2501))
            asked = len(executor.of("list_ops"))
            await s.debugger.ops(program)
            assert len(executor.of("list_ops")) == asked
            assert await s.debugger.listing(program) == lines

            all_ops = all_ops[:2]
            await executor.send(program=pb.ProgramEvent(program=3, name="main", version=2))
            await s.wait_for(ProgramCompiled, 2)
            (program,) = s.debugger.programs
            assert len(await s.debugger.ops(program)) == 2

    asyncio.run(run())


def test_losing_an_executor_while_a_command_is_pending_is_one_clear_error():
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            await executor.stop_at(op())
            await s.wait_for(StoppedEvent)
            executor.silent = True
            asked = asyncio.create_task(s.debugger.evaluate(1, 0, "x"))
            setting = asyncio.create_task(
                s.debugger.add_breakpoint(BreakpointSpec(PatternWhere("x")))
            )
            while len(executor.commands) < 2:
                await asyncio.sleep(0.01)
            await executor.close()
            with pytest.raises(DebuggerError, match="the connection to process 4242 was lost"):
                await asked
            # The breakpoint waits for the next executor.
            assert not (await setting).verified
            assert len(s.debugger.breakpoints) == 1

    asyncio.run(run())


def test_detach_tells_every_executor_and_does_not_wait_for_the_deaf(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("opstep_server.hub.DETACH_SECONDS", 0.2)

    async def run() -> None:
        async with session() as s:
            one, deaf = await s.join(pid=1), await s.join(pid=2)
            deaf.silent = True
            await s.debugger.detach()
            while not one.of("detach"):
                await asyncio.sleep(0.01)
            assert len(one.of("detach")) == 1

    asyncio.run(run())


def test_pause_with_nothing_running_is_an_error():
    async def run() -> None:
        async with session() as s:
            with pytest.raises(DebuggerError, match="nothing is running"):
                await s.debugger.pause()

    asyncio.run(run())
