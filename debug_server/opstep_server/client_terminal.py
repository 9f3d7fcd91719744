"""A script that runs in a client's terminal: not our child, its launcher reports on it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from opstep_server import script_process
from opstep_server.model import DebuggerError, LaunchTarget

START_SECONDS = 20.0
# The exit code of a script whose launcher was killed, as when its terminal was closed.
_UNKNOWN_CODE = -int(signal.SIGHUP)


@dataclass(frozen=True)
class TerminalCommand:
    args: list[str]
    cwd: str
    # None removes a variable.
    env: dict[str, str | None]


# Starts the command in a terminal; it need not wait for its end.
Terminal = Callable[[TerminalCommand], Awaitable[None]]


class TerminalProcess:
    """One task reads the launcher's reports: `pid N` or `failed WHY`, then `exit CODE`."""

    def __init__(
        self,
        pid: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_exit: script_process.OnExit,
    ) -> None:
        self.pid = pid
        self._writer = writer
        self._ended = asyncio.Event()
        self._done = asyncio.create_task(self._watch(reader, on_exit))

    @property
    def alive(self) -> bool:
        return not self._ended.is_set()

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.alive:
                os.kill(self.pid, number)

    async def terminate(self) -> None:
        self.signal(signal.SIGTERM)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ended.wait(), script_process.KILL_AFTER_SECONDS)
        self.signal(signal.SIGKILL)
        await asyncio.shield(self._done)

    def leave(self) -> None:
        """The launcher lets the script go on when we are gone."""
        self._writer.write(b"leave\n")

    async def abandon(self) -> None:
        self.leave()
        self._done.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._done
        self._writer.close()

    def drain(self) -> None:
        """Its output goes to its terminal."""

    async def _watch(self, reader: asyncio.StreamReader, on_exit: script_process.OnExit) -> None:
        word, value = await _read(reader)
        if word != "exit":
            # The launcher is gone; the script may live on.
            await script_process.end_of(self.pid)
        self._ended.set()
        await on_exit(int(value) if word == "exit" else _UNKNOWN_CODE)


async def start(
    target: LaunchTarget, server: str, terminal: Terminal, on_exit: script_process.OnExit
) -> TerminalProcess:
    command = script_process.command_of(target)
    folder = tempfile.mkdtemp(prefix="opstep-")
    connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    connected = asyncio.get_running_loop().create_future()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if connected.done():
            writer.close()
        else:
            connected.set_result((reader, writer))

    address = os.path.join(folder, "socket")
    listener = await asyncio.start_unix_server(accept, address)
    try:
        launcher = str(Path(__file__).with_name("launcher.py"))
        await terminal(
            TerminalCommand(
                [sys.executable, launcher, address, *command],
                target.cwd or os.getcwd(),
                script_process.changes_of(target, server),
            )
        )
        reader, writer = await asyncio.wait_for(connected, START_SECONDS)
        word, value = await asyncio.wait_for(_read(reader), START_SECONDS)
    except asyncio.TimeoutError:
        raise DebuggerError(
            f"the terminal has not started the program in {START_SECONDS:g} s"
        ) from None
    finally:
        listener.close()
        shutil.rmtree(folder, ignore_errors=True)
    if word != "pid":
        raise DebuggerError(value or "the terminal could not start the program")
    started = TerminalProcess(int(value), reader, writer, on_exit)
    if target.keep:
        started.leave()
    return started


async def _read(reader: asyncio.StreamReader) -> tuple[str, str]:
    """The launcher's next word and its argument; empty when the launcher is gone."""
    try:
        line = (await reader.readline()).decode(errors="replace").strip()
    except (ConnectionError, ValueError):
        return "", ""
    word, _, rest = line.partition(" ")
    return word, rest
