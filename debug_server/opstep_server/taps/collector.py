"""A debug server whose user is a file of taps: processes dial it, records go to its sinks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import replace

from opstep_server.access import Endpoint
from opstep_server.debugger import Debugger
from opstep_server.hub import Hub
from opstep_server.tapping import who
from opstep_server.taps import config
from opstep_server.taps.reports import Reports
from opstep_server.taps.settings import Settings

RELOAD_SECONDS = 0.5


def settings_of(path: str) -> Settings:
    """Of a file; it is the same server whenever it is the same file."""
    found = config.read(path)
    server = found.server or f"{socket.gethostname()}:{os.path.realpath(path)}"
    return replace(found, server=server)


class Collector:
    """Task: one, which looks at the file and writes counts, until `close`."""

    def __init__(self, path: str | None, tell: Callable[[str], None]) -> None:
        """Raises ConfigError when the file is wrong; without one, programs say what they want."""
        self._path = path
        self._tell = tell
        self._stamp = _stamp(path)
        self._settings = settings_of(path) if path else Settings()
        self._hub = Hub()
        self._reports = Reports(tell)
        self._debugger = Debugger(self._hub, present=False)
        self._debugger.subscribe(self._reports.take)
        self._debugger.replay()
        self._debugger.share()
        self._watching: asyncio.Task[None] | None = None

    async def start(self, endpoint: Endpoint | None) -> str:
        """Listens, and returns the address to dial."""
        await self._debugger.set_taps(self._settings, who=self._who, tell=self._tell)
        self._debugger.answer_programs()
        address = await self._debugger.listen(endpoint)
        self._watching = asyncio.create_task(self._watch())
        return address

    async def close(self) -> None:
        """Sinks get what there is, as far as that takes no longer than their patience."""
        if self._watching is not None:
            self._watching.cancel()
        # Not by leaving: the taps stay in the processes, for when it comes again.
        await self._debugger.close_taps()
        await self._hub.close()
        self._write_counts()

    @property
    def executors(self) -> int:
        return len(self._debugger.executors)

    @property
    def _who(self) -> str:
        return who(f"opstep collect {os.path.basename(self._path)}" if self._path else "opstep")

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            stamp = _stamp(self._path)
            if self._path and stamp not in (None, self._stamp):
                self._stamp = stamp
                await self._reload(self._path)
            for id, status in self._debugger.taps:
                if executor := next((e for e in self._debugger.executors if e.id == id), None):
                    self._reports.note(executor, [status])
            self._reports.poll()
            self._write_counts()

    async def _reload(self, path: str) -> None:
        """A bad new version leaves the old one in force."""
        try:
            settings = settings_of(path)
        except config.ConfigError as error:
            self._tell(f"{error}; the taps stay as they were")
            return
        self._settings = settings
        await self._debugger.set_taps(settings, who=self._who)
        self._tell(f"{path} has changed: {len(settings.taps)} taps")

    def _write_counts(self) -> None:
        sinks = [each for each in self._debugger.sinks if each.kind == "jsonl"]
        self._reports.write([each.path for each in sinks if each.path != "-"])


def _stamp(path: str | None) -> tuple[int, int, int] | None:
    """What changes when the file does; None while it is not there, as editors do for a moment."""
    with contextlib.suppress(OSError):
        if path:
            found = os.stat(path)
            return found.st_mtime_ns, found.st_size, found.st_ino
    return None
