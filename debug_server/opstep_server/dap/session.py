"""One client's session: reads requests, runs their handlers, answers each of them exactly once."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opstep_server import eager
from opstep_server.dap import rules, types
from opstep_server.dap.arguments import Arguments, RequestError
from opstep_server.dap.attach import Attach
from opstep_server.dap.breakpoints import Breakpoints
from opstep_server.dap.client import Client
from opstep_server.dap.completion import Completion
from opstep_server.dap.cursor_line import CursorLine
from opstep_server.dap.disassembly import Disassembly
from opstep_server.dap.evaluation import Evaluation
from opstep_server.dap.events import EventTranslator
from opstep_server.dap.exceptions import Exceptions
from opstep_server.dap.execution import Execution
from opstep_server.dap.framing import BodyError, ByteSink, Decoder, FramingError, Json
from opstep_server.dap.graphs import Graphs
from opstep_server.dap.inspection import Inspection
from opstep_server.dap.lifecycle import Lifecycle
from opstep_server.dap.memory import Memory
from opstep_server.dap.modules import Modules
from opstep_server.dap.outbox import Outbox
from opstep_server.dap.progress import Progress
from opstep_server.dap.reverse import ReverseRequests
from opstep_server.dap.rules import Run, When
from opstep_server.dap.save_place import SavePlace
from opstep_server.dap.setting import Setting
from opstep_server.dap.showing import Showing
from opstep_server.dap.sources import Sources
from opstep_server.dap.statistics import Statistics
from opstep_server.dap.stops import NotStopped, Stops
from opstep_server.dap.tensors import Tensors
from opstep_server.debugger import Debugger, DebuggerError
from opstep_server.expr import ExprError

# An ordered request that an executor does not answer must not block those behind it for ever.
ORDERED_SECONDS = 10.0


@dataclass(eq=False, slots=True)
class Pending:
    """A request on its way to its one response."""

    seq: int
    command: str
    arguments: Any
    handler: rules.Handler
    rule: rules.Rule
    task: eager.Started | None = None
    began: float = 0.0
    answered: bool = False
    holding: bool = False


class Session:
    """Everything runs on one event loop: whoever reads calls `feed`, which starts requests in their
    order; each request that waits for something has a task. Only `serve` ends them."""

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
        self.client = Client()
        self.cursor_line = CursorLine()
        self.stops = Stops(self.debugger)
        self.sources = Sources(self)
        self.modules = Modules(self)
        self.disassembly = Disassembly(self)
        self.breakpoints = Breakpoints(self)
        self.exceptions = Exceptions(self)
        self.lifecycle = Lifecycle(self)
        self.attach = Attach(self)
        self.inspection = Inspection(self)
        self.showing = Showing(self)
        self.memory = Memory(self)
        self.statistics = Statistics(self)
        self._progress = Progress(self)
        # Whoever has handlers, `<command>_request`.
        groups: list[object] = [
            self.lifecycle,
            self.attach,
            Setting(self),
            self.exceptions,
            Execution(self),
            self.inspection,
            Evaluation(self),
            Completion(self),
            self.memory,
            Tensors(self),
            self.sources,
            self.modules,
            self.disassembly,
            Graphs(self),
            self.statistics,
            self,
        ]
        self._handlers = rules.handlers(groups)
        self._queue: deque[Pending] = deque()
        # The ordered request under way: those in the queue wait for it.
        self._ordered: Pending | None = None
        self._starting = False
        self._watch: asyncio.TimerHandle | None = None
        self._pending: dict[int, Pending] = {}
        # Done when the client leaves or vanishes: with the sentence why, or None.
        self._gone: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.events = EventTranslator(self)
        self._unsubscribe = self.debugger.subscribe(self.events)

    @property
    def all_stopped(self) -> bool:
        """No thread that the client knows of is running."""
        return all(thread.id in self.stops for thread in self.debugger.threads)

    def capabilities(self) -> types.Capabilities:
        return rules.capabilities(self._handlers)

    async def ask(self, command: str, arguments: Mapping[str, object]) -> Json:
        """What the client answers to a request of ours; RequestError when it cannot do it."""
        return await self._reverse.ask(command, arguments)

    async def serve(self) -> str | None:
        """Until the client disconnects or vanishes; the sentence that ended it, if one did."""
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
        """As if the client had vanished."""
        if not self._gone.done():
            self._gone.set_result(problem)

    # ---- requests: in ----------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """What came from the client."""
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
        """Nothing more comes from the client."""
        try:
            self._decoder.end()
        except FramingError as error:
            self.leave(str(error))
        else:
            self.leave()

    def accept(self, message: Json) -> None:
        """One message of the client's."""
        if self.attach.passes_on(message):
            return
        if message.get("type") == "response":
            self._reverse.answered(message)
            return
        seq, command = message.get("seq"), message.get("command")
        if not isinstance(seq, int) or message.get("type") != "request":
            self.outbox.output("important", "opstep: a message is no numbered request\n")
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
        if rule.ends_looking and self._pending:
            self._cancel(p for p in self._pending.values() if p.rule.run is Run.LOOKING)
        pending = Pending(seq, command, message.get("arguments"), handler, rule)
        self._pending[seq] = pending
        if rule.run is Run.AT_ONCE:
            self._start(pending)
        else:
            self._queue.append(pending)
            self._start_queued()

    def _start_queued(self) -> None:
        if self._starting:
            return  # A request that ended at once: the loop below goes on.
        self._starting = True
        while self._queue and self._ordered is None:
            pending = self._queue.popleft()
            if not pending.answered:  # Or it was cancelled while it waited.
                self._start(pending)
        self._starting = False

    def _start(self, pending: Pending) -> None:
        ordered = pending.rule.run is Run.ORDERED
        if ordered:
            self._ordered = pending
            pending.began = asyncio.get_running_loop().time()
            pending.holding = True
            self.outbox.hold()
        if pending.rule.run is Run.LOOKING and self.client.progress:
            self._progress.begin(pending)
        pending.task = eager.start(self._run(pending))
        if ordered and pending.task is not None and self._watch is None:
            self._watch_ordered()

    def _watch_ordered(self) -> None:
        """One clock for all: most of them are over long before it looks at them."""
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
        """All but the request that ends the session."""
        self._cancel(p for p in self._pending.values() if p.command != "disconnect")

    def cancel_commands(self, *commands: str) -> None:
        self._cancel(p for p in self._pending.values() if p.command in commands)

    @rules.request(When.ANY, Run.AT_ONCE, supportsCancelRequest=True)
    async def cancel_request(self, arguments: Arguments) -> Json:
        seq = arguments.optional_integer("requestId")
        progress = arguments.optional_string("progressId")
        pending = self._pending.get(seq) if seq is not None else None
        if progress is not None:
            pending = self._progress.find(progress)
        # One that is over, or that changes something, is left alone: its response says so.
        if pending is not None and pending.rule.run is Run.LOOKING:
            self._cancel(iter([pending]))
        return {}


def _cancelled(pending: Pending) -> str:
    what = f"the {pending.command}" if pending.command in ("launch", "restart") else "this"
    return f"{what} was cancelled"
