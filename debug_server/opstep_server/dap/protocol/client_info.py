"""The client's description of itself in `initialize`."""

from __future__ import annotations

from opstep_server.dap.protocol.request_arguments import Arguments, RequestError


class ClientInfo:
    def __init__(self) -> None:
        self.initialized = False
        self.variable_types = False
        self.terminal = False
        self.progress = False
        self.invalidated = False
        self.memory = False
        self._first_line = 1
        self._first_column = 1

    def introduce(self, arguments: Arguments) -> None:
        path_format = arguments.string("pathFormat", "path")
        if path_format != "path":
            raise RequestError(f"pathFormat '{path_format}' is not supported: use 'path'")
        self._first_line = 1 if arguments.boolean("linesStartAt1", True) else 0
        self._first_column = 1 if arguments.boolean("columnsStartAt1", True) else 0
        self.variable_types = arguments.boolean("supportsVariableType", False)
        self.terminal = arguments.boolean("supportsRunInTerminalRequest", False)
        self.progress = arguments.boolean("supportsProgressReporting", False)
        self.invalidated = arguments.boolean("supportsInvalidatedEvent", False)
        self.memory = arguments.boolean("supportsMemoryEvent", False)
        self.initialized = True

    def line(self, ours: int) -> int:
        """The client's number of a line; ours begin at 1."""
        return ours - 1 + self._first_line

    def our_line(self, theirs: int) -> int:
        return theirs + 1 - self._first_line

    @property
    def first_column(self) -> int:
        return self._first_column
