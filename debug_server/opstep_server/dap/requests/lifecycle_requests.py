"""Requests from `initialize` to the end of the debuggee and of the session."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

from opstep_server import script_process
from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, When, request
from opstep_server.dap.requests.launch_options import Launch
from opstep_server.debugger import DebuggerError, ExecutorProcess

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession


class LifecycleRequests:
    """The launched process has three ends: it exits, it is terminated, or it is let go."""

    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        self._configured = asyncio.Event()
        # The last launch, or the one about to start.
        self._launch: Launch | None = None
        self._launched = False
        self._pid = 0
        # The client was asked to start it, which may take any time.
        self._starting = False
        self._restarting = False
        self._exited = asyncio.Event()
        self._terminated = False
        self._asked_to_end = False
        # The process was let go on without a debugger.
        self._let_go = False
        # The client has announced that it leaves.
        self.leaving = False
        self._just_my_code = True

    @property
    def just_my_code(self) -> bool:
        return self._just_my_code if self._launch is None else self._launch.just_my_code

    @property
    def launching(self) -> bool:
        return self._launch is not None

    def tells_end_of(self, executor: ExecutorProcess) -> bool:
        """Whether the end of the process is reported otherwise than as a lost connection."""
        if script_process.alive(executor.pid):
            return False
        return executor.pid == self._pid or self._session.attach.has(executor)

    # ---- beginning -------------------------------------------------------------------------------

    @request(When.ANY)
    async def initialize_request(self, arguments: Arguments) -> types.Capabilities:
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
        if self._launch is not None or self._session.attach.active:
            raise RequestError("a program was already launched in this session")
        self._launch = Launch.read(arguments)
        try:
            await self._configure(self._launch)
            await self._configured.wait()
            await self._start(self._launch)
        except (DebuggerError, RequestError, OSError) as error:
            self._launch = None
            raise RequestError(str(error)) from error

    @request(run=Run.BESIDE, ends_inspection=True, supportsRestartRequest=True)
    async def restart_request(self, arguments: Arguments) -> None:
        if self._launch is None or not self._alive:
            raise RequestError("there is no running program to restart: launch one first")
        if self._restarting:
            raise RequestError("the program is being restarted already")
        # The client may send newer arguments.
        launch = self._launch
        if "arguments" in arguments:
            launch = Launch.read(arguments.object("arguments"))
        self._restarting = True
        try:
            await self._session.debugger.terminate()
            self._launched = False
            await self._configure(launch)
            await self._start(launch)
        except (DebuggerError, RequestError, OSError) as error:
            self.say_terminated()
            raise RequestError(str(error)) from error
        finally:
            self._restarting = False

    async def attaching(self, arguments: Arguments) -> None:
        """The common part of `attach` and `launch`; returns after `configurationDone`."""
        self._just_my_code = arguments.boolean("justMyCode", True)
        gradients = arguments.boolean("gradients", False)
        await self._session.breakpoints.configure(gradients=gradients, off=False)
        await self._configured.wait()

    async def _configure(self, launch: Launch) -> None:
        await self._session.breakpoints.configure(gradients=launch.gradients, off=launch.no_debug)
        await self._session.exceptions.configure(off=launch.no_debug)

    async def _start(self, launch: Launch) -> None:
        await self._session.debugger.listen()
        self._launch = launch
        # From here on there may be a process to end, even when this is cancelled.
        self._launched = self._starting = True
        try:
            self._pid = await launch.start(self._session)
        except Exception:
            self._launched = False
            raise
        finally:
            self._starting = False
        self._asked_to_end = False
        body: types.ProcessEventBody = {
            "name": launch.target.program,
            "systemProcessId": self._pid,
            "isLocalProcess": True,
            "startMethod": "launch",
        }
        self._session.outbox.event("process", body)

    # ---- ending ----------------------------------------------------------------------------------

    def process_exited(self, code: int) -> None:
        if self._restarting:
            return
        for thread in self._session.debugger.threads:
            self._session.stops.leave(thread.id)
        if not self.leaving:
            self._session.cursor_lines.ended()
        if code < 0:
            with contextlib.suppress(ValueError):
                name = signal.Signals(-code).name
                self._session.outbox.output("console", f"the program was ended by {name}\n")
        elif code == 0 and self._launch and self._launch.target.debug:
            self._say_if_nothing_ran(self._launch.target.program)
        if not self._exited.is_set():
            self._exited.set()
            self._session.outbox.event("exited", {"exitCode": code})
        self.say_terminated()

    def _say_if_nothing_ran(self, program: str) -> None:
        if not self._session.sources.any_program:
            name = os.path.basename(program)
            self._session.outbox.output(
                "console",
                f"{name} ended and ran no program of opstep, so there was nothing to stop at: "
                "debug a script that calls Executor.run\n",
            )

    def say_terminated(self) -> None:
        if not self._terminated:
            self._terminated = True
            self._session.outbox.event("terminated")

    @property
    def _alive(self) -> bool:
        return self._launched and not self._exited.is_set()

    @request(run=Run.AT_ONCE, ends_inspection=True, supportsTerminateRequest=True)
    async def terminate_request(self, arguments: Arguments) -> None:
        """Asks the program to end; a second request kills it. `exited` reports its end."""
        if self._session.attach.active:
            await self._session.attach.terminate()
            return
        if self._launch is None:
            raise RequestError("there is no program to terminate: launch one first")
        if not self._launched or self._starting:
            self._session.cancel_commands("launch", "restart")
            self._launch, self._launched = None, False
            self.say_terminated()
            return
        if not self._alive:
            return
        if self._asked_to_end:
            self._session.debugger.signal(signal.SIGKILL)
            return
        self._asked_to_end = True
        self._session.debugger.signal(signal.SIGTERM)
        # A stopped thread could not react.
        for stop in self._session.stops.all:
            with contextlib.suppress(DebuggerError):
                await self._session.debugger.resume(stop.thread.id, "continue")

    @request(When.ANY, Run.AT_ONCE, ends_inspection=True, supportTerminateDebuggee=True)
    async def disconnect_request(self, arguments: Arguments) -> None:
        attach = self._session.attach
        terminate = arguments.boolean("terminateDebuggee", not attach.active)
        self.leaving = True
        self._session.cancel_pending()
        if attach.active:
            await attach.disconnect(terminate)
        elif terminate:
            await self._terminate()
        elif self._alive:
            self._let_go = True
            with contextlib.suppress(DebuggerError):
                await self._session.debugger.detach()
            # Some clients kill the adapter right after the response.
            await self._session.debugger.let_go()
            self.say_terminated()
        self._session.events.tell_dropped()

    async def client_gone(self) -> None:
        """A client that launched a program and vanished does not want it to run on."""
        if self._session.attach.active:
            await self._session.attach.disconnect(terminate=False)
        elif not self._let_go:
            await self._terminate()

    async def _terminate(self) -> None:
        if not self._alive:
            return
        with contextlib.suppress(DebuggerError):
            await self._session.debugger.terminate()
        # The last output and the exit code come as events after the process's end.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._exited.wait(), 3.0)
