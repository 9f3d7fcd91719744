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

# Views show the newest records: more of them cost the run, and nobody sees them.
VIEW_RECORDS = 5000.0
# What is set for views has an owner of its own beside what the user logs.
_VIEWS = "views"


def who(face: str) -> str:
    """For the audit: `ada@host (opstep log)`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.geteuid())
    return f"{user}@{socket.gethostname()} ({face})"


class TapApi:
    """What one user has set. Its sinks live until it leaves."""

    _hub: Hub
    _shares: bool
    _user: str
    _local_sinks: LocalSinks | None = None

    @property
    def taps(self) -> list[tuple[int, pb.TapStatus]]:
        """What executors last said of them, with the executors' numbers."""
        return self._hub.taps.statuses(self._user)

    @property
    def sinks(self) -> list[SinkSettings]:
        """Those of the settings, and those that programs asked for."""
        return self._local_sinks.sinks if self._local_sinks is not None else []

    @property
    def is_alone(self) -> bool:
        """Nobody else has come to the processes through this one."""
        return self._hub.user_count <= 1

    def answer_programs(self) -> None:
        """What programs ask for goes to the sinks of this user, if they say nothing else."""
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
        """Makes these all that this user has, also in executors that come later, or in one only.

        Sinks tell of their troubles with `tell`; some may be given beside those of the settings.
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
        """Nothing new is recorded; waits for what is on the way, and says what was counted."""
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
        """All there are, whoever set them, with what was changed of late."""
        found = []
        for executor in self._hub.roster.executors:
            # One that does not answer is left out.
            if (told := await removal.listed(executor)) is not None:
                found.append((executor, told))
        return found

    async def drop_taps(
        self, uids: Sequence[str], who: str, only: ExecutorProcess | None = None
    ) -> None:
        """Removes these, whoever set them, in all processes or in one."""
        await self._hub.drop_taps(pb.DropTaps(uids=uids, who=who), only)

    async def watch(self, every: int, who: str) -> LatestRecords:
        """Keeps the newest statistics of all that ops make, in every Nth run, until `unwatch`."""
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
        """Closes the sinks; what they have not taken by then is lost."""
        if self._local_sinks is not None:
            await self._local_sinks.close()

    def _collect(self, server: str, who: str, tell: Callable[[str], None]) -> LocalSinks:
        # Only here: it needs NumPy, and most who debug need no taps.
        from opstep_server.taps.local_sinks import LocalSinks

        if server:
            self._hub.taps.use(server)
        return LocalSinks(server or self._hub.taps.server + self._user, who, tell)

    async def _push(self, wanted: Sequence[Wanted]) -> None:
        assert self._local_sinks is not None
        self._hub.taps.replace(self._user, wanted, self._local_sinks)
        await self._hub.push_taps()
