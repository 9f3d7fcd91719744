"""The view of a session: the script, its stopped thread, a frame and the program there."""

from __future__ import annotations

import abc
import contextlib
import os
from collections.abc import Iterator

from opstep_server.cli.output import descriptions
from opstep_server.debugger import Debugger, DebuggerError, LaunchTarget, ProgramRef, Thread
from opstep_server.wire import debug_pb2 as pb


class SessionView(abc.ABC):
    def __init__(self, debugger: Debugger, target: LaunchTarget, file: str) -> None:
        self.debugger = debugger
        self.target = target
        # The script, or the saved program that a module runs.
        self.file = file or target.program
        self.frame = 0
        # Inspected ops along the dataflow, the last one in view.
        self.walked: list[pb.OpInfo] = []
        self._thread: Thread | None = None
        self._running = False
        # The number of waits for a stop.
        self._waits = 0
        # Whether the command concerns only the thread in view.
        self._only = False

    @property
    def script(self) -> str:
        return os.path.abspath(self.file)

    @property
    def what(self) -> str:
        return "program" if self.target.module else "script"

    @property
    def waits(self) -> int:
        """The number of waits for a stop."""
        return self._waits

    @property
    def running(self) -> bool:
        """Whether the script was started and has not ended."""
        return self._running

    @property
    def thread(self) -> Thread:
        """The stopped thread in view."""
        return self.stop[0]

    @property
    def stop(self) -> tuple[Thread, pb.Stopped]:
        if not self._running:
            raise self.not_running()
        if self._thread is None or self._thread.stopped is None:
            raise self._not_stopped()
        return self._thread, self._thread.stopped

    @property
    def stopped(self) -> pb.Stopped | None:
        return self._thread.stopped if self._thread is not None else None

    @property
    def line_in_view(self) -> tuple[str, int]:
        """A file and a line; "" when no Python line made the op in view."""
        if self.walked:
            stack = self.walked[-1].stack
            return (stack[0].file, stack[0].line) if stack else ("", 0)
        frames = self.stop[1].frames
        return (frames[self.frame].file, frames[self.frame].line) if frames else ("", 0)

    def select(self, thread: Thread) -> None:
        self._thread = thread
        self.frame = 0
        self.walked.clear()

    @property
    def several(self) -> bool:
        """Whether there are several threads."""
        return len(self.debugger.threads) > 1

    def in_view(self, thread: Thread) -> bool:
        return thread is self._thread

    @contextlib.contextmanager
    def only(self, thread: Thread) -> Iterator[None]:
        """Puts the thread in view and keeps the others stopped; goes back unless one stopped."""
        before, frame, waits = self._thread, self.frame, self._waits
        walked = list(self.walked)
        self.select(thread)
        self._only = True
        try:
            yield
        finally:
            self._only = False
            if waits == self._waits and before is not thread:
                self._thread, self.frame, self.walked[:] = before, frame, walked

    def program(self) -> ProgramRef:
        """The program of the frame in view, or the one that was compiled last."""
        programs = self.debugger.programs
        if not programs:
            raise self.none_yet("no program has been compiled")
        stopped = self.stopped
        if stopped is not None and self._thread is not None:
            # Python frames are not in a program: take that of the op, which they run.
            frames = stopped.frames
            wanted = frames[self.frame].program or frames[0].program if frames else 0
            for program in programs:
                ours = program.executor is self._thread.executor
                if ours and program.event.program == wanted:
                    return program
        return programs[-1]

    # ---- errors ----------------------------------------------------------------------------------

    @abc.abstractmethod
    def not_running(self) -> DebuggerError: ...

    @abc.abstractmethod
    def none_yet(self, what: str) -> DebuggerError:
        """The error for something that only exists once ops run."""

    def _not_stopped(self) -> DebuggerError:
        if self._thread is not None and any(t.stopped for t in self.debugger.threads):
            thread = descriptions.thread(self._thread)
            return DebuggerError(f"{thread} is running: 'info threads' shows which are stopped")
        return DebuggerError(
            f"the {self.what} is running Python code, not ops: 'continue' waits for its next op"
        )
