"""A follower of files of lines that grow, rotate, are truncated and made again.

The content at the start can be read backwards, so that the newest lines are known at once.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

CHUNK = 1 << 18
# Our lines are shorter; a longer one comes in pieces that cannot be parsed.
_LONGEST = 1 << 24
# The first bytes of a file identify it.
_HEAD = 256
_TIME = re.compile(rb'"time": ?"([^"]+)"')


@dataclass
class _File:
    path: str
    head: bytes
    # The part from `start` to `end` was read; both are at the beginning of a line.
    start: int
    end: int
    size: int
    changed: int

    @property
    def order(self) -> tuple[str, str]:
        """The key that sorts the files of a log by the time of their first record."""
        found = _TIME.search(self.head)
        return (found[1].decode(errors="replace") if found else "", self.path)


class Follower:
    def __init__(self, directory: Path, pattern: str, backwards: bool = False) -> None:
        """With `backwards`, the content at the first look is left for `older`."""
        self._directory = directory
        self._pattern = re.compile(pattern)
        self._backwards = backwards
        # By device and inode: a file that is renamed is still the same.
        self._files: dict[tuple[int, int], _File] = {}
        # One sentence on the last look's read error, or "".
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
        """Checks the files; returns whether there is anything new to read."""
        self.problem = ""
        found: dict[tuple[int, int], _File] = {}
        for path in self._paths():
            try:
                status = os.stat(path)
                identity = status.st_dev, status.st_ino
                found[identity] = self._state(path, identity, status)
            except FileNotFoundError:
                continue  # It was removed after the listing.
            except OSError as error:
                self.problem = f"cannot read {path}: {error.strerror}"
        self._files = found
        self._backwards = False
        return any(file.size > file.end for file in found.values())

    def newer(self, limit: int = CHUNK) -> list[bytes]:
        """The next whole lines, up to about `limit` bytes, of the oldest file that has some."""
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
        """The unread lines before those that were read, newest first; empty at the beginning."""
        waiting = [item for item in self._files.items() if item[1].start > 0]
        if not waiting:
            return []
        identity, file = max(waiting, key=lambda item: item[1].order)
        while file.start > 0:
            first = max(file.start - limit, 0)
            data = self._read(identity, file, first, file.start, limit)
            if len(data) < file.start - first:
                file.start = 0  # It was truncated or removed; the next look will show that.
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
        # A sink truncates again what it could not write as a whole.
        known.start = min(known.start, status.st_size)
        known.end = min(known.end, status.st_size)
        known.path, known.head = path, head
        known.size, known.changed = status.st_size, status.st_mtime_ns
        return known

    def _read(
        self, identity: tuple[int, int], file: _File, first: int, last: int, limit: int
    ) -> bytes:
        """Reads `limit` bytes from `first` on, or more until they have a whole line."""
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
    """Whether the file that now has this beginning can be the one known before."""
    return now.startswith(before) or before.startswith(now)


def _exactly(file: BinaryIO, size: int) -> bytes:
    """Exactly `size` bytes, fewer at the end of the file."""
    parts = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _last_line_end(file: BinaryIO, size: int) -> int:
    """The position after the last whole line."""
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
    """The content of a small file; None when there is no such file."""
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return None
