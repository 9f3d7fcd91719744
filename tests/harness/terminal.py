"""A user at a real terminal: types, and sees the screen that the terminal shows."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyte

from harness.patience import SECONDS

HERE = Path(__file__).parent
# Ctrl-C becomes a signal only for processes with this controlling terminal.
START = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from opstep_server.cli.main import main
sys.exit(main())
"""
KEYS = {
    "F5": "\x1b[15~", "F6": "\x1b[17~", "F7": "\x1b[18~", "F8": "\x1b[19~", "F9": "\x1b[20~",
    "F10": "\x1b[21~", "F11": "\x1b[23~", "S-F11": "\x1b[23;2~", "PgUp": "\x1b[5~",
    "PgDn": "\x1b[6~", "C-Up": "\x1b[1;5A", "C-Down": "\x1b[1;5B", "Up": "\x1b[A",
    "Down": "\x1b[B", "Home": "\x1b[H", "End": "\x1b[F", "Esc": "\x1b",
    "C-C": "\x03", "C-D": "\x04", "C-R": "\x12", "C-X A": "\x18a", "Tab": "\t", "Enter": "\r",
}  # fmt: skip


class Terminal:
    def __init__(
        self, process: subprocess.Popen[bytes], descriptor: int, size: tuple[int, int]
    ) -> None:
        self.process = process
        self._descriptor = descriptor
        self._pending = ""
        # All output.
        self.raw = ""
        self.screen = pyte.Screen(*size)
        # A terminal's answers to queries, for instance for the position of its cursor.
        self.screen.write_process_input = self.type
        self._stream = pyte.Stream(self.screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def press(self, *names: str) -> None:
        for name in names:
            self.type(KEYS[name])

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        _set_size(self._descriptor, columns, rows)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def hang_up(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def expect(self, pattern: str, seconds: float = SECONDS) -> str:
        """Reads until the pattern came, without colours and cursor movements.

        Where a line wraps depends on names of folders and numbers of processes: a space in the
        pattern is any white space.
        """
        wanted = re.compile(re.sub(r" (?![*+?{])", r"\\s+", pattern))
        self._until(lambda: wanted.search(self._pending) is not None, pattern, seconds)
        found = wanted.search(self._pending)
        assert found is not None
        self._pending = self._pending[found.end() :]
        return found[0]

    def shows(self, pattern: str, seconds: float = SECONDS) -> re.Match[str]:
        """Reads until the pattern is on the screen, ^ and $ being ends of its rows."""
        wanted = re.compile(pattern, re.MULTILINE)
        self._until(lambda: wanted.search(self.text) is not None, pattern, seconds)
        found = wanted.search(self.text)
        assert found is not None
        return found

    def hides(self, pattern: str, seconds: float = SECONDS) -> None:
        """Reads until the pattern is not on the screen."""
        wanted = re.compile(pattern, re.MULTILINE)
        self._until(lambda: wanted.search(self.text) is None, f"not {pattern}", seconds)

    def receives(self, codes: str, times: int = 1) -> None:
        """Reads until the terminal has got that this many times since the beginning."""
        self._until(lambda: self.raw.count(codes) >= times, codes, SECONDS)

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.screen.display)

    def row(self, pattern: str) -> str:
        """The only row of the screen with the text."""
        (row,) = [row for row in self.text.splitlines() if re.search(pattern, row)]
        return row

    def style(self, text: str) -> pyte.screens.Char:
        """The style of the text's first letter on the screen."""
        for y, row in enumerate(self.screen.display):
            if text in row:
                return self.screen.buffer[y][row.index(text)]
        raise AssertionError(f"no {text!r} in\n{self.text}")

    def wait(self, seconds: float = SECONDS) -> int:
        """Waits until the process has ended and all its output was read; returns its exit code."""
        self._until(lambda: self.process.poll() is not None, "the end", seconds)
        while self._read():
            pass
        return self.process.returncode

    def _until(self, done: Callable[[], bool], what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if not self._read():
                assert time.monotonic() < deadline, (
                    f"no {what!r} in\n{self.text}\n---\n{self._pending[-2000:]!r}"
                )

    def _read(self) -> bool:
        if not select.select([self._descriptor], [], [], 0.1)[0]:
            return False
        try:
            data = os.read(self._descriptor, 1 << 16)
        except OSError:
            time.sleep(0.05)  # The other side is gone.
            return False
        text = self._decoder.decode(data)
        self.raw += text
        self._pending += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
        self._stream.feed(text)
        return True


@contextlib.contextmanager
def terminal(
    *args: str,
    script: str = "scripted_train.py",
    command: str = "debug",
    options: tuple[str, ...] = (),
    size: tuple[int, int] = (200, 24),
    cwd: Path = HERE,
    **env: str,
) -> Iterator[Terminal]:
    """`opstep COMMAND OPTIONS SCRIPT ARGS` at a terminal of that many columns and rows."""
    line = [sys.executable, "-c", START, command, *options, script, *args]
    with at_terminal(line, size, cwd, **env) as there:
        yield there


@contextlib.contextmanager
def at_terminal(
    line: list[str], size: tuple[int, int] = (200, 24), cwd: Path = HERE, **env: str
) -> Iterator[Terminal]:
    """Any command at a terminal."""
    ours, theirs = os.openpty()
    _set_size(ours, *size)
    clean = {name: value for name, value in os.environ.items() if name not in _SIZES}
    process = subprocess.Popen(
        line,
        cwd=cwd,
        env={**clean, "TERM": "xterm-256color", **env},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    there = Terminal(process, ours, size)
    try:
        yield there
    finally:
        process.kill()
        process.wait()
        there.hang_up()


_SIZES = ("COLUMNS", "LINES", "NO_COLOR")


def _set_size(descriptor: int, columns: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
