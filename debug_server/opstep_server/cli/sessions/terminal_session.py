"""A terminal session: the script, the thread and frame in view, and waits for a stop.

One task runs the commands; the debugger's events come to `_take` on the same loop.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opstep_server.cli.app import exit_codes
from opstep_server.cli.output import descriptions
from opstep_server.cli.output.screen import Screen
from opstep_server.cli.output.styled_text import FAINT
from opstep_server.cli.sessions.breakpoint_notices import BreakpointNotices
from opstep_server.cli.sessions.displays import Displays
from opstep_server.cli.sessions.fault_settings import FaultSettings
from opstep_server.cli.sessions.known_names import KnownNames
from opstep_server.cli.sessions.macros import Macros
from opstep_server.cli.sessions.session_view import SessionView
from opstep_server.debugger import (
    BreakpointChanged,
    BreakpointSpec,
    BreakpointState,
    ConnectionLost,
    ContinuedEvent,
    Debugger,
    DebuggerError,
    Event,
    FaultsChanged,
    LaunchTarget,
    Logged,
    Output,
    ProgramCompiled,
    ProgramRef,
    ResumeMode,
    StepUnit,
    StoppedEvent,
    Thread,
)
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.cli.commands.listing_commands import Listed

# How long one of many steps may take before Ctrl-C pauses it.
_STEP_SECONDS = 0.1
# How long a pause waits: a script that runs ops has stopped by then.
_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class Interrupted:
    """Ctrl-C came twice: give the prompt back although nothing stopped."""


class TerminalSession(SessionView):
    # Whether the processes go on when the debugger ends.
    leaves_running = False
    # The advice for a process that runs no ops.
    _way_out = "'interrupt' gives it the Ctrl-C, 'quit' ends it"
    # Whether it can wait while nothing runs, for processes that come by themselves.
    awaits = False

    def __init__(
        self,
        debugger: Debugger,
        target: LaunchTarget,
        screen: Screen,
        batch: bool,
        file: str = "",
    ) -> None:
        super().__init__(debugger, target, file)
        self.screen = screen
        self.batch = batch
        self.faults = FaultSettings()
        self.names = KnownNames()
        # The last line of each log point, by breakpoint, and the number of all dropped lines.
        self.last_logs: dict[int, str] = {}
        self.dropped_logs = 0
        self.displays = Displays()
        # On names in what was evaluated, as keys in their order; shown when the command has ended.
        self.notes: dict[str, None] = {}
        self.macros = Macros()
        # The lines that 'list' showed last.
        self.listed: Listed | None = None
        self.quitting = False
        # Files of commands under way, the outermost first.
        self.reading: list[str] = []
        # The user's choice: the full screen, or a prompt below earlier output.
        self.full_screen = False
        self.panes = {"source", "listing", "tensors"}
        # All commands, the newest last.
        self.typed: list[str] = []
        # Asks the user and returns the answer in lower case; None without a terminal.
        self.ask: Callable[[str], Awaitable[str]] | None = None
        # For the exit code: whether it stopped at a fault, and how the script ended.
        self.fault = False
        # Whether the last stop was at a fault.
        self.at_fault = False
        self.script_code: int | None = None
        # We are ending it, and show no other events.
        self._ending = False
        self._waiting = False
        # Nothing runs, but a process will come, see `awaits`.
        self._expects = False
        self._counted = False
        self._interrupts = 0
        # Ctrl-C came while the command ran.
        self.interrupted = False
        self._news: asyncio.Queue[Event | Interrupted] = asyncio.Queue()
        self._notices = BreakpointNotices(debugger, screen, self.names, self.faults)
        self._tasks: set[asyncio.Task[None]] = set()
        # The number of programs whose names are being fetched.
        self._learning = 0
        self._unsubscribe = debugger.subscribe(self._take)

    def show_notes(self) -> None:
        for note in self.take_notes():
            self.screen.line(note, FAINT)

    def take_notes(self) -> list[str]:
        notes, self.notes = list(self.notes), {}
        return notes

    # ---- running ---------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Called before the first command."""

    @abc.abstractmethod
    def check_can_start(self) -> None:
        """Raises when there is nothing to start."""

    @abc.abstractmethod
    async def start(self) -> None: ...

    @abc.abstractmethod
    async def end(self) -> None:
        """Ends the running processes, and says so."""

    @abc.abstractmethod
    async def detach(self) -> None:
        """Lets the processes go on without us, and says so."""

    @abc.abstractmethod
    async def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process; then waits as after `continue`."""

    def never_started(self) -> str:
        """The message for a session that ends without a start; otherwise empty."""
        return ""

    async def sure(self, question: str) -> bool:
        """Whether the user says yes; as in gdb, yes without a terminal."""
        return self.ask is None or (await self.ask(f"{question} [y/N] ")) in ("y", "yes")

    def _check_running(self) -> None:
        if not self._running:
            raise self.not_running()

    def _gone(self) -> None:
        self._running = False
        self._thread = None

    async def send_faults(self) -> None:
        self._notices.problems(await self.debugger.set_faults(self.faults.specs()))

    async def wait(
        self, going: Awaitable[None] | None = None, counted: bool = False
    ) -> pb.Stopped | None:
        """Waits until a thread stops or the script ends, and shows it; returns the stop, if any.

        `going` makes it run; the stop may be reported before that is done.
        """
        self.screen.flow()
        self._waiting = True
        self._waits += 1
        self._counted = counted
        self._interrupts = 0
        try:
            if going is not None:
                # A process that ended before it could answer is reported as ended.
                with contextlib.suppress(ConnectionLost):
                    await going
            while self._running or self._expects:
                event = await self._news.get()
                if isinstance(event, Interrupted):
                    if self._interrupts < 2:
                        continue  # It was too late for the previous wait.
                    self.screen.line(
                        "still running Python code, and stops at its next op: 'continue' waits for "
                        f"that, {self._way_out}"
                    )
                    return None
                if isinstance(event, StoppedEvent) and event.thread.stopped is event.stopped:
                    self.select(event.thread)
                    self.at_fault = exit_codes.is_fault(event.stopped.reason)
                    if not self.macros.silent(event.stopped):
                        self.show_stop(event.stopped)
                    await self._learned()
                    self._notices.at_stop(event.stopped)
                    if not self.full_screen:  # It has a pane.
                        await self.displays.show(self)
                    return event.stopped
                self._tell(event)
            return None
        finally:
            self._waiting = False
            # Other threads may have stopped at the same time.
            while not self._news.empty():
                self._tell(self._news.get_nowait())

    def go(
        self,
        mode: ResumeMode,
        unit: StepUnit = "line",
        until: Sequence[BreakpointSpec] = (),
        awaited: bool = False,
    ) -> Coroutine[Any, Any, None]:
        """Resumes the thread in view in this mode, and other stopped threads freely, if allowed."""
        resumed = self.debugger.resume(self.thread.id, mode, unit, until=until, awaited=awaited)
        return self._go(resumed, self._others())

    def release(self) -> Coroutine[Any, Any, None]:
        """Resumes the stopped threads, if allowed, although the thread in view runs."""
        return self._go(None, self._others())

    def _others(self) -> list[tuple[Thread, pb.Stopped]]:
        # A thread that stays stopped would block those that wait for it. Threads that stop from
        # here on are at new stops.
        others = [] if self._only else [t for t in self.debugger.threads if t is not self._thread]
        return [(other, other.stopped) for other in others if other.stopped is not None]

    async def _go(
        self, first: Awaitable[None] | None, others: Sequence[tuple[Thread, pb.Stopped]]
    ) -> None:
        if first is not None:
            await first
        for other, stopped in others:
            if other.stopped is stopped:
                with contextlib.suppress(DebuggerError):  # It ended meanwhile.
                    await self.debugger.resume(other.id, "continue")

    async def pause(self) -> None:
        """Asks the command's thread to stop, or any thread at its next op."""
        only = self._thread.id if self._only and self._thread is not None else None
        await self.debugger.pause(only)

    async def interrupt(self) -> None:
        """Handles Ctrl-C while the script runs."""
        self.interrupted = True
        if not self._waiting or self._ending:
            return  # The running command ends its repetitions by itself.
        self._interrupts += 1
        if self._interrupts > 1:
            self._news.put_nowait(Interrupted())
            return
        if self._counted:
            # The step's own stop is near; a pause after it would stop the next command.
            await asyncio.sleep(_STEP_SECONDS)
            if not self._waiting:
                return
        try:
            await self.debugger.pause()
        except DebuggerError as error:
            self.screen.error(str(error))
            return
        waits = self._waits
        await asyncio.sleep(_PAUSE_SECONDS)
        if self._waiting and waits == self._waits and self._interrupts == 1:
            self.screen.line(
                f"pausing: the {self.what} runs Python code, and stops at its next op; Ctrl-C "
                "gives a prompt"
            )

    async def close(self) -> None:
        """Closes the session and leaves processes as they are."""
        for task in list(self._tasks):
            task.cancel()
        self._unsubscribe()
        await self.debugger.close()

    # ---- showing ---------------------------------------------------------------------------------

    def show_stop(self, stopped: pb.Stopped) -> None:
        text = descriptions.stop_line(stopped, self.debugger.others_only(stopped))
        if self._thread is not None and self.several:
            text = f"{descriptions.thread(self._thread)} {text}"
        self.screen.stop(text, descriptions.stop_style(stopped))
        self.show_source()

    def show_breakpoint(self, state: BreakpointState) -> None:
        self._notices.show(state)

    def show_source(self) -> None:
        if self.full_screen:
            return  # It has a pane.
        file, line = self.line_in_view
        text = descriptions.source_line(file, line) if file else None
        if text is not None:
            self.screen.source(text, file)

    def hint(self, state: BreakpointState) -> str:
        return self._notices.hint(state)

    # ---- events ----------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        if isinstance(event, Output):
            self.screen.output(event.text)
        elif isinstance(event, Logged):
            self.screen.line(event.text, "yellow" if event.dropped else "")
            self.last_logs[event.breakpoint] = event.text
            self.dropped_logs += event.dropped
        elif isinstance(event, ProgramCompiled):
            self._learning += 1
            self._background(self._learn(ProgramRef(event.executor, event.program)))
        elif isinstance(event, BreakpointChanged):
            self._notices.changed(event.state)
        elif isinstance(event, FaultsChanged):
            self._notices.problems(event.problems)
        else:
            if isinstance(event, StoppedEvent):
                self.fault = self.fault or exit_codes.is_fault(event.stopped.reason)
            if self._waiting:
                self._news.put_nowait(event)
            else:
                self._tell(event)

    def _tell(self, event: Event | Interrupted) -> None:
        if isinstance(event, StoppedEvent) and event.thread.stopped is event.stopped:
            # No command waited for it.
            if self.stopped is None or self._thread is event.thread:
                self.select(event.thread)
                self.show_stop(event.stopped)
            else:
                others = self.debugger.others_only(event.stopped)
                stop = descriptions.stop_line(event.stopped, others)
                self.screen.line(f"{descriptions.thread(event.thread)} {stop}")
        elif isinstance(event, ContinuedEvent) and event.message:
            self.screen.line(f"the script went on by itself: {event.message}")

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _learned(self) -> None:
        """Waits until the names of compiled programs are known."""
        while self._learning:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _learn(self, program: ProgramRef) -> None:
        try:
            ops = await self.debugger.ops(program)
        except DebuggerError:
            return  # It ended meanwhile.
        finally:
            self._learning -= 1
        self.names.learn(ops)
