"""A terminal session with a process that it starts: a script, or `opstep run`."""

from __future__ import annotations

import asyncio
import shlex
import signal

from opstep_server import script_process
from opstep_server.cli.output import descriptions
from opstep_server.cli.output.screen import Screen
from opstep_server.cli.sessions.terminal_session import Interrupted, TerminalSession
from opstep_server.debugger import (
    ContinuedEvent,
    Debugger,
    DebuggerError,
    Event,
    ExecutorJoined,
    ExecutorLost,
    LaunchTarget,
    ProcessExited,
    StoppedEvent,
)

# How long a process may live after its connection ended.
_END_SECONDS = 1.5


class LaunchedSession(TerminalSession):
    """A session with a script that ends with it, unless it was let go."""

    def __init__(
        self, debugger: Debugger, target: LaunchTarget, screen: Screen, batch: bool, file: str = ""
    ) -> None:
        super().__init__(debugger, target, screen, batch, file)
        # The script's process id; 0 before its first start.
        self._pid = 0
        # Whether it may have run a program: after a sudden end, as by a signal, we cannot know.
        self._may_have_run = False
        # Processes that go on without us; one may connect for the first time after that.
        self._left: set[int] = set()

    def not_running(self) -> DebuggerError:
        if self._pid in self._left and script_process.alive(self._pid):
            return DebuggerError(f"{self._goes_on()}, 'run' starts the {self.what} anew")
        if self._pid:
            return DebuggerError(f"the {self.what} has ended: 'run' starts it again")
        return DebuggerError(f"the {self.what} is not running: start it with 'run'")

    def none_yet(self, what: str) -> DebuggerError:
        if not self._running and self._pid:
            return self.not_running()
        if not self._running:
            return DebuggerError(f"{what} yet: start the {self.what} with 'run'")
        return DebuggerError(f"{what} yet: 'pause' stops the {self.what} at its first op")

    # ---- start and end ---------------------------------------------------------------------------

    def check_can_start(self) -> None:
        pass

    async def start(self) -> None:
        self.script_code = None
        await self.send_faults()
        await self.wait(self._launch())

    def never_started(self) -> str:
        return "" if self._pid else f"the {self.what} was never started: 'run' starts it"

    async def _launch(self) -> None:
        self._may_have_run = False
        self._pid = await self.debugger.launch(self.target)
        self._running = True

    async def end(self) -> None:
        self._check_running()
        self._ending = True
        try:
            await self.debugger.terminate()
        finally:
            self._ending = False

    async def detach(self) -> None:
        self._check_running()
        # Before the detach: after it the script writes by itself.
        self.screen.line(self._goes_on())
        self._left.add(self._pid)
        await self.debugger.detach()
        await self.debugger.let_go()
        self._gone()

    def _goes_on(self) -> str:
        later = ""
        if self._running and not self.debugger.executors:
            later = "it has made no executor yet, and its first run may wait 10 s for a debugger"
        return descriptions.goes_on(self._pid, later)

    async def signal(self, number: signal.Signals) -> None:
        self._check_running()
        self.debugger.signal(number)
        await self.wait()

    async def close(self) -> None:
        # A user who leaves does not want to read how the script ended.
        self._unsubscribe()
        if self._running:
            await self.debugger.terminate()
        await super().close()

    # ---- events ----------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        if self._is_of_one_that_left(event):
            if isinstance(event, ExecutorJoined):
                self._background(self.debugger.detach(event.executor))
        elif self._ending and isinstance(event, (StoppedEvent, ContinuedEvent, ExecutorLost)):
            pass
        elif isinstance(event, ExecutorJoined):
            self._may_have_run = True
            if event.executor.pid != self._pid:
                words = shlex.join(event.executor.hello.argv)
                self.screen.line(
                    f"process {event.executor.pid} ({words}) was started by the {self.what} and is "
                    "debugged too"
                )
        elif isinstance(event, ExecutorLost):
            if event.message:
                self._background(self._tell_lost(event.message))
        else:
            super()._take(event)

    def _is_of_one_that_left(self, event: Event) -> bool:
        thread = getattr(event, "thread", None)
        executor = thread.executor if thread is not None else getattr(event, "executor", None)
        return executor is not None and executor.pid in self._left

    def _tell(self, event: Event | Interrupted) -> None:
        if not isinstance(event, ProcessExited):
            super()._tell(event)
            return
        self._gone()
        self._leave_children()
        if self._ending:
            self.screen.line(f"the {self.what} was ended")
            return
        self.script_code = event.code
        how = descriptions.how_ended(event.code)
        if not self._may_have_run:
            how += ", and ran no program" if event.code == 0 else ", before it ran a program"
        self.screen.line(f"the {self.what} ended {how}", "bold" if event.code == 0 else "bold red")
        self._notices.at_end()

    def _leave_children(self) -> None:
        """Detaches from the script's remaining child processes, so that none stays at a stop."""
        for executor in self.debugger.executors:
            if executor.pid != self._pid:
                self._left.add(executor.pid)
                self.screen.line(f"process {executor.pid}, which it started, goes on by itself")
                self._background(self.debugger.detach(executor))

    async def _tell_lost(self, message: str) -> None:
        # A process that ends also loses its connection; report that once, as its end.
        await asyncio.sleep(_END_SECONDS)
        if self._running:
            self.screen.line(message, "yellow")
