"""A real session is recorded; its replay, without an executor, makes the debugger see the same."""

from __future__ import annotations

import asyncio
import stat
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from harness.patience import SECONDS
from harness.replayed_executor import ReplayedExecutor
from opstep_server import recording, values
from opstep_server.debugger import Debugger
from opstep_server.model import (
    BreakpointSpec,
    Event,
    ExecutorLost,
    FaultSpec,
    LaunchTarget,
    PatternWhere,
    StoppedEvent,
)
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e

Begin = Callable[[Debugger], Awaitable[None]]


async def _session(begin: Begin) -> list[str]:
    """Sets, stops, steps and looks; the result is all that a user would have seen."""
    debugger = Debugger()
    events: asyncio.Queue[Event] = asyncio.Queue()
    debugger.subscribe(events.put_nowait)
    await debugger.add_breakpoint(BreakpointSpec(PatternWhere("log"), condition="step == 2"))
    await debugger.set_faults([FaultSpec("nan")])
    seen: list[str] = []

    async def stop() -> int:
        while True:
            event = await asyncio.wait_for(events.get(), SECONDS)
            if isinstance(event, StoppedEvent):
                frames = event.stopped.frames
                reason = pb.StopReason.Name(event.stopped.reason)
                seen.append(f"{reason} {frames[0].op.name} {event.stopped.message}")
                inputs = await debugger.variables(event.thread.id, 0, pb.SCOPE_INPUTS)
                seen.extend(values.describe(each.value) for each in inputs.variables)
                return event.thread.id

    await begin(debugger)
    thread = await stop()
    seen.append(values.describe(await debugger.evaluate(thread, 0, "X * 2")))
    await debugger.resume(thread, "over", "op")
    await stop()
    await debugger.resume(thread, "continue")
    await stop()
    await debugger.set_faults([])
    await debugger.resume(thread, "continue")
    while not isinstance(await asyncio.wait_for(events.get(), SECONDS), ExecutorLost):
        pass
    await debugger.close()
    return seen


def test_a_replay_is_the_same_session(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "session.jsonl")

    async def launch(debugger: Debugger) -> None:
        target = LaunchTarget(str(programs / "make_nan.py"), python=sys.executable)
        await debugger.launch(target)

    monkeypatch.setenv("OPSTEP_RECORD", path)
    then = asyncio.run(_session(launch))
    monkeypatch.delenv("OPSTEP_RECORD")
    assert [line.split()[0] for line in then if line.startswith("STOP_")] == [
        "STOP_BREAKPOINT",
        "STOP_STEP",
        "STOP_NAN",
    ]
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    kinds = [entry.message.WhichOneof("message") for entry in recording.read(path)]
    assert kinds[:2] == ["hello", "welcome"] and kinds.count("stopped") == 3
    tasks: list[asyncio.Task[None]] = []

    async def replay(debugger: Debugger) -> None:
        executor = ReplayedExecutor(await debugger.listen(), path)
        tasks.append(asyncio.create_task(executor.play()))

    assert asyncio.run(_session(replay)) == then
    assert tasks[0].done() and tasks[0].exception() is None


def test_a_recording_that_cannot_be_written_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = recording.Recorder(str(tmp_path / "nowhere" / "file"))
    recorder.write(recorder.connection(), pb.FromExecutor(goodbye=pb.Goodbye()))
    assert "cannot record to" in capsys.readouterr().err
