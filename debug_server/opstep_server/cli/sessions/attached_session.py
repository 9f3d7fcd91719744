"""Terminal sessions with processes that were running already and keep running."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal

from opstep_server import script_process
from opstep_server.cli.output import descriptions
from opstep_server.cli.output.screen import Screen
from opstep_server.cli.sessions.terminal_session import Interrupted, TerminalSession
from opstep_server.debugger import (
    Debugger,
    DebuggerError,
    Event,
    ExecutorLost,
    ExecutorMoved,
    ExecutorProcess,
    LaunchTarget,
    ProgramCompiled,
)
from opstep_server.wire import debug_pb2 as pb

# A process reports a program when a run enters it; a process that always runs has done so by then.
PROGRAM_SECONDS = 2.0


class AttachedSession(TerminalSession):
    """A session with processes that run by themselves: never started or ended by us."""

    leaves_running = True
    _way_out = "'quit' leaves it"

    def check_can_start(self) -> None:
        raise self._not_stopped() if self._running else self.not_running()

    async def start(self) -> None:
        self.check_can_start()

    async def end(self) -> None:
        """Ends the processes if their policy allows it, and says so."""
        self._check_running()
        await self.debugger.end_executors()
        await self.wait()

    async def close(self) -> None:
        self._running = False  # Not ours to end.
        self._unsubscribe()
        await self.debugger.detach()
        await super().close()


class ProcessSession(AttachedSession):
    def __init__(self, debugger: Debugger, pid: int, screen: Screen, batch: bool) -> None:
        super().__init__(debugger, LaunchTarget(""), screen, batch)
        self._pid = pid
        self._executor: ExecutorProcess | None = None
        # A program is known, or we no longer wait for one.
        self._settled = asyncio.Event()

    async def begin(self) -> None:
        """Waits until the process is here; its script is then in view."""
        await self.send_faults()
        self._executor = await self.debugger.attach_pid(self._pid)
        argv = list(self._executor.hello.argv)
        self.target = LaunchTarget(argv[0] if argv else "")
        self.file = self.target.program
        self._running = True
        offer = "'pause' stops it" if self._stops else "breakpoints with a 'log' message write"
        self.screen.line(
            f"attached to process {self._pid} ({shlex.join(argv)}), which runs: "
            f"{offer}, 'quit' leaves it"
        )
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._settled.wait(), PROGRAM_SECONDS)

    @property
    def _stops(self) -> bool:
        """Whether the process's policy allows stops."""
        return self._executor is None or self._executor.hello.policy != pb.POLICY_LOG_ONLY

    async def detach(self) -> None:
        self._check_running()
        self.screen.line(descriptions.goes_on(self._pid))
        self._executor = None
        self._gone()
        await self.debugger.detach()

    async def signal(self, number: signal.Signals) -> None:
        raise DebuggerError(
            f"process {self._pid} was not started here: 'kill -INT {self._pid}' in a shell does it"
        )

    def not_running(self) -> DebuggerError:
        if script_process.alive(self._pid):
            return DebuggerError(descriptions.goes_on(self._pid))
        return DebuggerError(f"process {self._pid} has ended: 'quit' leaves the debugger")

    def none_yet(self, what: str) -> DebuggerError:
        if not self._running:
            return self.not_running()
        hint = ": 'pause' stops the process at its next op" if self._stops else ""
        return DebuggerError(f"{what} since the debugger was attached{hint}")

    def _not_stopped(self) -> DebuggerError:
        hint = "'pause' stops it at its next op" if self._stops else "its policy is never to stop"
        return DebuggerError(f"process {self._pid} is running: {hint}")

    def _take(self, event: Event) -> None:
        if isinstance(event, (ProgramCompiled, ExecutorLost)):
            self._settled.set()
        if isinstance(event, ExecutorMoved):
            if event.executor is self._executor:
                self._moved(event)
        elif not isinstance(event, ExecutorLost):
            super()._take(event)
        elif event.executor is self._executor:
            if self._waiting:
                self._news.put_nowait(event)
            else:
                self._tell(event)

    def _moved(self, event: ExecutorMoved) -> None:
        self._executor = event.now
        if self._thread is not None and self._thread.executor is event.executor:
            self._thread = None
        self.screen.line(event.message, "yellow")

    def _tell(self, event: Event | Interrupted) -> None:
        if not isinstance(event, ExecutorLost):
            super()._tell(event)
            return
        self._gone()
        text = event.message or f"process {self._pid} has ended, or left the debugger"
        self.screen.line(text, "yellow")
