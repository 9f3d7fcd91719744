"""A debugger that stops tests/programs/editing.py, for the tests of editing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from harness.patience import SECONDS
from opstep_server.debugger import Debugger
from opstep_server.model import (
    BreakpointSpec,
    Event,
    LaunchTarget,
    Output,
    PatternWhere,
    ProcessExited,
    StoppedEvent,
    Thread,
)
from opstep_server.wire import debug_pb2 as pb, program_pb2

SCRIPT = Path(__file__).resolve().parents[1] / "programs" / "editing.py"
T = TypeVar("T")


class Stop:
    """The script at its first stop."""

    def __init__(self, debugger: Debugger, folder: Path) -> None:
        self.debugger = debugger
        self.thread: Thread
        self.output = ""
        self._results = folder / "results.npz"
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        debugger.subscribe(self._events.put_nowait)

    async def begin(self, case: str, pattern: str, condition: str | None, gradients: bool) -> None:
        spec = BreakpointSpec(PatternWhere(pattern), condition=condition, gradients=gradients)
        self._breakpoint = await self.debugger.add_breakpoint(spec)
        target = LaunchTarget(str(SCRIPT), args=(case, str(self._results)))
        await self.debugger.launch(target)
        await self.next()

    async def next(self) -> pb.Stopped:
        """Waits for the stop."""
        event = await self._event(StoppedEvent)
        self.thread = event.thread
        return event.stopped

    async def go_on(self) -> pb.Stopped:
        await self.debugger.resume(self.thread.id, "continue")
        return await self.next()

    async def assign(self, target: str, value: str, frame: int = 0) -> pb.Value:
        return await self.debugger.assign(self.thread.id, frame, target, value)

    async def value(self, text: str, frame: int = 0) -> np.ndarray:
        """The whole value, read as bytes."""
        value = await self.debugger.evaluate(self.thread.id, frame, text)
        assert value.WhichOneof("kind") == "tensor", value
        dtype = program_pb2.DataType.Name(value.tensor.dtype).lower()
        data, _ = await self.debugger.read_bytes(self.thread.id, frame, text, 0, 1 << 40)
        if dtype == "bfloat16":
            dtype = "uint16"
        return np.frombuffer(data, dtype).reshape(tuple(value.tensor.dims))

    async def finish(self) -> Any:
        """Goes on to the end without a further stop; returns the values that the script saved."""
        await self.debugger.remove_breakpoint(self._breakpoint.id)
        await self.debugger.resume(self.thread.id, "continue")
        exited = await self._event(ProcessExited)
        assert exited.code == 0, self.output
        return np.load(self._results)

    async def _event(self, kind: type[T]) -> T:
        async def wanted() -> T:
            while True:
                event = await self._events.get()
                if isinstance(event, Output):
                    self.output += event.text
                if isinstance(event, kind):
                    return event
                assert not isinstance(event, ProcessExited), self.output

        return await asyncio.wait_for(wanted(), SECONDS)


@contextlib.asynccontextmanager
async def stopped(
    folder: Path,
    case: str,
    pattern: str,
    condition: str | None = None,
    gradients: bool = False,
) -> AsyncIterator[Stop]:
    debugger = Debugger()
    stop = Stop(debugger, folder)
    try:
        await stop.begin(case, pattern, condition, gradients)
        yield stop
    finally:
        await debugger.terminate()
        await debugger.close()
