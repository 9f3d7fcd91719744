"""The debugger's methods for taps, which log values of ops while they run."""

from __future__ import annotations

import getpass
import os
import socket
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from opstep_server.hub import Hub
from opstep_server.model import ExecutorProcess
from opstep_server.taps import removal
from opstep_server.taps.latest_records import LatestRecords
from opstep_server.taps.registry import Wanted
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.taps.local_sinks import LocalSinks
    from opstep_server.taps.settings import Settings, SinkSettings
    from opstep_server.taps.sink_pipe import Counts
    from opstep_server.taps.sinks.base import Sink

# Records a second for views: more would cost the run, and nobody would see them.
VIEW_RECORDS = 5000.0
# Taps for views have another owner than the taps that the user logs.
_VIEWS = "views"


def who(face: str) -> str:
    """The user's name in the audit: `ada@host (opstep log)`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.geteuid())
    return f"{user}@{socket.gethostname()} ({face})"


class TapApi:
    """The taps of one user. Their sinks live until the user leaves."""

    _hub: Hub
    _shares: bool
    _user: str
    _local_sinks: LocalSinks | None = None

    @property
    def taps(self) -> list[tuple[int, pb.TapStatus]]:
        """The last statuses of the user's taps, with the executors' numbers."""
        return self._hub.taps.statuses(self._user)

    @property
    def sinks(self) -> list[SinkSettings]:
        """The sinks of the settings, and those that programs asked for."""
        return self._local_sinks.sinks if self._local_sinks is not None else []

    @property
    def is_alone(self) -> bool:
        """Whether no guest uses the processes through this debugger."""
        return self._hub.user_count <= 1

    def answer_programs(self) -> None:
        """Sends taps of programs to the sinks of this user, unless a program names others."""
        from opstep_server.taps.program_requests import ProgramRequests

        assert self._local_sinks is not None
        self._hub.tap_requests = ProgramRequests(self._local_sinks, self._push, self._hub.end_taps)

    @property
    def sink_counts(self) -> dict[str, Counts]:
        return self._local_sinks.counts if self._local_sinks is not None else {}

    async def set_taps(
        self,
        settings: Settings,
        *,
        who: str,
        tell: Callable[[str], None] = lambda text: None,
        sinks: Sequence[tuple[str, Sink]] = (),
        only: ExecutorProcess | None = None,
    ) -> list[tuple[int, pb.TapStatus]]:
        """Replaces all taps of this user, also in executors that come later, or in one only.

        Sinks report problems by `tell`; some may be given beside those of the settings.
        """
        if self._local_sinks is None:
            self._local_sinks = self._collect(settings.server, who, tell)
            for name, sink in sinks:
                self._local_sinks.also(name, sink)
            self._local_sinks.only = only.hello.identity if only is not None else ""
        self._hub.taps.bring_back(self._user)
        await self._push(self._local_sinks.use(settings))
        return self.taps

    async def stop_taps(
        self, seconds: float = removal.LAST_SECONDS
    ) -> list[tuple[int, pb.TapStatus]]:
        """Stops recording, waits for records on the way, and returns the counts."""
        if self._local_sinks is None:
            return []
        await self._push(self._local_sinks.stop())
        mine = [status.uid for _, status in self.taps]
        found: dict[int, list[pb.TapStatus]] = {}
        words = removal.last_words(self._hub.roster.executors, mine, seconds)
        async for executor, statuses in words:
            found[executor.id] = statuses or found.get(executor.id, [])
        return [(id, status) for id, statuses in found.items() for status in statuses]

    async def list_taps(self) -> list[tuple[ExecutorProcess, pb.TapStatuses]]:
        """The taps of all users, with their recent changes."""
        found = []
        for executor in self._hub.roster.executors:
            # An executor that does not answer is left out.
            if (told := await removal.listed(executor)) is not None:
                found.append((executor, told))
        return found

    async def drop_taps(
        self, uids: Sequence[str], who: str, only: ExecutorProcess | None = None
    ) -> None:
        """Removes these taps of any user, in all processes or in one."""
        await self._hub.drop_taps(pb.DropTaps(uids=uids, who=who), only)

    async def watch(self, every: int, who: str) -> LatestRecords:
        """Keeps the newest statistics of all outputs, in every Nth run, until `unwatch`."""
        latest = LatestRecords()
        tap = pb.Tap(
            uid=uuid.uuid4().hex,
            name="views",
            who=who,
            where=pb.Breakpoint(pattern="*"),
            statistics=True,
            every=every,
            per_second=VIEW_RECORDS,
            with_server=True,
        )
        self._hub.taps.replace(self._user + _VIEWS, [Wanted(tap, once=True)], latest)
        await self._hub.push_taps()
        return latest

    async def unwatch(self) -> None:
        if self._hub.taps.drop(self._user + _VIEWS):
            await self._hub.push_taps()

    def unwatchable(self) -> str:
        """Why executors keep no statistics for views, one sentence; "" when they do."""
        statuses = self._hub.taps.statuses(self._user + _VIEWS)
        return next((status.ended for _, status in statuses if status.ended), "")

    async def close_taps(self) -> None:
        """Closes the sinks; records that they have not taken by then are lost."""
        if self._local_sinks is not None:
            await self._local_sinks.close()

    def _collect(self, server: str, who: str, tell: Callable[[str], None]) -> LocalSinks:
        # Imported here: it needs NumPy, and most sessions need no taps.
        from opstep_server.taps.local_sinks import LocalSinks

        if server:
            self._hub.taps.use(server)
        return LocalSinks(server or self._hub.taps.server + self._user, who, tell)

    async def _push(self, wanted: Sequence[Wanted]) -> None:
        assert self._local_sinks is not None
        self._hub.taps.replace(self._user, wanted, self._local_sinks)
        await self._hub.push_taps()
