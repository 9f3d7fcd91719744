"""The launched script: its start, environment and end.

`subprocess` and not asyncio's own, which kills its children when the loop closes: a script that the
debugger let go must go on running.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable

from opstep_server.guard import Guard
from opstep_server.model import DebuggerError, LaunchTarget
from opstep_server.script_output import OnOutput, ScriptOutput

OnExit = Callable[[int], Awaitable[None]]

KILL_AFTER_SECONDS = 2.0
# How long output may still come after the end, from children that inherited the pipe.
DRAIN_SECONDS = 1.0


def alive(pid: int) -> bool:
    """Whether a process with that id exists and has not ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The state follows the name, which may hold anything; a zombie has ended too.
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


class ScriptProcess:
    """One child in its own session, so that the terminal's Ctrl-C does not reach it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        outlets: ScriptOutput | None,
        guard: Guard | None,
        on_exit: OnExit,
    ) -> None:
        self._process = process
        self._guard = guard
        self._outlets = outlets
        self._ended = asyncio.Event()
        self._done = asyncio.create_task(self._watch(on_exit))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self._ended.is_set()

    async def wait(self) -> None:
        """Waits until it has ended and its output is delivered."""
        await asyncio.shield(self._done)

    def signal(self, number: signal.Signals) -> None:
        if self.alive:
            self._process.send_signal(number)

    async def terminate(self) -> None:
        """Asks it to end, kills it when it does not, and waits for the end."""
        self.signal(signal.SIGTERM)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ended.wait(), KILL_AFTER_SECONDS)
        self.signal(signal.SIGKILL)
        await self.wait()

    async def abandon(self) -> None:
        """Stops watching; the child goes on."""
        self._done.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._done

    def drain(self) -> None:
        """Passes on at once what it has written so far."""
        if self._outlets is not None:
            self._outlets.drain()

    async def _watch(self, on_exit: OnExit) -> None:
        try:
            code = await _exit_code(self._process)
            self._ended.set()
            if self._outlets is not None:
                await self._outlets.end(DRAIN_SECONDS)
        finally:
            if self._outlets is not None:
                self._outlets.close()
            if self._guard is not None:
                self._guard.leave()
        await on_exit(code)


async def start(
    target: LaunchTarget,
    server: str,
    on_output: OnOutput,
    on_exit: OnExit,
) -> ScriptProcess:
    command = command_of(target)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    for name, value in changes_of(target, server).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    outlets: ScriptOutput | None = None
    guard: Guard | None = None
    try:
        if not target.keep:
            guard = Guard()
        if target.output != "inherit":
            outlets = ScriptOutput(target.output == "terminal")
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if target.stdin == "nothing" else None,
            stdout=outlets.ends[0] if outlets else None,
            stderr=outlets.ends[1] if outlets else None,
            cwd=target.cwd,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        if outlets is not None:
            outlets.close_ends()
            outlets.close()
        if guard is not None:
            guard.leave()
        raise DebuggerError(f"cannot start {command[0]}: {error.strerror}") from error
    if guard is not None:
        guard.watch(process.pid)
    if outlets is not None:
        outlets.begin(on_output)
    return ScriptProcess(process, outlets, guard, on_exit)


def changes_of(target: LaunchTarget, server: str) -> dict[str, str | None]:
    """The changes from our environment to the script's; None: a variable is removed."""
    if not target.debug:
        return {**target.env, "OPSTEP_SERVER": None}
    return {**target.env, "OPSTEP_SERVER": server, "OPSTEP_WAIT": "60"}


def command_of(target: LaunchTarget) -> list[str]:
    if target.cwd is not None and not os.path.isdir(target.cwd):
        raise DebuggerError(f"there is no folder {target.cwd} to start in")
    python = target.python or sys.executable
    if target.module:
        return [python, "-m", target.program, *target.args]
    if not os.path.isfile(os.path.join(target.cwd or "", target.program)):
        raise DebuggerError(f"there is no script {target.program}")
    return [python, target.program, *target.args]


async def _exit_code(process: subprocess.Popen[bytes]) -> int:
    if hasattr(os, "pidfd_open"):
        await end_of(process.pid)
        return process.wait()
    while (code := process.poll()) is None:
        await asyncio.sleep(0.02)
    return code


async def end_of(pid: int) -> None:
    """Waits until the process has ended; it need not be our child."""
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
