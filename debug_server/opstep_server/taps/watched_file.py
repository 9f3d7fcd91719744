"""A file of taps that may change while it is used."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from opstep_server.taps import config
from opstep_server.taps.disk_worker import DiskWorker
from opstep_server.taps.settings import Settings

LOOK_SECONDS = 0.5


class WatchedFile:
    def __init__(self, path: str, tell: Callable[[str], None]) -> None:
        """Raises ConfigError when the first version is wrong."""
        self._path = path
        self._tell = tell
        self._stamp = _stamp(path)
        self._disk: DiskWorker[Settings | config.ConfigError | None] = DiskWorker()
        self.settings = config.read(path)

    def look(self) -> Settings | None:
        """The new settings, if the file has changed; a bad version leaves the old one in force.

        Call this now and then: it never waits for a disk, so a later call sees the change.
        """
        settings = self._disk.take()
        self._disk.start(self._read)
        if isinstance(settings, config.ConfigError):
            self._tell(f"{settings}; the taps stay as they were")
            return None
        if settings is None or settings == self.settings:
            return None
        self.settings = settings
        number = len(settings.taps)
        self._tell(f"{self._path} has changed: {number} tap{'' if number == 1 else 's'}")
        return settings

    def _read(self) -> Settings | config.ConfigError | None:
        stamp = _stamp(self._path)
        # Editors remove the file for a moment.
        if stamp is None or stamp == self._stamp:
            return None
        self._stamp = stamp
        try:
            return config.read(self._path)
        except config.ConfigError as error:
            return error


def _stamp(path: str) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return found.st_mtime_ns, found.st_size, found.st_ino
    return None
