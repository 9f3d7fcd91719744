"""What the parts of the scenario share: programs with a sanitized extension, debugged or not.

Run as a script it is a debug server in its own process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
# Instrumented code is slow; the limits are guards against a hang.
os.environ.setdefault("OPSTEP_TEST_PATIENCE", "5")

from harness.debugged_script import PROGRAMS, Run, marked as marked, top as top  # noqa: E402
from harness.patience import SECONDS  # noqa: E402
from opstep_server.debugger import Debugger  # noqa: E402
from opstep_server.model import (  # noqa: E402
    BreakpointSpec,
    FaultSpec,
    LaunchTarget,
    PatternWhere,
)
from opstep_server.taps.config import read  # noqa: E402
from opstep_server.wire import debug_pb2 as pb  # noqa: E402

TAPS = """\
[sinks.log]
kind = "jsonl"
path = "logs"

[[tap]]
name = "all"
ops = "*"
what = ["stats", "histogram"]

[[tap]]
name = "tensors"
ops = "relu"
what = ["full"]
every = 2

[[tap]]
name = "large"
ops = "matmul"
condition = "out.max() > 0"
inputs = true
"""


class Session(Run):
    async def look(self) -> None:
        """What an IDE asks for at each stop."""
        for scope in (pb.SCOPE_INPUTS, pb.SCOPE_OUTPUTS, pb.SCOPE_ATTRIBUTES, pb.SCOPE_BLOCK):
            await self.debugger.variables(self.thread, 0, scope)
        await self.debugger.names(self.thread, 0)

    async def set_taps(self, folder: Path) -> None:
        (folder / "taps.toml").write_text(TAPS)
        await self.debugger.set_taps(read(str(folder / "taps.toml")), who="scenario")

    async def remove_breakpoints(self) -> None:
        for state in list(self.debugger.breakpoints):
            await self.debugger.remove_breakpoint(state.id)

    async def let_all_go(self) -> None:
        """No breakpoint is left, and all stopped threads go on."""
        await self.remove_breakpoints()
        for thread in self.debugger.threads:
            if thread.stopped is not None:
                await self.debugger.resume(thread.id, "continue")

    async def exit_code(self) -> int:
        """Of the launched process; stops that are on their way do not keep it."""
        while isinstance(news := await asyncio.wait_for(self._news.get(), SECONDS), pb.Stopped):
            await self.let_all_go()
        return news


class Sanitized:
    """Starts programs with the instrumented extension."""

    def __init__(self, core: str, preload: str) -> None:
        self._core, self._env = core, {"LD_PRELOAD": preload}

    def words(self, program: str, *args: str) -> tuple[str, ...]:
        return (str(HERE / "with_core.py"), self._core, str(PROGRAMS / program), *args)

    @contextlib.asynccontextmanager
    async def debugged(
        self,
        program: str,
        *args: str,
        breakpoints: tuple[BreakpointSpec, ...] = (),
        faults: tuple[FaultSpec, ...] = (),
        taps: Path | None = None,
    ) -> AsyncIterator[Session]:
        run = Session(Debugger())
        for spec in breakpoints:
            await run.debugger.add_breakpoint(spec)
        assert not any(await run.debugger.set_faults(faults))
        if taps is not None:
            await run.set_taps(taps)
        script, *words = self.words(program, *args)
        try:
            await run.debugger.launch(LaunchTarget(script, tuple(words), env=self._env))
            yield run
        finally:
            await run.debugger.terminate()
            await run.debugger.close()

    @contextlib.asynccontextmanager
    async def script(
        self, program: str, *args: str, **env: str
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """A program that no debugger started."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *self.words(program, *args)),
            env={**os.environ, **self._env, **env},
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def at(pattern: str, **options: object) -> BreakpointSpec:
    return BreakpointSpec(PatternWhere(pattern), **options)  # type: ignore[arg-type]


def records(folder: Path) -> list[Path]:
    return [path for path in (folder / "logs").rglob("*") if path.is_file()]


async def serve() -> None:
    """A server with a breakpoint; prints its address, and "stopped" at its first stop."""
    run = Session(Debugger())
    await run.debugger.add_breakpoint(at("tanh"))
    print(await run.debugger.listen(), flush=True)
    await run.stop()
    print("stopped", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
