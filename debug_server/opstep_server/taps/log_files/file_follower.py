"""A follower of files of lines that grow, rotate, are cut off and made again.

What is there at first can be read from its end backwards, so that the newest is known at once.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

CHUNK = 1 << 18
# No line of ours is longer; one that is comes in pieces, which nobody can read.
_LONGEST = 1 << 24
# The first bytes of a file tell whether it is the one that we know.
_HEAD = 256
_TIME = re.compile(rb'"time": ?"([^"]+)"')


@dataclass
class _File:
    path: str
    head: bytes
    # From `start` to `end` was read; both stand at the beginning of a line.
    start: int
    end: int
    size: int
    changed: int

    @property
    def order(self) -> tuple[str, str]:
        """Of the files of a log, by the time of their first record."""
        found = _TIME.search(self.head)
        return (found[1].decode(errors="replace") if found else "", self.path)


class Follower:
    def __init__(self, directory: Path, pattern: str, backwards: bool = False) -> None:
        """With `backwards` what is there at the first look waits to be read by `older`."""
        self._directory = directory
        self._pattern = re.compile(pattern)
        self._backwards = backwards
        # By device and inode: a file that is renamed is still the same.
        self._files: dict[tuple[int, int], _File] = {}
        # One sentence on what could not be read at the last look; "" when all could.
        self.problem = ""

    @property
    def files(self) -> int:
        return len(self._files)

    @property
    def has_older(self) -> bool:
        return any(file.start > 0 for file in self._files.values())

    @property
    def waiting(self) -> int:
        """Bytes that were not read yet, at the last look."""
        return sum(file.start + max(file.size - file.end, 0) for file in self._files.values())

    @property
    def size(self) -> int:
        return sum(file.size for file in self._files.values())

    def look(self) -> bool:
        """Whether there is anything new to read."""
        self.problem = ""
        found: dict[tuple[int, int], _File] = {}
        for path in self._paths():
            try:
                status = os.stat(path)
                identity = status.st_dev, status.st_ino
                found[identity] = self._state(path, identity, status)
            except FileNotFoundError:
                continue  # It went away since it was listed.
            except OSError as error:
                self.problem = f"cannot read {path}: {error.strerror}"
        self._files = found
        self._backwards = False
        return any(file.size > file.end for file in found.values())

    def newer(self, limit: int = CHUNK) -> list[bytes]:
        """The next whole lines, up to about so many bytes, of the oldest file that has some."""
        for identity, file in sorted(self._files.items(), key=lambda item: item[1].order):
            if file.size <= file.end:
                continue
            data = self._read(identity, file, file.end, file.size, limit)
            end = data.rfind(b"\n") + 1
            if not end and len(data) >= _LONGEST:
                end = len(data)
            file.end += end
            if end:
                return data[:end].splitlines()
        return []

    def older(self, limit: int = CHUNK) -> list[bytes]:
        """The lines before those that were read, the newest first; none when all were read."""
        waiting = [item for item in self._files.items() if item[1].start > 0]
        if not waiting:
            return []
        identity, file = max(waiting, key=lambda item: item[1].order)
        while file.start > 0:
            first = max(file.start - limit, 0)
            data = self._read(identity, file, first, file.start, limit)
            if len(data) < file.start - first:
                file.start = 0  # It was cut off, or went away; the next look will tell.
                return []
            # The first line of the data may have begun before it.
            cut = 0 if first == 0 else data.find(b"\n") + 1
            if cut == len(data) or (first > 0 and cut == 0):
                if limit < _LONGEST:
                    limit *= 2
                    continue
                cut = 0
            file.start = first + cut
            return data[cut:].splitlines()[::-1]
        return []

    # ---- inside ----------------------------------------------------------------------------------

    def _paths(self) -> list[str]:
        try:
            with os.scandir(self._directory) as entries:
                return [entry.path for entry in entries if self._pattern.fullmatch(entry.name)]
        except OSError as error:
            self.problem = f"cannot read {self._directory}: {error.strerror}"
            return []

    def _state(self, path: str, identity: tuple[int, int], status: os.stat_result) -> _File:
        known = self._files.get(identity)
        if known is not None and (known.size, known.changed) == (
            status.st_size,
            status.st_mtime_ns,
        ):
            known.path = path
            return known
        with open(path, "rb", buffering=0) as file:
            head = file.read(_HEAD)
            if known is None or not _continued(known.head, head):
                end = _last_line_end(file, status.st_size) if self._backwards else 0
                known = _File(path, head, end, end, 0, 0)
        # A sink cuts off again what it could not write as a whole.
        known.start = min(known.start, status.st_size)
        known.end = min(known.end, status.st_size)
        known.path, known.head = path, head
        known.size, known.changed = status.st_size, status.st_mtime_ns
        return known

    def _read(
        self, identity: tuple[int, int], file: _File, first: int, last: int, limit: int
    ) -> bytes:
        """From `first` on: so many bytes, or more until they have a whole line."""
        try:
            with open(file.path, "rb", buffering=0) as opened:
                status = os.fstat(opened.fileno())
                if (status.st_dev, status.st_ino) != identity:
                    return b""
                opened.seek(first)
                data = _exactly(opened, min(limit, last - first))
                while b"\n" not in data and len(data) < min(last - first, _LONGEST):
                    more = _exactly(opened, min(len(data), last - first - len(data)))
                    if not more:
                        break
                    data += more
                return data
        except FileNotFoundError:
            return b""
        except OSError as error:
            self.problem = f"cannot read {file.path}: {error.strerror}"
            return b""


def _continued(before: bytes, now: bytes) -> bool:
    """Whether a file that begins like this can be the one that began like that."""
    return now.startswith(before) or before.startswith(now)


def _exactly(file: BinaryIO, size: int) -> bytes:
    """So many bytes, fewer at the end of the file."""
    parts = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _last_line_end(file: BinaryIO, size: int) -> int:
    """Behind the last whole line."""
    end = size
    while end > 0:
        first = max(end - CHUNK, 0)
        file.seek(first)
        at = _exactly(file, end - first).rfind(b"\n")
        if at >= 0:
            return first + at + 1
        end = first
    return 0


def read_once(path: Path) -> bytes | None:
    """The whole of a small file; None when there is none."""
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return None
