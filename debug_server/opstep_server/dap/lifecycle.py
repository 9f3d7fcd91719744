"""From `initialize` to the end of the debuggee and of the session."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

from opstep_server.dap.arguments import Arguments, RequestError
from opstep_server.dap.framing import Json
from opstep_server.dap.rules import Run, When, request
from opstep_server.debugger import DebuggerError, LaunchTarget

if TYPE_CHECKING:
    from opstep_server.dap.session import Session


class Lifecycle:
    """The launched process has three ends: it exits, it is terminated, or it is let go."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._configured = asyncio.Event()
        self._launching = False
        self._launched = False
        self._exited = asyncio.Event()
        self._terminated = False
        # The process goes on without a debugger.
        self._let_go = False
        self.just_my_code = True
        self._background: set[asyncio.Task[None]] = set()

    # ---- beginning -------------------------------------------------------------------------------

    @request(When.ANY)
    async def initialize_request(self, arguments: Arguments) -> Json:
        if self._session.client.initialized:
            raise RequestError("'initialize' was already sent in this session")
        self._session.client.introduce(arguments)
        self._session.outbox.event("initialized")
        return self._session.capabilities()

    @request(supportsConfigurationDoneRequest=True)
    async def configurationDone_request(self, arguments: Arguments) -> None:
        self._configured.set()

    # Clients differ in what they send first, `launch` or `configurationDone`: it waits beside them.
    @request(run=Run.BESIDE)
    async def launch_request(self, arguments: Arguments) -> None:
        if self._launching:
            raise RequestError("a program was already launched in this session")
        target = _target(arguments)
        stop_on_entry = arguments.boolean("stopOnEntry", False)
        no_debug = arguments.boolean("noDebug", False)
        gradients = arguments.boolean("gradients", False)
        self.just_my_code = arguments.boolean("justMyCode", True)
        self._launching = True
        try:
            await self._session.breakpoints.configure(gradients=gradients, off=no_debug)
            await self._configured.wait()
            await self._session.debugger.listen()
            # From here on there may be a process to end, also when this is cancelled.
            self._launched = True
            pid = await self._session.debugger.launch(
                target, stop_on_entry=stop_on_entry and not no_debug
            )
        except (DebuggerError, OSError) as error:
            self._launching = self._launched = False
            raise RequestError(str(error)) from error
        body = {
            "name": target.program,
            "systemProcessId": pid,
            "isLocalProcess": True,
            "startMethod": "launch",
        }
        self._session.outbox.event("process", body)

    # ---- ending ----------------------------------------------------------------------------------

    def process_exited(self, code: int) -> None:
        for thread in self._session.debugger.threads:
            self._session.stops.leave(thread.id)
        if code < 0:
            with contextlib.suppress(ValueError):
                name = signal.Signals(-code).name
                self._session.outbox.output("console", f"the program was ended by {name}\n")
        if not self._exited.is_set():
            self._exited.set()
            self._session.outbox.event("exited", {"exitCode": code})
        self._say_terminated()

    def _say_terminated(self) -> None:
        if not self._terminated:
            self._terminated = True
            self._session.outbox.event("terminated")

    @property
    def _alive(self) -> bool:
        return self._launched and not self._exited.is_set()

    @request(run=Run.AT_ONCE, ends_looking=True, supportsTerminateRequest=True)
    async def terminate_request(self, arguments: Arguments) -> None:
        if not self._launched:
            raise RequestError("there is no program to terminate: launch one first")
        # Answered at once; `exited` and `terminated` tell of its end.
        task = asyncio.create_task(self._terminate())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    @request(When.ANY, Run.AT_ONCE, ends_looking=True, supportTerminateDebuggee=True)
    async def disconnect_request(self, arguments: Arguments) -> None:
        terminate = arguments.boolean("terminateDebuggee", True)
        self._session.cancel_pending()
        if terminate:
            await self._terminate()
        elif self._alive:
            self._let_go = True
            with contextlib.suppress(DebuggerError):
                await self._session.debugger.detach()
            self._say_terminated()

    async def client_gone(self) -> None:
        """Whoever launched a program and vanished does not want it to run on."""
        if not self._let_go:
            await self._terminate()

    async def _terminate(self) -> None:
        if not self._alive:
            return
        with contextlib.suppress(DebuggerError):
            await self._session.debugger.terminate()
        # The last output and the exit code come as events behind the process's end.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._exited.wait(), 3.0)


def _target(arguments: Arguments) -> LaunchTarget:
    cwd = arguments.optional_string("cwd") or None
    if cwd is not None and not os.path.isdir(cwd):
        raise RequestError(f"cannot launch: the working directory {cwd} does not exist")
    program = os.path.join(cwd or os.getcwd(), arguments.string("program"))
    if not os.path.isfile(program):
        raise RequestError(f"cannot launch: the program {program} does not exist")
    return LaunchTarget(
        program=program,
        args=tuple(arguments.strings("args")),
        cwd=cwd,
        env=arguments.string_map("env"),
        python=arguments.optional_string("python") or None,
    )
