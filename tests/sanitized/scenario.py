"""One debugging session with an executor that was built with sanitizers: scenario.py CORE PRELOAD.

Breakpoints, steps, evaluations, log points and taps with a real process. The sanitizer
writes what it finds where its options say.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from opstep_server.debugger import Debugger
from opstep_server.model import (
    BreakpointSpec,
    Event,
    LaunchTarget,
    Logged,
    Output,
    PatternWhere,
    ProcessExited,
    StoppedEvent,
)
from opstep_server.taps.config import read

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "programs"
SECONDS = 300.0
TAPS = """\
[sinks.log]
kind = "jsonl"
path = "logs"

[[tap]]
ops = "add"
what = ["stats", "histogram"]
"""


class Run:
    def __init__(self, core: str, preload: str) -> None:
        self._core, self._preload = core, preload
        self.debugger = Debugger()
        self.logged = self.dropped = 0
        self.output = ""
        self._news: asyncio.Queue[StoppedEvent | int] = asyncio.Queue()
        self.debugger.subscribe(self._take)

    def _take(self, event: Event) -> None:
        if isinstance(event, StoppedEvent):
            self._news.put_nowait(event)
        elif isinstance(event, ProcessExited):
            self._news.put_nowait(event.code)
        elif isinstance(event, Logged):
            self.logged += not event.dropped
            self.dropped += event.dropped
        elif isinstance(event, Output):
            self.output += event.text

    async def launch(self, program: str, *args: str) -> None:
        target = LaunchTarget(
            str(HERE / "with_core.py"),
            (self._core, str(PROGRAMS / program), *args),
            env={"LD_PRELOAD": self._preload},
        )
        await self.debugger.launch(target)

    async def stop(self) -> StoppedEvent:
        news = await asyncio.wait_for(self._news.get(), SECONDS)
        assert isinstance(news, StoppedEvent), f"it ended with {news}: {self.output[-2000:]}"
        return news

    async def end(self) -> None:
        while isinstance(news := await asyncio.wait_for(self._news.get(), SECONDS), StoppedEvent):
            await self.debugger.resume(news.thread.id, "continue")
        assert news == 0, f"it ended with {news}: {self.output[-2000:]}"
        await self.debugger.close()


async def stepping(core: str, preload: str) -> None:
    run = Run(core, preload)
    debugger = run.debugger
    count = 3000
    log = BreakpointSpec(PatternWhere("increment"), log_message="{out} of {step}")
    await debugger.add_breakpoint(log)
    await debugger.add_breakpoint(BreakpointSpec(PatternWhere("add"), condition="iteration == 7"))
    with tempfile.TemporaryDirectory() as folder:
        taps = Path(folder) / "taps.toml"
        taps.write_text(TAPS)
        await debugger.set_taps(read(str(taps)), who="scenario", tell=lambda text: None)
        await run.launch("counting.py", "--count", str(count), "--runs", "2")
        for _ in range(2):
            stop = await run.stop()
            thread = stop.thread.id
            await debugger.evaluate(thread, 0, "X.mean()")
            for mode in ("over", "into", "over"):
                await debugger.resume(thread, mode)
                await run.stop()
            await debugger.resume(thread, "continue")
        await run.end()
    assert run.logged + run.dropped == 2 * count, (run.logged, run.dropped)


async def main(core: str, preload: str) -> None:
    await stepping(core, preload)
    print("the scenario has run")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
