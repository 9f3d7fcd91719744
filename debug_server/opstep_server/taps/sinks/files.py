"""Files that sinks write, so that readers find only whole records and whole files."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from opstep_server.taps.sinks.base import SinkError

# A name has at most 255 bytes; the rest is for a prefix and suffix.
_LONGEST = 150
_LONGEST_LINE = 1 << 20
_UNFINISHED = ".unfinished-"


def safe_name(text: str) -> str:
    """A file name, unique for every text; letters, digits and `_.-~` stay as they are."""
    name = urllib.parse.quote(text, safe="", errors="surrogatepass")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > _LONGEST:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"{name[:_LONGEST]}~{digest[:16]}"
    return name or "%"


class Appended:
    """A file that grows by whole pieces: an incomplete piece is cut off again.

    `keep` marks the present content as written; `undo` goes back to that mark.
    """

    def __init__(self, path: Path, new: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.path = path
        self._new = new
        self._file = os.open(path, flags | (os.O_EXCL if new else 0), 0o666)
        self.size = os.fstat(self._file).st_size
        self._begin = self._kept = self.size

    def begin(self, data: bytes) -> None:
        """Writes the header of a new file; if nothing follows, `close` removes the file."""
        self.append(data)
        self._begin = self._kept = self.size

    def append(self, data: bytes) -> None:
        self.check()
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            self._cut(self.size)
            error.filename = str(self.path)
            raise
        self.size += len(data)

    def keep(self) -> None:
        self.check()
        self._kept = self.size

    def undo(self) -> None:
        self._cut(self._kept)

    def cut_line(self) -> None:
        """Cuts off an incomplete last line, which a crash of the machine may leave."""
        with self.path.open("rb") as opened:
            start = max(0, self.size - _LONGEST_LINE)
            opened.seek(start)
            last = opened.read()
        if last and not last.endswith(b"\n"):
            self._cut(start + last.rfind(b"\n") + 1)

    def check(self) -> None:
        """Raises when the file was removed: writing to it would succeed unseen."""
        if os.fstat(self._file).st_nlink == 0:
            raise SinkError(f"{self.path} was removed while it was being written")

    def _cut(self, size: int) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, size)
        self.size = size

    def lock(self) -> bool:
        return lock(self._file)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            if self._new and self.size <= self._begin:
                self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def whole(path: Path, scratch: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name only when it is complete.

    Until then it is in `scratch`, a folder of the same file system, under a name that readers skip.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = scratch / f"{_UNFINISHED}{secrets.token_hex(8)}"
    try:
        with new.open("xb") as opened:
            lock(opened.fileno())
            yield opened
            opened.flush()
            new.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            new.unlink()
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise


def sweep(scratch: Path) -> None:
    """Removes unfinished files of processes that are gone."""
    for path in scratch.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError), path.open("rb") as opened:
            if lock(opened.fileno()):
                path.unlink()


def lock(file: int) -> bool:
    """Locks the file while it is open; False when another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
