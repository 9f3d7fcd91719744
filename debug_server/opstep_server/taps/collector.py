"""A debug server that is set up by a file of taps: processes dial it, records go to its sinks."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import replace

from opstep_server.access import Endpoint
from opstep_server.debugger import Debugger
from opstep_server.hub import Hub
from opstep_server.model import Event, TapsChanged
from opstep_server.tap_api import who
from opstep_server.taps.settings import Settings
from opstep_server.taps.tap_reports import TapReports
from opstep_server.taps.watched_file import LOOK_SECONDS, WatchedFile


def server_of(path: str, settings: Settings) -> Settings:
    """The settings with a server name that stays the same for the same file."""
    server = settings.server or f"{socket.gethostname()}:{os.path.realpath(path)}"
    return replace(settings, server=server)


class Collector:
    """One task checks the file and writes counts until `close`."""

    def __init__(self, path: str | None, tell: Callable[[str], None]) -> None:
        """Raises ConfigError when the file is wrong; without a file, programs ask for taps."""
        self._path = path
        self._tell = tell
        self._file = WatchedFile(path, tell) if path else None
        self._hub = Hub()
        self._reports = TapReports(tell)
        self._debugger = Debugger(self._hub, present=False)
        # Directories that get the last counts, even if a program's tap and its sink are gone.
        self._last: set[str] = set()
        self._debugger.subscribe(self._take)
        self._debugger.replay()
        self._debugger.share()
        self._watching: asyncio.Task[None] | None = None

    async def start(self, endpoint: Endpoint | None) -> str:
        """Listens, and returns the address to dial."""
        await self._set(self._file.settings if self._file is not None else Settings())
        self._debugger.answer_programs()
        address = await self._debugger.listen(endpoint)
        self._watching = asyncio.create_task(self._watch())
        return address

    async def close(self) -> None:
        """Gives the remaining records to the sinks, within their time limit."""
        if self._watching is not None:
            self._watching.cancel()
        # Without leaving the hub: the taps stay in the processes until the collector returns.
        await self._debugger.close_taps()
        await self._hub.close()
        await self._reports.write_last(sorted({*self._last, *self._directories}))

    @property
    def executors(self) -> int:
        return len(self._debugger.executors)

    @property
    def _who(self) -> str:
        return who(f"opstep collect {os.path.basename(self._path)}" if self._path else "opstep")

    async def _set(self, settings: Settings) -> None:
        if self._path:
            settings = server_of(self._path, settings)
        await self._debugger.set_taps(settings, who=self._who, tell=self._tell)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._file is not None and (changed := self._file.look()) is not None:
                await self._set(changed)
            for id, status in self._debugger.taps:
                if executor := next((e for e in self._debugger.executors if e.id == id), None):
                    self._reports.note(executor, [status])
            self._reports.poll()
            self._reports.write(sorted({*self._last, *self._directories}))
            self._last.clear()

    def _take(self, event: Event) -> None:
        self._reports.take(event)
        if isinstance(event, TapsChanged):
            self._last.update(self._directories)

    @property
    def _directories(self) -> list[str]:
        """The directories that get counts."""
        sinks = [each for each in self._debugger.sinks if each.kind == "jsonl"]
        return [each.path for each in sinks if each.path != "-"]
