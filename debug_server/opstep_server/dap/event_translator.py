"""The translator of the debugger's events to the protocol's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opstep_server.dap.protocol import types
from opstep_server.debugger import (
    BreakpointChanged,
    ContinuedEvent,
    Event,
    ExecutorLost,
    ExecutorMoved,
    FaultsChanged,
    Logged,
    Output,
    ProcessExited,
    ProgramCompiled,
    StoppedEvent,
    ThreadEnded,
    ThreadStarted,
)
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

# The protocol's reason, and the text that the client shows.
_REASONS = {
    pb.STOP_STEP: ("step", "Paused after step"),
    pb.STOP_PAUSE: ("pause", "Paused"),
    pb.STOP_ENTRY: ("entry", "Paused before the first op"),
    pb.STOP_NAN: ("exception", "Paused on NaN"),
    pb.STOP_INF: ("exception", "Paused on Inf"),
    pb.STOP_ERROR: ("exception", "Paused on error"),
    pb.STOP_OVERFLOW: ("exception", "Paused on overflow"),
    pb.STOP_CODE: ("breakpoint", "Paused on opstep.debug.breakpoint()"),
}
_OF_THREADS = (StoppedEvent, ContinuedEvent, ThreadStarted, ThreadEnded)


class EventTranslator:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        # By log point, messages that were dropped since the last report of drops.
        self._dropped: Counter[int] = Counter()
        # A table, not a match: a step goes through here twice.
        self._handlers: dict[type, Callable[[Any], None]] = {
            StoppedEvent: self._stopped,
            ContinuedEvent: self._continued,
            ThreadStarted: self._thread_started,
            ThreadEnded: self._thread_ended,
            BreakpointChanged: self._breakpoint_changed,
            ProgramCompiled: self._program_compiled,
            Logged: self._logged,
            FaultsChanged: self._faults_changed,
            Output: self._output,
            ExecutorLost: self._executor_lost,
            ExecutorMoved: self._executor_moved,
            ProcessExited: self._process_exited,
        }

    def __call__(self, event: Event) -> None:
        handler = self._handlers.get(type(event))
        if handler is None:
            return
        if isinstance(event, _OF_THREADS) and self._session.lifecycle.leaving:
            # Emacs answers a thread event with a request for all threads, but we are about to end.
            self._session.stops.leave(event.thread.id)
            return
        handler(event)

    def _continued(self, event: ContinuedEvent) -> None:
        session, thread = self._session, event.thread
        # A resume that the client asked for has left the stop already.
        if thread.id in session.stops:
            session.stops.leave(thread.id)
            body = {"threadId": thread.id, "allThreadsContinued": False}
            session.outbox.event("continued", body)
        if event.message:
            session.outbox.output("console", f"{event.message}\n")

    def _thread_started(self, event: ThreadStarted) -> None:
        body = {"reason": "started", "threadId": event.thread.id}
        self._session.outbox.event("thread", body)

    def _thread_ended(self, event: ThreadEnded) -> None:
        if event.thread.id in self._session.stops:
            # A client that remembers a stopped thread would wait for it for ever.
            self._session.stops.leave(event.thread.id)
            went_on = {"threadId": event.thread.id, "allThreadsContinued": False}
            self._session.outbox.event("continued", went_on)
        body = {"reason": "exited", "threadId": event.thread.id}
        self._session.outbox.event("thread", body)

    def _breakpoint_changed(self, event: BreakpointChanged) -> None:
        self._session.breakpoints.changed(event.state, event.removed)
        self._session.cursor_lines.changed(event.state)

    def _program_compiled(self, event: ProgramCompiled) -> None:
        self._session.sources.compiled(event.executor, event.program)
        self._session.modules.compiled(event.executor, event.program)
        self._session.statistics.compiled(event.executor, event.program)

    def _faults_changed(self, event: FaultsChanged) -> None:
        self._session.exceptions.changed(event.problems)

    def _output(self, event: Output) -> None:
        self._session.outbox.output(event.category, event.text)

    def _executor_moved(self, event: ExecutorMoved) -> None:
        session = self._session
        session.sources.lost(event.executor)
        session.modules.lost(event.executor)
        session.outbox.output("console", f"{event.message}\n")
        session.attach.moved(event)

    def _executor_lost(self, event: ExecutorLost) -> None:
        session = self._session
        self.tell_dropped()
        if not session.lifecycle.launching and not session.debugger.executors:
            session.cursor_lines.ended()
        session.sources.lost(event.executor)
        session.modules.lost(event.executor)
        if event.message and not session.lifecycle.tells_end_of(event.executor):
            session.outbox.output("console", f"{event.message}\n")
        session.attach.lost(event.executor)

    def _process_exited(self, event: ProcessExited) -> None:
        self.tell_dropped()
        self._session.lifecycle.process_exited(event.code)

    def _logged(self, event: Logged) -> None:
        if self._session.outbox.behind:
            self._dropped[event.breakpoint] += event.dropped or 1
            return
        self.tell_dropped()
        self._log_line(event.text, event.breakpoint)

    def tell_dropped(self) -> None:
        """Reports drops, at the latest when the process or session ends, even to a slow client."""
        dropped, self._dropped = self._dropped, Counter()
        for breakpoint, lost in dropped.items():
            what = "message was" if lost == 1 else "messages were"
            slow = "the client reads more slowly than they come"
            self._log_line(f"{lost} log {what} dropped: {slow}", breakpoint)

    def _log_line(self, text: str, breakpoint: int) -> None:
        """Sends output with the source line of its log point."""
        body: types.OutputEventBody = {"category": "console", "output": f"{text}\n"}
        told = self._session.breakpoints.told(breakpoint)
        if told is not None and "source" in told:
            body["source"], body["line"] = told["source"], told["line"]
        self._session.outbox.event("output", body)

    def _stopped(self, event: StoppedEvent) -> None:
        thread, stopped = event.thread, event.stopped
        if self._dropped:
            self.tell_dropped()
        self._session.stops.enter(thread, stopped)
        breakpoints = self._session.breakpoints
        self._session.cursor_lines.stopped(stopped.breakpoints)
        if stopped.reason == pb.STOP_BREAKPOINT:
            reason = breakpoints.reason(stopped.breakpoints)
            description = f"Paused on {reason}"
        else:
            reason, description = _REASONS.get(stopped.reason, ("pause", "Paused"))
        body: types.StoppedEventBody = {
            "reason": reason,
            "description": description,
            "threadId": thread.id,
            "allThreadsStopped": self._session.all_stopped,
        }
        if stopped.message:
            body["text"] = stopped.message
        # The client does not know breakpoints of other users.
        hit = stopped.breakpoints and [id for id in stopped.breakpoints if breakpoints.told(id)]
        if hit:
            body["hitBreakpointIds"] = [breakpoints.client_id(id) for id in hit]
        self._session.outbox.event("stopped", body)
