"""The hub that all users of a server share: its addresses, executors and settings.

Everything happens on one event loop. Messages from executors are handled at once and in order
(`joined`, `received`, `lost`), so the state that users see is never older than their event.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from opstep_server.breakpoints import FIRST_AIM, Breakpoints
from opstep_server.connection import Connection
from opstep_server.faults import SharedFaults
from opstep_server.model import (
    BreakpointChanged,
    ConnectionLost,
    ContinuedEvent,
    DebuggerError,
    Event,
    ExecutorJoined,
    ExecutorLost,
    ExecutorProcess,
    FaultsChanged,
    Logged,
    Output,
    StoppedEvent,
    TapsChanged,
    Thread,
    ThreadEnded,
)
from opstep_server.roster import Roster
from opstep_server.taps import removal
from opstep_server.taps.registry import TapRegistry, Wanted
from opstep_server.transport import Server
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.taps.local_sinks import LocalSinks
    from opstep_server.taps.program_requests import ProgramRequests

DETACH_SECONDS = 2.0
# The owner of taps that programs ask for, unless a user collects them.
_PROGRAMS = "programs/"
# A lost process may come back within this time, and then finds the taps that it asked for.
RETURN_SECONDS = 60.0
# How long taps stay for a process that said goodbye, until sinks have its last records.
SETTLE_SECONDS = 10.0

Take = Callable[[Event], None]


class Hub:
    """Without users, executors run as if there were no debugger."""

    def __init__(self) -> None:
        self.server = Server(self)
        self.roster = Roster(self._emit)
        self.breakpoints = Breakpoints()
        self.faults = SharedFaults()
        self.taps = TapRegistry()
        self.taps.on_late = self._tap_late
        # Answers programs that ask for taps; None: the hub makes one for the first request.
        self.tap_requests: ProgramRequests | None = None
        self._asked: LocalSinks | None = None
        # By identity, timers that remove the taps of processes that are gone.
        self._leaving: dict[str, asyncio.TimerHandle] = {}
        # Executors whose log points have written something.
        self._logging: set[int] = set()
        # The next executor stops at its first op.
        self.stop_first = False
        self._users: dict[str, Take] = {}
        # The users for whom executors keep every value for inspection.
        self._present: set[str] = set()
        self._names = itertools.count(1)
        self._push_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- users -----------------------------------------------------------------------------------

    def enter(self, take: Take, present: bool = True) -> str:
        """Adds a user, who gets all events by `take`; owners of the user begin with the result.

        A user who is not present only logs, and runs stay as fast as without a debugger.
        """
        user = f"{next(self._names)}/"
        self._users[user] = take
        if present:
            self.come(user)
        return user

    @property
    def user_count(self) -> int:
        return len(self._users)

    def come(self, user: str) -> None:
        """Makes the user present from now on."""
        self._present.add(user)
        if len(self._present) == 1 and self.roster.executors:
            self.background(self._tell_presence())

    async def leave(self, user: str) -> None:
        """Removes all that the user has set; after the last user, stopped threads go on."""
        if self._users.pop(user, None) is None:
            return
        was_last = self._present == {user}
        self._present.discard(user)
        had_taps = self.taps.drop(user)
        self.breakpoints.drop(user)
        self.faults.drop(user)
        # An executor that does not answer learns it later, or never: we do not wait.
        with contextlib.suppress(asyncio.TimeoutError):
            going = self.background(self._gone(was_last, had_taps))
            await asyncio.wait_for(asyncio.shield(going), DETACH_SECONDS)

    async def _gone(self, was_last: bool, had_taps: bool) -> None:
        if was_last:
            await self._tell_presence()
        await self.push_breakpoints()
        await self.push_faults()
        if had_taps:
            await self.push_taps()

    async def close(self) -> None:
        if self._asked is not None:
            await self._asked.close()
        self._users.clear()
        self._present.clear()
        await self.server.stop()
        for timer in self._leaving.values():
            timer.cancel()
        for task in list(self._tasks):
            task.cancel()

    def _emit(self, event: Event) -> None:
        if isinstance(event, ThreadEnded) and self.breakpoints.forget_aims(event.thread.id):
            self.background(self.push_breakpoints())
        for take in list(self._users.values()):
            take(event)

    def _emit_to(self, owner: str, event: Event) -> None:
        """Sends the event to the user who owns the breakpoint."""
        take = self._users.get(owner.partition("/")[0] + "/")
        if take is not None:
            take(event)

    async def _tell_presence(self) -> None:
        with contextlib.suppress(DebuggerError):
            present = pb.SetPresence(present=bool(self._present))
            await self.to_all(lambda: pb.Command(set_presence=present))

    # ---- messages to executors -------------------------------------------------------------------

    async def push_breakpoints(self) -> None:
        # One push at a time: statuses of an older list must not overwrite those of a newer one.
        async with self._push_lock:
            for executor in self.roster.executors:
                command = pb.Command(set_breakpoints=self._breakpoints_for(executor))
                try:
                    reply = await executor.ask(command)
                except ConnectionLost:
                    continue  # It gets the whole list in its next welcome.
                for status in reply.breakpoints.statuses:
                    self._status(executor, status)

    def _breakpoints_for(self, executor: ExecutorProcess) -> pb.SetBreakpoints:
        return self.breakpoints.message(executor.id, {each.id for each in self.roster.executors})

    async def push_faults(self) -> None:
        async with self._push_lock:
            for executor in self.roster.executors:
                command = pb.Command(set_fault_filters=self.faults.message())
                try:
                    reply = await executor.ask(command)
                except ConnectionLost:
                    continue
                except DebuggerError as error:
                    # Its policy forbids all of them.
                    self.faults.refuse(executor.id, str(error))
                else:
                    self.faults.report(executor.id, reply.faults.messages)

    async def push_taps(self) -> None:
        async with self._push_lock:
            for executor in self.roster.executors:
                wanted = self.taps.message(executor)
                if wanted is None:
                    return
                try:
                    reply = await executor.ask(pb.Command(set_taps=wanted))
                except ConnectionLost:
                    continue
                except DebuggerError as error:
                    self._tap_statuses(executor, self.taps.refused(executor, str(error)))
                else:
                    self._tap_statuses(executor, reply.taps.statuses)

    async def drop_taps(self, drop: pb.DropTaps, only: ExecutorProcess | None = None) -> None:
        """Removes taps, also those of other users; in all executors, or in one."""
        executors = self.roster.executors
        where = executors if only is None else [only]
        await self.end_taps(drop.uids, where)
        for executor in where:
            gone = self.taps.known(executor, drop.uids)
            for status in gone:
                status.ended = removal.REMOVED + drop.who
            self._tap_statuses(executor, gone)
        if only is None:
            self.taps.remove(drop.uids)
            await self.to_all(lambda: pb.Command(drop_taps=drop))
        else:
            others = [each for each in executors if each != only]
            self.taps.remove_from(only, drop.uids, others)
            await only.ask(pb.Command(drop_taps=drop))

    async def end_taps(self, uids: Sequence[str], executors: Sequence[ExecutorProcess]) -> None:
        """Before they are removed: waits for records on the way, and takes the last counts."""
        mine = [uid for uid in uids if self.taps.owner(uid)]
        if not mine:
            return
        self.taps.silence(mine, executors)
        await self.push_taps()
        async for executor, statuses in removal.last_words(executors, mine):
            self._tap_statuses(executor, statuses)

    async def end_all_taps(self, executors: Sequence[ExecutorProcess]) -> None:
        """Before we leave: guests get the records on the way and the last counts of their taps."""
        with contextlib.suppress(DebuggerError):
            await self.end_taps(self.taps.uids, executors)

    async def to_all(self, command: Callable[[], pb.Command]) -> None:
        """Raises an executor's error when all of them failed."""
        refusals: list[DebuggerError] = []
        executors = self.roster.executors
        for executor in executors:
            try:
                await executor.ask(command())
            except ConnectionLost:
                continue
            except DebuggerError as error:
                refusals.append(error)
        if refusals and len(refusals) == len(executors):
            raise refusals[0]

    async def detach(self, executor: ExecutorProcess) -> None:
        command = pb.Command(detach=pb.Detach())
        executor.connection.let_go = True
        # An executor that does not answer sees the stream close, which has the same effect.
        with contextlib.suppress(DebuggerError, asyncio.TimeoutError):
            await asyncio.wait_for(executor.ask(command), DETACH_SECONDS)

    # ---- messages from executors -----------------------------------------------------------------

    def joined(self, connection: Connection) -> pb.Welcome:
        for known in self.roster.executors:
            # It came back before we noticed that it was gone.
            if known.hello.identity and known.hello.identity == connection.hello.identity:
                known.connection.drop()
        if (timer := self._leaving.pop(connection.hello.identity, None)) is not None:
            timer.cancel()
        executor = self.roster.join(connection)
        welcome = pb.Welcome(
            breakpoints=self._breakpoints_for(executor),
            fault_filters=self.faults.message(),
            stop_on_entry=self.stop_first,
            present=bool(self._present),
            taps=self.taps.message(executor),
        )
        self.stop_first = False
        self._emit(ExecutorJoined(executor))
        return welcome

    def received(self, connection: Connection, message: pb.FromExecutor) -> None:
        executor = self.roster.executor(connection)
        kind = message.WhichOneof("message")
        if kind == "stopped":
            self._stopped(executor, message.stopped)
        elif kind == "continued":
            thread = self.roster.wire_thread(executor, message.continued.thread)
            if thread.stopped is not None:
                self.continued(thread, message.continued.message)
        elif kind == "thread":
            self.roster.thread_event(executor, message.thread)
        elif kind == "program":
            self.roster.compiled(executor, message.program)
        elif kind == "breakpoint":
            self._status(executor, message.breakpoint.status)
        elif kind == "logs":
            self._logged(executor, message.logs)
        elif kind == "faults":
            for user in self.faults.report(executor.id, message.faults.messages):
                self._emit_to(user, FaultsChanged(self.faults.of(user).problems))
        elif kind == "tap_records":
            self.taps.records(executor, message.tap_records)
        elif kind == "tap_source":
            self.taps.source(executor, message.tap_source)
        elif kind == "tap_piece":
            self.taps.piece(executor, message.tap_piece)
        elif kind == "tap_statuses":
            self._tap_statuses(executor, message.tap_statuses.statuses)
            self.taps.left(executor, message.tap_statuses.left)
        elif kind == "tap_request":
            self.background(self._answer_tap_request(executor, message.tap_request))

    def lost(self, connection: Connection, message: str) -> None:
        # Lines that were logged before a stop have already come.
        stood = self.roster.stands(connection)
        executor = self.roster.leave(connection)
        self.faults.forget(executor.id)
        for owner, statuses in self.taps.lost(executor).items():
            self._emit_to(owner, TapsChanged(executor, statuses))
        for state in self.breakpoints.forget(executor.id):
            self._emit_to(self.breakpoints.owner(state.id), BreakpointChanged(state))
        if executor.id in self._logging and message and not stood:
            what = f"process {executor.pid} ended without a word: lines of its log points that were"
            self._emit(Logged(None, f"{what} still there are neither shown nor counted", 0))
        self._logging.discard(executor.id)
        self._emit(ExecutorLost(executor, message))
        self._leave_taps(executor, ended=not message and not connection.let_go)

    def _leave_taps(self, executor: ExecutorProcess, ended: bool) -> None:
        """Removes the process's taps when it will not come back."""
        identity = executor.hello.identity
        here = any(each.hello.identity == identity for each in self.roster.executors)
        if self.tap_requests is None or not identity or here:
            return

        def over() -> None:
            del self._leaving[identity]
            if self.tap_requests is not None:
                self.background(self.tap_requests.ended(identity))

        seconds = SETTLE_SECONDS if ended else RETURN_SECONDS
        self._leaving[identity] = asyncio.get_running_loop().call_later(seconds, over)

    def continued(self, thread: Thread, message: str) -> None:
        thread.stopped = None
        self._emit(ContinuedEvent(thread, message))

    def _stopped(self, executor: ExecutorProcess, stopped: pb.Stopped) -> None:
        thread = self.roster.wire_thread(executor, stopped.thread)
        thread.stopped = stopped
        # Before a user can resume the thread.
        if self.breakpoints.forget_aims(thread.id):
            self.background(self.push_breakpoints())
        _hide_aims(stopped)
        spent = []
        for id in stopped.breakpoints:
            state = self.breakpoints.hit(id)
            if state is not None and state.spec.temporary:
                spent.append((self.breakpoints.owner(id), self.breakpoints.remove(id)))
        self._emit(StoppedEvent(thread, stopped))
        for owner, state in spent:
            self._emit_to(owner, BreakpointChanged(state, removed=True))
        if spent and len(self.roster.executors) > 1:
            self.background(self.push_breakpoints())

    def _logged(self, executor: ExecutorProcess, logs: pb.Logs) -> None:
        self._logging.add(executor.id)
        for id, count in sorted(logs.dropped_by.items()):
            self.breakpoints.hit(id, count)
            event = Logged(None, dropped_text(count, id), id, count, executor=executor)
            self._emit_to(self.breakpoints.log_owner(id), event)
        if rest := max(0, logs.dropped - sum(logs.dropped_by.values())):
            self._emit(Logged(None, dropped_text(rest), 0, rest, executor=executor))
        for record in logs.records:
            self.breakpoints.hit(record.breakpoint)
            thread = self.roster.wire_thread(executor, record.thread)
            text = self.breakpoints.log_text(record)
            owner = self.breakpoints.log_owner(record.breakpoint)
            event = Logged(thread, text, record.breakpoint, record=record, executor=executor)
            self._emit_to(owner, event)

    def _status(self, executor: ExecutorProcess, status: pb.BreakpointStatus) -> None:
        state = self.breakpoints.report(executor.id, status)
        if state is not None and state.id < FIRST_AIM:
            self._emit_to(self.breakpoints.owner(state.id), BreakpointChanged(state))

    def _tap_statuses(self, executor: ExecutorProcess, statuses: Sequence[pb.TapStatus]) -> None:
        for owner, mine in self.taps.report(executor, statuses).items():
            self._emit_to(owner, TapsChanged(executor, mine))
        # Another server reports the removal: do not set them there again.
        if gone := [each.uid for each in statuses if each.ended.startswith(removal.REMOVED)]:
            others = [each for each in self.roster.executors if each != executor]
            self.taps.remove_from(executor, gone, others)

    def _tap_late(self, executor: ExecutorProcess, owner: str, status: pb.TapStatus) -> None:
        self._emit_to(owner, TapsChanged(executor, [status]))

    async def _answer_tap_request(self, executor: ExecutorProcess, request: pb.TapRequest) -> None:
        answer = pb.TapAnswer(id=request.id)
        try:
            if self.tap_requests is None:
                self.tap_requests = self._collect_for_programs()
            answer.uid = await self.tap_requests.answer(executor, request.text)
        except DebuggerError as error:
            answer.error = str(error)
        executor.connection.tell(pb.ToExecutor(tap_answer=answer))

    def _collect_for_programs(self) -> ProgramRequests:
        """Makes the sinks for taps of programs that no user collects."""
        # Imported here: it needs NumPy, and most sessions need no taps.
        from opstep_server.taps.local_sinks import LocalSinks
        from opstep_server.taps.program_requests import ProgramRequests

        collected = self._asked = LocalSinks(self.taps.server, "", self._tell_console)

        async def push(wanted: Sequence[Wanted]) -> None:
            self.taps.replace(_PROGRAMS, wanted, collected)
            await self.push_taps()

        return ProgramRequests(collected, push, self.end_taps)

    def _tell_console(self, text: str) -> None:
        self._emit(Output("console", f"{text}\n"))

    def background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs the work even if its caller is gone, at most until `close`."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def dropped_text(count: int, breakpoint: int = 0) -> str:
    what = "message was" if count == 1 else "messages were"
    of = f" of log point {breakpoint}" if breakpoint else ""
    return f"{count} log {what} dropped{of}: they came faster than they can be shown"


def _hide_aims(stopped: pb.Stopped) -> None:
    """Turns a stop at a hidden place into the end of a step."""
    told = [id for id in stopped.breakpoints if id < FIRST_AIM]
    if len(told) == len(stopped.breakpoints):
        return
    del stopped.breakpoints[:]
    stopped.breakpoints.extend(told)
    if not told and stopped.reason == pb.STOP_BREAKPOINT:
        stopped.reason = pb.STOP_STEP
