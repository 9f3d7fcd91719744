"""The request `attach`: to a process by its doorbell, to executors that dial in, to a server.

{"pid": 4711}                                    a running process of this user
{"listen": "127.0.0.1:7001", "tokenFile": F}     executors that dial this address, as they come
{"connect": "unix:/path"}                        a running `opstep serve`; over TCP also
                                                 tokenFile and, with TLS, tlsCa
{}                                               at an `opstep serve`: the executors it has
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from opstep_server import script_process
from opstep_server.access import listen_endpoint
from opstep_server.dap.protocol.framing import Json
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, request
from opstep_server.dap.server.relay import Relay
from opstep_server.debugger import DebuggerError, ExecutorMoved, ExecutorProcess

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

# No known client sends more than this before it attaches.
_MOST_SAID = 1000
_END_SECONDS = 3.0
_WAYS = ("pid", "listen", "connect")


class AttachRequests:
    """An attached process goes on when the client leaves, unless the client says otherwise."""

    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        self.active = False
        self.relay: Relay | None = None
        # The client wants all processes to end.
        self._ending = False
        # The one process; None when executors come and go.
        self._executor: ExecutorProcess | None = None
        # What the client set before it attached, with the answers, to send again to a server.
        self.said: list[Json] = []
        self.answers: dict[int, Mapping[str, object]] = {}

    def passes_on(self, message: Json) -> bool:
        """Passes a message on to the server that the client is attached to; True when it did."""
        if self.relay is not None:
            self.relay.forward(message)
            return True
        if self._early and len(self.said) < _MOST_SAID:
            command = message.get("command")
            if command in ("initialize", "configurationDone") or _sets(command):
                self.said.append(message)
        return False

    def answered(self, seq: int, command: str, body: Mapping[str, object] | None) -> None:
        if self._early and _sets(command) and body and len(self.answers) < _MOST_SAID:
            self.answers[seq] = body

    @property
    def _early(self) -> bool:
        """Whether the client's messages may have to be sent again to a server."""
        return not self.active and not self._session.lifecycle.launching

    def forget(self) -> None:
        """Forgets these messages: none will be sent again."""
        self.said.clear()
        self.answers.clear()

    @request(run=Run.BESIDE)
    async def attach_request(self, arguments: Arguments) -> None:
        session = self._session
        if self.active or session.lifecycle.launching:
            raise RequestError("this session has a program already: one is launched or attached to")
        ways = [way for way in _WAYS if way in arguments]
        if len(ways) > 1 or (not ways and not session.debugger.shared):
            raise RequestError("attach needs one of pid, listen and connect")
        if ways and session.debugger.shared:
            raise RequestError(f"this server attaches to what dials it: leave {ways[0]} out")
        self.active = True
        try:
            if "connect" in ways:
                await self._connect(arguments)
                return
            await session.lifecycle.attaching(arguments)
            if "pid" in ways:
                await self._ring(arguments.integer("pid"))
            elif "listen" in ways:
                await self._listen(arguments)
            else:
                session.debugger.replay()
            if arguments.boolean("stopOnEntry", False) and session.debugger.executors:
                await session.debugger.pause()
            # We cannot start it again: a client that restarts attaches again.
            session.outbox.event(
                "capabilities", {"capabilities": {"supportsRestartRequest": False}}
            )
        except (DebuggerError, RequestError, OSError) as error:
            self.active = False
            raise RequestError(f"cannot attach: {error}") from error

    async def _ring(self, pid: int) -> None:
        self._executor = await self._session.debugger.attach_pid(pid)
        body = {
            "name": shlex.join(self._executor.hello.argv) or f"process {pid}",
            "systemProcessId": pid,
            "isLocalProcess": True,
            "startMethod": "attach",
        }
        self._session.outbox.event("process", body)

    async def _listen(self, arguments: Arguments) -> None:
        endpoint = listen_endpoint(
            arguments.string("listen"),
            arguments.optional_string("tokenFile"),
            arguments.optional_string("tlsCert"),
            arguments.optional_string("tlsKey"),
        )
        address = await self._session.debugger.listen(endpoint)
        token = f" OPSTEP_TOKEN_FILE={endpoint.token_file}" if endpoint.token_file else ""
        self._session.outbox.output(
            "console", f"executors are awaited at OPSTEP_SERVER={address}{token}\n"
        )

    async def _connect(self, arguments: Arguments) -> None:
        self.relay = Relay(self._session)
        try:
            await self.relay.open(
                arguments.string("connect"),
                arguments.optional_string("tokenFile"),
                arguments.optional_string("tlsCa"),
            )
            await self.relay.begin()
        except BaseException:
            relay, self.relay = self.relay, None
            self.active = False
            relay.give_back()
            raise

    # ---- ending ----------------------------------------------------------------------------------

    def has(self, executor: ExecutorProcess) -> bool:
        """Whether the session is about this one process."""
        return executor is self._executor

    def moved(self, event: ExecutorMoved) -> None:
        if event.executor is self._executor:
            self._executor = event.now

    def lost(self, executor: ExecutorProcess) -> None:
        """The process is gone, or has left the debugger: the session has no other."""
        if self._ending and not self._session.debugger.executors:
            self._session.lifecycle.say_terminated()
        if executor is not self._executor:
            return
        how = "goes on without the debugger" if script_process.alive(executor.pid) else "has ended"
        self._session.outbox.output("console", f"process {executor.pid} {how}\n")
        self._session.lifecycle.say_terminated()

    async def terminate(self) -> None:
        """Asks all processes to end; `terminated` follows the last one."""
        self._ending = True
        await self._session.debugger.end_executors()
        if not self._session.debugger.executors:
            self._session.lifecycle.say_terminated()

    async def disconnect(self, terminate: bool) -> None:
        if self.relay is not None:
            self.relay.close()  # The client has vanished, so the server must see that too.
            return
        debugger = self._session.debugger
        if terminate:
            with contextlib.suppress(DebuggerError, asyncio.TimeoutError):
                await debugger.end_executors()
                await asyncio.wait_for(self._all_ended(), _END_SECONDS)
        # Processes that go on are not ours any more.
        self._executor = None
        with contextlib.suppress(DebuggerError):
            await debugger.detach()
        self._session.lifecycle.say_terminated()

    async def _all_ended(self) -> None:
        while self._session.debugger.executors:
            await asyncio.sleep(0.02)

    def relay_ended(self) -> None:
        """The server is gone; this adapter answers until the client leaves."""
        self.relay = None
        self._session.outbox.output("console", "the debug server closed the connection\n")
        self._session.lifecycle.say_terminated()


def _sets(command: object) -> bool:
    return (
        isinstance(command, str) and command.startswith("set") and command.endswith("Breakpoints")
    )
