"""Attached processes: rung by their doorbells, or shared with the debugger that has them.

When the debugger that we share a process with leaves, the process is rung again, and goes on with
our breakpoints and taps. Of several that share it, one is first and the others share with that one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from opstep_server import doorbell, script_process
from opstep_server.access import Place, dial_place
from opstep_server.hub import Hub
from opstep_server.model import (
    DebuggerError,
    Event,
    ExecutorJoined,
    ExecutorLost,
    ExecutorMoved,
    ExecutorProcess,
    TapsChanged,
)
from opstep_server.wire import debug_pb2 as pb

ATTACH_SECONDS = 10.0
# How long a process may take to come back when its debugger has left, in all and in one attempt.
_RETURN_SECONDS, _ATTEMPT_SECONDS = 6.0, 2.0
_PAUSE_SECONDS = 0.05


class Attachments:
    def __init__(
        self,
        hub: Hub,
        listen: Callable[[], Awaitable[str]],
        tell: Callable[[Event], None],
    ) -> None:
        """`listen` returns our own address; `tell` sends an event to the user."""
        self._hub = hub
        self._listen = listen
        self._tell = tell
        # The awaited processes by pid, and the pids of those that another debugger passes on.
        self._awaited: dict[int, asyncio.Future[ExecutorProcess]] = {}
        self._shared: set[int] = set()
        # By pid, those that come back to us from a debugger that has left, and since when.
        self._returning: dict[int, tuple[ExecutorLost, float]] = {}
        # By uid, the last statuses of our taps.
        self._taps: dict[str, pb.TapStatus] = {}

    def shares(self, executor: ExecutorProcess) -> bool:
        """Whether another debugger passes it on to us."""
        return executor.pid in self._shared

    async def attach(self, pid: int) -> ExecutorProcess:
        """Makes the process dial us, or shares it, and waits until it is here."""
        address = await self._listen()
        here = self._awaited[pid] = asyncio.get_running_loop().create_future()
        try:
            self._shared.discard(pid)
            try:
                await doorbell.ring(pid, address)
            except DebuggerError:
                place = await _debugger_of(pid)
                if place is None or str(place.address) == address:
                    raise
                self._shared.add(pid)
                await self._hub.server.visit(
                    place.address, place.token, place.roots, lambda why: None
                )
            return await asyncio.wait_for(here, ATTACH_SECONDS)
        except asyncio.TimeoutError:
            raise DebuggerError(
                f"process {pid} was rung but did not come within {ATTACH_SECONDS:g} s"
            ) from None
        finally:
            self._awaited.pop(pid, None)

    def take(self, event: Event) -> bool:
        """Sees each event first; returns whether the user must not see it."""
        if isinstance(event, TapsChanged) and event.executor.pid in self._shared:
            self._taps.update((status.uid, status) for status in event.statuses)
        elif isinstance(event, ExecutorJoined):
            self._returned(event.executor)
            here = self._awaited.get(event.executor.pid)
            if here is not None and not here.done():
                here.set_result(event.executor)
            elif self._awaited and self._shared.intersection(self._awaited):
                # The other debugger may have more processes; only this one was asked for.
                self._hub.background(self._hub.detach(event.executor))
        elif isinstance(event, ExecutorLost) and event.executor.pid in self._shared:
            if event.executor.connection.let_go:
                return False
            self._hub.background(self._take_over(event))
            return True
        return False

    async def _take_over(self, lost: ExecutorLost) -> None:
        executor, loop = lost.executor, asyncio.get_running_loop()
        pid, began = executor.pid, loop.time()
        self._hub.taps.continue_elsewhere(executor, self._taps)
        self._taps.clear()
        self._hub.roster.count_anew()  # Its threads keep their numbers.
        self._returning[pid] = lost, began
        why = f"process {pid} has ended"
        while script_process.alive(pid) and loop.time() - began < _RETURN_SECONDS:
            await self._hub.server.end_visit()
            try:
                await asyncio.wait_for(self.attach(pid), _ATTEMPT_SECONDS)
                return
            except asyncio.TimeoutError:
                why = f"the debugger that had process {pid} has left, and the process did not come"
            except DebuggerError as error:
                why = f"the debugger that had process {pid} has left: {error}"
            await asyncio.sleep(_PAUSE_SECONDS)
        self._returning.pop(pid, None)
        self._shared.discard(pid)
        if not script_process.alive(pid):
            why = f"process {pid} has ended"
        self._tell(ExecutorLost(executor, why))

    def _returned(self, now: ExecutorProcess) -> None:
        """Tells the user before anything else comes from there."""
        lost, began = self._returning.pop(now.pid, (None, 0.0))
        if lost is None:
            return
        seconds = asyncio.get_running_loop().time() - began
        who = "another one that shares it" if self.shares(now) else "this one"
        message = (
            f"the debugger that had process {now.pid} has left: {who} has it now, and what is set "
            f"here holds again; for {seconds:.2g} s nothing stopped or was logged"
        )
        self._tell(ExecutorMoved(lost.executor, now, message, lost.message))


async def _debugger_of(pid: int) -> Place | None:
    """The private socket of the debugger that has the process, if it has one."""
    found = next((each for each in await doorbell.running() if each.pid == pid), None)
    if found is None or not found.server.startswith("unix:"):
        return None
    return dial_place(found.server)
