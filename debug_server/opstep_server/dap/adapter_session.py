"""The session of one client: requests in, handlers run, each answered exactly once."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opstep_server import inline_tasks
from opstep_server.dap.client_breakpoints import ClientBreakpoints
from opstep_server.dap.cursor_lines import CursorLines
from opstep_server.dap.event_translator import EventTranslator
from opstep_server.dap.protocol import request_rules, types
from opstep_server.dap.protocol.client_info import ClientInfo
from opstep_server.dap.protocol.framing import BodyError, ByteSink, Decoder, FramingError, Json
from opstep_server.dap.protocol.outbox import Outbox
from opstep_server.dap.protocol.progress import Progress
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, When
from opstep_server.dap.protocol.reverse_requests import ReverseRequests
from opstep_server.dap.requests.attach_requests import AttachRequests
from opstep_server.dap.requests.breakpoint_requests import BreakpointRequests
from opstep_server.dap.requests.completion_requests import CompletionRequests
from opstep_server.dap.requests.disassembly import Disassembly
from opstep_server.dap.requests.evaluation_requests import EvaluationRequests
from opstep_server.dap.requests.exception_requests import ExceptionRequests
from opstep_server.dap.requests.execution_requests import ExecutionRequests
from opstep_server.dap.requests.graph_requests import GraphRequests
from opstep_server.dap.requests.inspection_requests import InspectionRequests
from opstep_server.dap.requests.lifecycle_requests import LifecycleRequests
from opstep_server.dap.requests.memory_requests import MemoryRequests
from opstep_server.dap.requests.modules import Modules
from opstep_server.dap.requests.sources import Sources
from opstep_server.dap.requests.statistics_requests import StatisticsRequests
from opstep_server.dap.requests.tensor_requests import TensorRequests
from opstep_server.dap.server.save_place import SavePlace
from opstep_server.dap.stops import NotStopped, Stops
from opstep_server.dap.variables import Variables
from opstep_server.debugger import Debugger, DebuggerError
from opstep_server.expr import ExprError

# An ordered request without an answer must not block the requests behind it for ever.
ORDERED_SECONDS = 10.0


@dataclass(eq=False, slots=True)
class Pending:
    """A request that waits for its one response."""

    seq: int
    command: str
    arguments: Any
    handler: request_rules.Handler
    rule: request_rules.Rule
    task: inline_tasks.Started | None = None
    began: float = 0.0
    answered: bool = False
    holding: bool = False


class AdapterSession:
    """Everything runs on one event loop: the reader calls `feed`, which starts requests in their
    order; each request that waits for something has a task. Only `serve` ends the tasks."""

    def __init__(
        self,
        sink: ByteSink,
        debugger: Debugger | None = None,
        decoder: Decoder | None = None,
        saves: SavePlace | None = None,
    ) -> None:
        self._decoder = decoder or Decoder()
        self.debugger = debugger or Debugger()
        self.outbox = Outbox(sink)
        self.saves = saves or SavePlace()
        self._reverse = ReverseRequests(self.outbox)
        self.client = ClientInfo()
        self.cursor_lines = CursorLines(self)
        self.stops = Stops(self.debugger)
        self.sources = Sources(self)
        self.modules = Modules(self)
        self.disassembly = Disassembly(self)
        self.breakpoints = ClientBreakpoints(self)
        self.exceptions = ExceptionRequests(self)
        self.lifecycle = LifecycleRequests(self)
        self.attach = AttachRequests(self)
        self.inspection = InspectionRequests(self)
        self.variables = Variables(self)
        self.memory = MemoryRequests(self)
        self.statistics = StatisticsRequests(self)
        self._progress = Progress(self)
        # The objects with handlers, `<command>_request`.
        groups: list[object] = [
            self.lifecycle,
            self.attach,
            BreakpointRequests(self),
            self.exceptions,
            ExecutionRequests(self),
            self.inspection,
            EvaluationRequests(self),
            CompletionRequests(self),
            self.memory,
            TensorRequests(self),
            self.sources,
            self.modules,
            self.disassembly,
            GraphRequests(self),
            self.statistics,
            self,
        ]
        self._handlers = request_rules.handlers(groups)
        self._queue: deque[Pending] = deque()
        # The ordered request under way; the queue waits for it.
        self._ordered: Pending | None = None
        self._starting = False
        self._watch: asyncio.TimerHandle | None = None
        self._pending: dict[int, Pending] = {}
        # Done when the client leaves or vanishes; its result is the reason, or None.
        self._gone: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.events = EventTranslator(self)
        self._unsubscribe = self.debugger.subscribe(self.events)

    @property
    def all_stopped(self) -> bool:
        """Whether every thread that the client knows is stopped."""
        return all(thread.id in self.stops for thread in self.debugger.threads)

    def capabilities(self) -> types.Capabilities:
        return request_rules.capabilities(self._handlers)

    async def ask(self, command: str, arguments: Mapping[str, object]) -> Json:
        """Sends a request to the client and returns its answer; RequestError when it fails."""
        return await self._reverse.ask(command, arguments)

    async def serve(self) -> str | None:
        """Serves until the client disconnects or vanishes; returns the reason, if there is one."""
        try:
            problem = await self._gone
            if problem:
                self.outbox.output("important", f"opstep: {problem}\n")
            self.cancel_pending()
            await self.lifecycle.client_gone()
            self.events.tell_dropped()
            return problem
        finally:
            if self._watch is not None:
                self._watch.cancel()
            self._unsubscribe()
            self.outbox.close()

    def leave(self, problem: str | None = None) -> None:
        """Ends the session as if the client had vanished."""
        if not self._gone.done():
            self._gone.set_result(problem)

    # ---- requests: in ----------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Takes bytes from the client."""
        if self._gone.done():
            return
        try:
            for message in self._decoder.feed(data):
                if isinstance(message, BodyError):
                    self._refuse(message)
                else:
                    self.accept(message)
        except FramingError as error:
            self.leave(str(error))

    def _refuse(self, problem: BodyError) -> None:
        if problem.seq is None:
            self.outbox.output("important", f"opstep: {problem}\n")
        else:
            sentence = str(problem)
            self.outbox.failure(problem.seq, problem.command, sentence, sentence)

    def end(self) -> None:
        """The client's stream has ended."""
        try:
            self._decoder.end()
        except FramingError as error:
            self.leave(str(error))
        else:
            self.leave()

    def accept(self, message: Json) -> None:
        """Takes one message from the client."""
        if self.attach.passes_on(message):
            return
        if message.get("type") == "response":
            self._reverse.answered(message)
            return
        seq, command = message.get("seq"), message.get("command")
        if not isinstance(seq, int) or message.get("type") != "request":
            self.outbox.output("important", "opstep: a message is not a numbered request\n")
            return
        if not isinstance(command, str):
            self.outbox.failure(seq, "", "no command", "a request must name its command")
            return
        if seq in self._pending:
            sentence = f"request {seq} is under way: requests need different numbers"
            self.outbox.failure(seq, command, sentence, sentence)
            return
        found = self._handlers.get(command)
        if found is None:
            sentence = f"opstep has no request '{command}'"
            self.outbox.failure(seq, command, sentence, sentence)
            return
        handler, rule = found
        if rule.ends_inspection and self._pending:
            self._cancel(p for p in self._pending.values() if p.rule.run is Run.INSPECTION)
        pending = Pending(seq, command, message.get("arguments"), handler, rule)
        self._pending[seq] = pending
        if rule.run is Run.AT_ONCE:
            self._start(pending)
        else:
            self._queue.append(pending)
            self._start_queued()

    def _start_queued(self) -> None:
        if self._starting:
            return  # Called for a request that ended at once: the loop below goes on.
        self._starting = True
        while self._queue and self._ordered is None:
            pending = self._queue.popleft()
            if not pending.answered:  # It may have been cancelled while it waited.
                self._start(pending)
        self._starting = False

    def _start(self, pending: Pending) -> None:
        ordered = pending.rule.run is Run.ORDERED
        if ordered:
            self._ordered = pending
            pending.began = asyncio.get_running_loop().time()
            pending.holding = True
            self.outbox.hold()
        if pending.rule.run is Run.INSPECTION and self.client.progress:
            self._progress.begin(pending)
        pending.task = inline_tasks.start(self._run(pending))
        if ordered and pending.task is not None and self._watch is None:
            self._watch_ordered()

    def _watch_ordered(self) -> None:
        """One timer for all ordered requests: most end long before it fires."""
        loop = asyncio.get_running_loop()
        self._watch = None
        if self._ordered is None:
            return
        left = self._ordered.began + ORDERED_SECONDS - loop.time()
        if left > 0:
            self._watch = loop.call_later(left, self._watch_ordered)
        else:
            self._give_up(self._ordered)

    def _give_up(self, pending: Pending) -> None:
        self._fail(pending, f"the process has not answered in {ORDERED_SECONDS:.0f} s")
        if pending.task is not None:
            pending.task.cancel()
        self._over(pending)

    def _over(self, pending: Pending) -> None:
        if pending is self._ordered:
            self._ordered = None
            self._start_queued()

    async def _run(self, pending: Pending) -> None:
        try:
            self._check_state(pending)
            body = await pending.handler(Arguments(pending.arguments))
            with self.outbox.one_write:
                if not pending.answered:
                    self.attach.answered(pending.seq, pending.command, body)
                    self.outbox.response(pending.seq, pending.command, body)
                self._answered(pending)
        except NotStopped as error:
            self._fail(pending, str(error), "notStopped")
        except (RequestError, DebuggerError, ExprError) as error:
            self._fail(pending, str(error))
        except asyncio.CancelledError:
            self._fail(pending, _cancelled(pending), "cancelled")
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self._fail(pending, f"internal error in {pending.command}: {error!r}")
        self._over(pending)

    def _check_state(self, pending: Pending) -> None:
        when = pending.rule.when
        if when is not When.ANY and not self.client.initialized:
            raise RequestError(f"'initialize' must come before '{pending.command}'")
        if when is When.STOPPED:
            self.stops.check()

    # ---- responses: out --------------------------------------------------------------------------

    def _fail(self, pending: Pending, sentence: str, short: str | None = None) -> None:
        if not pending.answered:
            self.outbox.failure(pending.seq, pending.command, short or sentence, sentence)
        self._answered(pending)

    def _answered(self, pending: Pending) -> None:
        pending.answered = True
        self._pending.pop(pending.seq, None)
        self._progress.end(pending)
        if pending.holding:
            pending.holding = False
            self.outbox.release()
        if pending.command == "disconnect":
            self.leave()

    def _cancel(self, chosen: Iterator[Pending]) -> None:
        for pending in list(chosen):
            self._fail(pending, _cancelled(pending), "cancelled")
            if pending.task is not None:
                pending.task.cancel()

    def cancel_pending(self) -> None:
        """Cancels all requests but the one that ends the session."""
        self._cancel(p for p in self._pending.values() if p.command != "disconnect")

    def cancel_commands(self, *commands: str) -> None:
        self._cancel(p for p in self._pending.values() if p.command in commands)

    @request_rules.request(When.ANY, Run.AT_ONCE, supportsCancelRequest=True)
    async def cancel_request(self, arguments: Arguments) -> Json:
        seq = arguments.optional_integer("requestId")
        progress = arguments.optional_string("progressId")
        pending = self._pending.get(seq) if seq is not None else None
        if progress is not None:
            pending = self._progress.find(progress)
        # A request that is over, or that changes something, is not cancelled; its response says so.
        if pending is not None and pending.rule.run is Run.INSPECTION:
            self._cancel(iter([pending]))
        return {}


def _cancelled(pending: Pending) -> str:
    what = f"the {pending.command}" if pending.command in ("launch", "restart") else "this"
    return f"{what} was cancelled"
