"""The output of a launched script, read through two pipes or a pseudoterminal.

We read it ourselves, so that output from before a stop is reported before the stop. A keeper
process reads on when we are gone: a script whose debugger ended, or was killed, can go on printing.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import fcntl
import os
import select
import struct
import subprocess
import termios
from collections.abc import Callable
from typing import Literal

Stream = Literal["stdout", "stderr"]
OnOutput = Callable[[Stream, str], None]

_CHUNK = 1 << 16
# Its input ends with us; then it reads from 1 and 2. Nobody reads what it writes.
_PIPES_KEEPER = "read _; cat <&1 >/dev/null & exec cat <&2 >/dev/null"
# It goes on writing to our terminal, as long as there is one.
_TERMINAL_KEEPER = "read _; cat <&2; exec cat <&2 >/dev/null"


class ScriptOutput:
    """Made before the script; call `begin` when the script has its ends."""

    def __init__(self, terminal: bool) -> None:
        self._readers: list[_Reader] = []
        self._lifeline: int | None = None
        # The script's stdout and stderr.
        self.ends: tuple[int, ...] = ()
        try:
            if terminal:
                inlet, end = os.openpty()
                self.ends = (end, end)
                _set_up(end)
                self._readers = [_Reader("stdout", inlet)]
                self._keep(_TERMINAL_KEEPER, None, inlet)
            else:
                for name in ("stdout", "stderr"):
                    inlet, end = os.pipe()
                    self.ends += (end,)
                    self._readers.append(_Reader(name, inlet))
                self._keep(_PIPES_KEEPER, *(reader.descriptor for reader in self._readers))
        except OSError:
            self.close_ends()
            self.close()
            raise

    def _keep(self, script: str, stdout: int | None, stderr: int) -> None:
        read, self._lifeline = os.pipe()
        try:
            self._keeper = subprocess.Popen(
                ("/bin/sh", "-c", script),
                stdin=read,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        finally:
            os.close(read)

    def close_ends(self) -> None:
        for end in set(self.ends):
            os.close(end)
        self.ends = ()

    def begin(self, on_output: OnOutput) -> None:
        """Passes on the output from here on."""
        self.close_ends()
        for reader in self._readers:
            reader.begin(on_output)

    def drain(self) -> None:
        """Passes on at once the output that is there."""
        for reader in self._readers:
            reader.drain()

    async def end(self, seconds: float) -> None:
        """Waits until nobody can write any more, or for that time."""
        ended = [asyncio.create_task(reader.ended.wait()) for reader in self._readers]
        await asyncio.wait(ended, timeout=seconds)
        for task in ended:
            task.cancel()

    def close(self) -> None:
        """Lets the keeper read on, if more output may come."""
        for reader in self._readers:
            reader.close()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


class _Reader:
    def __init__(self, name: Stream, descriptor: int) -> None:
        self._name = name
        self.descriptor = descriptor
        # Not by non-blocking reads: that setting would hold for the keeper too.
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tell: OnOutput | None = None
        self.ended = asyncio.Event()

    def begin(self, on_output: OnOutput) -> None:
        self._tell = on_output
        asyncio.get_running_loop().add_reader(self.descriptor, self._read)

    def drain(self) -> None:
        while self._read():
            pass

    def _read(self) -> bool:
        """Reads one piece, if there is any."""
        if self._tell is None or not self._poll.poll(0):
            return False
        try:
            chunk = os.read(self.descriptor, _CHUNK)
        except OSError:
            chunk = b""  # A terminal's way to say that nobody has its other end.
        if text := self._decoder.decode(chunk, final=not chunk):
            self._tell(self._name, text)
        if not chunk:
            self._stop()
        return bool(chunk)

    def _stop(self) -> None:
        if self._tell is not None:
            asyncio.get_running_loop().remove_reader(self.descriptor)
        self._tell = None
        self.ended.set()

    def close(self) -> None:
        self._stop()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _set_up(end: int) -> None:
    """Makes the terminal as wide as ours, and passes output on unchanged."""
    settings = termios.tcgetattr(end)
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(end, termios.TCSANOW, settings)
    with contextlib.suppress(OSError):
        size = os.get_terminal_size(1)
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", size.lines, size.columns, 0, 0))
