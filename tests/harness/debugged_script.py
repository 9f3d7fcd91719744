"""A script of tests/programs in another process under a Debugger."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from harness import PROGRAMS
from harness.markers import line_of
from harness.patience import SECONDS
from opstep_server.debugger import Debugger
from opstep_server.model import (
    BreakpointSpec,
    Event,
    FaultSpec,
    LaunchTarget,
    Logged,
    Output,
    ProcessExited,
    ResumeMode,
    SourceWhere,
    StepUnit,
    StoppedEvent,
)
from opstep_server.wire import debug_pb2 as pb


class Run:
    """The script's output and logs, its stops and its end."""

    def __init__(self, debugger: Debugger) -> None:
        self.debugger = debugger
        self.output = ""
        self.logs: list[Logged] = []
        self.events: list[Event] = []
        self.thread = 0
        # The last stop.
        self.frames: Sequence[pb.StackFrame] = ()
        self._news: asyncio.Queue[pb.Stopped | int] = asyncio.Queue()
        debugger.subscribe(self._take)

    def _take(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Output):
            self.output += event.text
        elif isinstance(event, Logged):
            self.logs.append(event)
        elif isinstance(event, StoppedEvent):
            self.thread = event.thread.id
            self.frames = event.stopped.frames
            self._news.put_nowait(event.stopped)
        elif isinstance(event, ProcessExited):
            self._news.put_nowait(event.code)

    async def stop(self) -> pb.Stopped:
        news = await asyncio.wait_for(self._news.get(), SECONDS)
        assert isinstance(news, pb.Stopped), f"it ended with {news}: {self.output[-500:]}"
        return news

    async def go(
        self, mode: ResumeMode = "continue", unit: StepUnit = "op", block: int = 0
    ) -> pb.Stopped:
        """Runs to the next stop."""
        await self.debugger.resume(self.thread, mode, unit, block)
        return await self.stop()

    async def end(self) -> None:
        """Runs to a successful end without another stop."""
        if any(thread.stopped is not None for thread in self.debugger.threads):
            await self.debugger.resume(self.thread, "continue")
        news = await asyncio.wait_for(self._news.get(), SECONDS)
        assert news == 0, f"{news} {self.output[-500:]}"


@contextlib.asynccontextmanager
async def debugged(
    script: str | Path,
    *args: str,
    breakpoints: Sequence[BreakpointSpec] = (),
    faults: Sequence[FaultSpec] = (),
    entry: bool = False,
) -> AsyncIterator[Run]:
    debugger = Debugger()
    run = Run(debugger)
    for spec in breakpoints:
        await debugger.add_breakpoint(spec)
    assert not any(await debugger.set_faults(faults))
    target = LaunchTarget(str(PROGRAMS / script), args=args)
    try:
        await debugger.launch(target, stop_on_entry=entry)
        yield run
    finally:
        await debugger.terminate()
        await debugger.close()


def marked(script: str, marker: str) -> SourceWhere:
    """The line of the script that ends with `# @marker`."""
    path = PROGRAMS / script
    return SourceWhere(str(path), line_of(path, marker))


def top(stopped: pb.Stopped) -> str:
    return stopped.frames[0].op.name


def iteration(stopped: pb.Stopped) -> tuple[int, int]:
    """The run, and the iteration of the innermost block."""
    return stopped.frames[0].step, stopped.frames[0].iteration
