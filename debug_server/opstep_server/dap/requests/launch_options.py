"""The options of `launch`, and the start of the program: as a child or in the client's terminal."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opstep_server.client_terminal import TerminalCommand
from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.debugger import LaunchTarget

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

_CONSOLES = ("internalConsole", "integratedTerminal", "externalTerminal")


@dataclass(frozen=True)
class Launch:
    target: LaunchTarget
    stop_on_entry: bool
    just_my_code: bool
    gradients: bool
    no_debug: bool
    console: str

    @staticmethod
    def read(arguments: Arguments) -> Launch:
        no_debug = arguments.boolean("noDebug", False)
        return Launch(
            _target(arguments),
            stop_on_entry=arguments.boolean("stopOnEntry", False) and not no_debug,
            just_my_code=arguments.boolean("justMyCode", True),
            gradients=arguments.boolean("gradients", False),
            no_debug=no_debug,
            console=arguments.one_of("console", _CONSOLES, "internalConsole"),
        )

    async def start(self, session: AdapterSession) -> int:
        """The new process's id."""

        async def in_terminal(command: TerminalCommand) -> None:
            wanted: types.RunInTerminalRequestArguments = {
                "kind": "external" if self.console == "externalTerminal" else "integrated",
                "title": f"opstep: {os.path.basename(self.target.program)}",
                "cwd": command.cwd,
                "args": command.args,
                "env": dict(command.env),
            }
            try:
                await session.ask("runInTerminal", wanted)
            except RequestError as error:
                raise RequestError(
                    f"cannot launch: the editor could not run the program in a terminal: {error}"
                ) from error

        inside = self.console == "internalConsole"
        if not inside and not session.client.terminal:
            raise RequestError(
                f"cannot launch: this client has no terminal for console '{self.console}', "
                "use 'internalConsole'"
            )
        return await session.debugger.launch(
            self.target,
            stop_on_entry=self.stop_on_entry,
            in_terminal=None if inside else in_terminal,
        )


def _target(arguments: Arguments) -> LaunchTarget:
    cwd = arguments.optional_string("cwd") or None
    if cwd is not None and not os.path.isdir(cwd):
        raise RequestError(f"cannot launch: the working directory {cwd} does not exist")
    module = arguments.optional_string("module")
    if module is not None and "program" in arguments:
        raise RequestError("cannot launch: give either a program or a module, not both")
    if module is None:
        program = os.path.join(cwd or os.getcwd(), arguments.string("program"))
        if not os.path.isfile(program):
            raise RequestError(f"cannot launch: the program {program} does not exist")
    return LaunchTarget(
        program=program if module is None else module,
        module=module is not None,
        args=tuple(arguments.strings("args")),
        cwd=cwd,
        env=arguments.string_map("env"),
        python=arguments.optional_string("python") or None,
        debug=not arguments.boolean("noDebug", False),
        keep=arguments.boolean("keepRunning", False),
    )
