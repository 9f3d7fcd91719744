"""A terminal session with a process that was running already: leaving it lets it go on."""

from __future__ import annotations

import shlex

from opstep_server.cli.screen import Screen
from opstep_server.cli.session import Interrupted, Session
from opstep_server.debugger import (
    Debugger,
    DebuggerError,
    Event,
    Executor,
    ExecutorLost,
    LaunchTarget,
)


class AttachedSession(Session):
    leaves_running = True

    def __init__(self, debugger: Debugger, pid: int, screen: Screen, batch: bool) -> None:
        super().__init__(debugger, LaunchTarget(""), screen, batch)
        self._pid = pid
        self._executor: Executor | None = None

    async def attach(self) -> None:
        """Until the process is here; its script is then the one in view."""
        await self.send_catches()
        self._executor = await self.debugger.attach_pid(self._pid)
        argv = list(self._executor.hello.argv)
        self.target = LaunchTarget(argv[0] if argv else "")
        self._running = True
        self.screen.line(
            f"attached to process {self._pid} ({shlex.join(argv)}), which runs: "
            "'pause' stops it, 'quit' leaves it"
        )

    async def start(self) -> None:
        raise DebuggerError(f"process {self._pid} was running already: 'pause' stops it")

    async def close(self) -> None:
        self._running = False  # Not ours to end.
        await self.debugger.detach()
        await super().close()

    def _take(self, event: Event) -> None:
        if not isinstance(event, ExecutorLost):
            super()._take(event)
        elif event.executor is self._executor:
            if self._waiting:
                self._news.put_nowait(event)
            else:
                self._tell(event)

    def _tell(self, event: Event | Interrupted) -> None:
        if not isinstance(event, ExecutorLost):
            super()._tell(event)
            return
        self._running = False
        self._thread = None
        text = event.message or f"process {self._pid} has ended, or left the debugger"
        self.screen.line(text, "yellow")
