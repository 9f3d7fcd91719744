"""Terminal sessions with several processes, which dial us or belong to a server."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
from collections.abc import Awaitable
from dataclasses import dataclass

from opstep_server import access
from opstep_server.cli.output import descriptions
from opstep_server.cli.output.screen import Screen
from opstep_server.cli.sessions import attached_session
from opstep_server.cli.sessions.terminal_session import Interrupted
from opstep_server.debugger import (
    ContinuedEvent,
    Debugger,
    DebuggerError,
    Event,
    ExecutorJoined,
    ExecutorLost,
    ExecutorProcess,
    LaunchTarget,
    ProgramCompiled,
)
from opstep_server.wire import debug_pb2 as pb

# How long a server may take to pass on the first of its processes.
_FIRST_SECONDS = 1.0


@dataclass(frozen=True)
class KeyFiles:
    """Files with tokens and certificates, for a server or for our own address."""

    token_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None


class ServerSession(attached_session.AttachedSession):
    """Running while there is a process; a wait may last until the last one has left."""

    awaits = True

    def __init__(
        self, debugger: Debugger, address: str, keys: KeyFiles, screen: Screen, batch: bool
    ) -> None:
        super().__init__(debugger, LaunchTarget(""), screen, batch)
        self._address = address
        self._keys = keys
        self._first_came = asyncio.Event()
        self._first_program = asyncio.Event()

    async def wait(
        self, going: Awaitable[None] | None = None, counted: bool = False
    ) -> pb.Stopped | None:
        self._expects = not self._running
        return await super().wait(going, counted)

    async def interrupt(self) -> None:
        if self._running:
            await super().interrupt()
        elif self._expects:
            self._expects = False
            self._news.put_nowait(Interrupted())

    async def detach(self) -> None:
        self._check_running()
        self.screen.line("the processes go on without the debugger")
        await self.debugger.detach()

    async def signal(self, number: signal.Signals) -> None:
        raise DebuggerError("no process was started here: send the signal from a shell")

    def not_running(self) -> DebuggerError:
        return DebuggerError(f"no process is here: 'continue' waits for one at {self._address}")

    def none_yet(self, what: str) -> DebuggerError:
        if not self._running:
            return self.not_running()
        return DebuggerError(f"{what} yet: 'pause' stops the processes at their next op")

    def _not_stopped(self) -> DebuggerError:
        return DebuggerError("nothing is stopped: 'pause' stops the processes at their next op")

    def _take(self, event: Event) -> None:
        if not isinstance(event, (ExecutorJoined, ExecutorLost)):
            super()._take(event)
        elif self._waiting:
            self._news.put_nowait(event)
        else:
            self._tell(event)

    def _tell(self, event: Event | Interrupted) -> None:
        if isinstance(event, ExecutorJoined):
            self._running, self._expects = True, False
            self._first_came.set()
            self.screen.line(f"{_process(event.executor)} has come")
        elif isinstance(event, ExecutorLost):
            why = f": {event.message}" if event.message else ""
            self.screen.line(f"{_process(event.executor)} has ended, or left{why}")
            if not self.debugger.executors:
                self._gone()
        else:
            super()._tell(event)


class ListeningSession(ServerSession):
    """A session in which the terminal is the debug server."""

    async def begin(self) -> None:
        await self.send_faults()
        keys = self._keys
        endpoint = access.listen_endpoint(
            self._address, keys.token_file, keys.tls_cert, keys.tls_key
        )
        self._address = await self.debugger.listen(endpoint)
        token = f" OPSTEP_TOKEN_FILE={endpoint.token_file}" if endpoint.token_file else ""
        self.screen.line(
            f"listening: processes started with OPSTEP_SERVER={self._address}{token} come here, "
            "'continue' waits for them"
        )


class GuestSession(ServerSession):
    """A guest of a debug server that others use too."""

    async def begin(self) -> None:
        await self.send_faults()
        place = access.dial_place(self._address, self._keys.token_file, self._keys.tls_ca)
        await self.debugger.visit(place, self._server_gone)
        self.screen.line(f"sharing the processes of the debug server at {self._address}")
        # Present processes come at once, and report a program when a run enters it.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._first_came.wait(), _FIRST_SECONDS)
            await asyncio.wait_for(self._first_program.wait(), attached_session.PROGRAM_SECONDS)

    def _take(self, event: Event) -> None:
        if isinstance(event, ProgramCompiled):
            self._first_program.set()
        if isinstance(event, ContinuedEvent) and not event.message and not self._waiting:
            thread = descriptions.thread(event.thread)
            self.screen.line(f"{thread} goes on: another client of the server let it")
        super()._take(event)

    def _server_gone(self, message: str) -> None:
        self.awaits = False
        self.screen.line(f"{message}: 'quit' leaves the debugger", "yellow")

    def not_running(self) -> DebuggerError:
        if not self.awaits:
            return DebuggerError(f"the debug server at {self._address} is gone")
        return super().not_running()


def _process(executor: ExecutorProcess) -> str:
    return f"process {executor.pid} ({shlex.join(executor.hello.argv)})"
