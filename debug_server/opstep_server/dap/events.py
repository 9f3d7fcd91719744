"""The debugger's events in the protocol's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opstep_server.dap import types
from opstep_server.debugger import (
    BreakpointChanged,
    ContinuedEvent,
    Event,
    ExecutorLost,
    FaultsChanged,
    Logged,
    Output,
    ProcessExited,
    ProgramCompiled,
    StoppedEvent,
    Thread,
    ThreadEnded,
    ThreadStarted,
)
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.dap.session import Session

# The protocol's reason, and what the client shows of it.
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


class EventTranslator:
    def __init__(self, session: Session) -> None:
        self._session = session
        # Log messages that the client was spared since it was last told how many.
        self._dropped = 0

    def __call__(self, event: Event) -> None:
        session, outbox = self._session, self._session.outbox
        match event:
            case StoppedEvent(thread, stopped):
                self._stopped(thread, stopped)
            case ContinuedEvent(thread, message):
                # What the client itself asked for has left its stop already.
                if thread.id in session.stops:
                    session.stops.leave(thread.id)
                    body = {"threadId": thread.id, "allThreadsContinued": False}
                    outbox.event("continued", body)
                if message:
                    outbox.output("console", f"{message}\n")
            case ThreadStarted(thread):
                outbox.event("thread", {"reason": "started", "threadId": thread.id})
            case ThreadEnded(thread):
                session.stops.leave(thread.id)
                outbox.event("thread", {"reason": "exited", "threadId": thread.id})
            case BreakpointChanged(state, removed):
                session.breakpoints.changed(state, removed)
            case ProgramCompiled(executor, program):
                session.sources.compiled(executor, program)
                session.modules.compiled(executor, program)
            case Logged(_, text, breakpoint):
                self._logged(text, breakpoint)
            case FaultsChanged(problems):
                session.exceptions.changed(problems)
            case Output(category, text):
                outbox.output(category, text)
            case ExecutorLost(executor, message):
                session.sources.lost(executor)
                session.modules.lost(executor)
                if message:
                    outbox.output("console", f"{message}\n")
                session.attach.lost(executor)
            case ProcessExited(code):
                session.lifecycle.process_exited(code)
            case _:
                pass

    def _logged(self, text: str, breakpoint: int) -> None:
        if self._session.outbox.behind:
            self._dropped += 1
            return
        if self._dropped:
            lost, self._dropped = self._dropped, 0
            what = f"{lost} log messages were dropped: the client reads more slowly than they come"
            self._session.outbox.output("console", f"{what}\n")
        body: types.OutputEventBody = {"category": "console", "output": f"{text}\n"}
        told = self._session.breakpoints.told(breakpoint)
        if told is not None and "source" in told:
            body["source"], body["line"] = told["source"], told["line"]
        self._session.outbox.event("output", body)

    def _stopped(self, thread: Thread, stopped: pb.Stopped) -> None:
        self._session.stops.enter(thread, stopped)
        breakpoints = self._session.breakpoints
        if stopped.reason == pb.STOP_BREAKPOINT:
            reason = breakpoints.reason(stopped.breakpoints)
            description = f"Paused on {reason}"
        else:
            reason, description = _REASONS.get(stopped.reason, ("pause", "Paused"))
        body: types.StoppedEventBody = {
            "reason": reason,
            "description": description,
            "threadId": thread.id,
            "allThreadsStopped": False,
        }
        if stopped.message:
            body["text"] = stopped.message
        # Those of other users mean nothing to this client.
        hit = [id for id in stopped.breakpoints if breakpoints.told(id) is not None]
        if hit:
            body["hitBreakpointIds"] = [breakpoints.client_id(id) for id in hit]
        self._session.outbox.event("stopped", body)
