"""A strict client of `python -m opstep_server dap`, a real process.

Every message in both directions is checked against the published schema; numbers must rise by one,
and each request must get exactly one response. Leaving a session's `with` is part of the test: the
adapter must have ended with the expected code, in time, without important unread messages.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.dap_schema import check_message
from harness.patience import SECONDS

Json = dict[str, Any]
ADAPTER = (sys.executable, "-m", "opstep_server", "dap")


class Failure(Exception):
    """A failure response, for tests that expect one."""

    def __init__(self, response: Json) -> None:
        self.short: str = response["message"]
        self.sentence: str = response["body"]["error"]["format"]
        super().__init__(self.sentence)


class Session:
    """One adapter process and its one client."""

    def __init__(self, *, exit_code: int = 0, env: dict[str, str] | None = None) -> None:
        self._expected_exit = exit_code
        self._env = {**os.environ, **(env or {})}
        self._seq = 0
        self._their_seq = 0
        self._open: dict[int, str] = {}
        self._responses: dict[int, Json] = {}
        self._events: list[Json] = []
        self._incoming: queue.Queue[Json | Exception | None] = queue.Queue()
        self._ended = False
        self._left = False
        self._module_columns: list[str] = []
        # Answers to the adapter's requests: the body, or an exception.
        self.answers: dict[str, Callable[[Json], Json]] = {}
        self.output = ""
        self.history: list[Json] = []

    # ---- the process -----------------------------------------------------------------------------

    def __enter__(self) -> Session:
        self.process = subprocess.Popen(
            ADAPTER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._env,
        )
        self._stderr = b""
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._read, self._drain)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        try:
            if kind is None and not self._left and not self._ended:
                self.request("disconnect", {"terminateDebuggee": True})
            with contextlib.suppress(OSError):
                self.stdin.close()
            self.process.wait(SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            for thread in self._threads:
                thread.join(SECONDS)
            if kind is not None:
                print("the last messages:", *map(json.dumps, self.history[-20:]), sep="\n  ")
                print(f"adapter's stderr:\n{self.stderr}")
        if kind is None:
            while not self._ended:
                self._take(0.5)
            assert not self._open, f"requests without a response: {self._open}"
            assert self.process.returncode == self._expected_exit, self.stderr
            assert "Traceback" not in self.stderr, self.stderr

    @property
    def stdin(self) -> Any:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stderr(self) -> str:
        return self._stderr.decode(errors="replace")

    def vanish(self) -> None:
        """Closes the pipe without a request."""
        self._left = True
        self.stdin.close()

    def wait_for_end(self, seconds: float = SECONDS) -> int:
        """Waits for the adapter's end without a `disconnect`."""
        self._left = True
        return self.process.wait(seconds)

    # ---- requests --------------------------------------------------------------------------------

    def send(self, command: str, arguments: Any = ..., *, valid: bool = True) -> int:
        """Sends a request and returns its number."""
        self._seq += 1
        message: Json = {"seq": self._seq, "type": "request", "command": command}
        if arguments is not ...:
            message["arguments"] = arguments
        if valid:
            check_message(message)
        self._open[self._seq] = command
        self._left = self._left or command == "disconnect"
        self._write(message)
        return self._seq

    def _write(self, message: Json) -> None:
        body = json.dumps(message).encode()
        self.raw(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def raw(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def response(self, seq: int, seconds: float = SECONDS) -> Json:
        """The body of the response; raises Failure for a failed request."""
        deadline = time.monotonic() + seconds
        while seq not in self._responses:
            self._take(deadline - time.monotonic())
        response = self._responses.pop(seq)
        if not response["success"]:
            raise Failure(response)
        body: Json = response["body"]
        return body

    def request(self, command: str, arguments: Any = ..., *, valid: bool = True) -> Json:
        return self.response(self.send(command, arguments, valid=valid))

    def fails(self, command: str, arguments: Any = ..., *, valid: bool = True) -> Failure:
        try:
            body = self.request(command, arguments, valid=valid)
        except Failure as failure:
            return failure
        raise AssertionError(f"{command} succeeded with {body}")

    # ---- events ----------------------------------------------------------------------------------

    def event(
        self, name: str, where: Callable[[Json], bool] = lambda body: True, seconds: float = SECONDS
    ) -> Json:
        """The body of the next such event, or of an earlier one that was not taken."""
        deadline = time.monotonic() + seconds
        position = 0
        while True:
            while position < len(self._events):
                event = self._events[position]
                if event["event"] == name and where(event["body"]):
                    del self._events[position]
                    return event["body"]  # type: ignore[no-any-return]
                position += 1
            self._take(deadline - time.monotonic())

    def no_event(self, name: str) -> None:
        """Checks that none came before the answer to a request made now."""
        self.request("threads")
        assert not [e for e in self._events if e["event"] == name]

    def count(self, name: str) -> int:
        """The number of such events so far."""
        return sum(1 for m in self.history if m.get("event") == name)

    # ---- common sequences ------------------------------------------------------------------------

    def initialize(self, **more: Any) -> Json:
        arguments = {
            "adapterID": "opstep",
            "clientID": "tests",
            "linesStartAt1": True,
            "columnsStartAt1": True,
            "pathFormat": "path",
            "supportsVariableType": True,
            "supportsVariablePaging": True,
            "supportsRunInTerminalRequest": True,
            "supportsProgressReporting": True,
            "supportsInvalidatedEvent": True,
            "supportsMemoryEvent": True,
            **more,
        }
        capabilities = self.introduce(arguments)
        self.event("initialized")
        return capabilities

    def introduce(self, arguments: Json) -> Json:
        """Sends `initialize` with only these arguments."""
        capabilities = self.request("initialize", arguments)
        columns = capabilities.get("additionalModuleColumns", [])
        self._module_columns = [column["attributeName"] for column in columns]
        return capabilities

    def start(
        self,
        program: str | Path,
        *args: str,
        lines: dict[str, list[Json]] | None = None,
        functions: list[Json] | None = None,
        filters: list[str] | None = None,
        **launch: Any,
    ) -> list[Json]:
        """From `initialize` to the launch's response, as in VS Code; returns the breakpoints."""
        self.initialize()
        launched = self.send("launch", {"program": str(program), "args": list(args), **launch})
        answers: list[Json] = []
        for path, breakpoints in (lines or {}).items():
            body = self.request(
                "setBreakpoints", {"source": {"path": path}, "breakpoints": breakpoints}
            )
            answers += body["breakpoints"]
        if functions is not None:
            body = self.request("setFunctionBreakpoints", {"breakpoints": functions})
            answers += body["breakpoints"]
        self.request("setExceptionBreakpoints", {"filters": filters or []})
        self.request("configurationDone")
        self.response(launched)
        return answers

    def stopped(self, reason: str | None = None) -> Json:
        body = self.event("stopped")
        assert reason is None or body["reason"] == reason, body
        return body

    def stack(self, thread_id: int, **more: Any) -> list[Json]:
        body = self.request("stackTrace", {"threadId": thread_id, **more})
        return list(body["stackFrames"])

    def top(self, thread_id: int) -> Json:
        return self.stack(thread_id, startFrame=0, levels=1)[0]

    def scopes(self, frame_id: int) -> dict[str, int]:
        scopes = self.request("scopes", {"frameId": frame_id})["scopes"]
        return {scope["name"]: scope["variablesReference"] for scope in scopes}

    def variables(self, reference: int, **more: Any) -> dict[str, Json]:
        body = self.request("variables", {"variablesReference": reference, **more})
        return {variable["name"]: variable for variable in body["variables"]}

    def evaluate(self, expression: str, frame_id: int, context: str = "watch") -> Json:
        arguments = {"expression": expression, "frameId": frame_id, "context": context}
        return self.request("evaluate", arguments)

    def step(self, command: str, thread_id: int, granularity: str = "statement") -> Json:
        """Steps, and returns the stop's top frame."""
        self.request(command, {"threadId": thread_id, "granularity": granularity})
        self.stopped("step")
        return self.top(thread_id)

    def ends(self) -> int:
        """Waits for the debuggee's end: `exited`, then `terminated`, once each; the exit code."""
        code: int = self.event("exited")["exitCode"]
        self.event("terminated")
        names = [m.get("event") for m in self.history if m["type"] == "event"]
        assert names.index("exited") < names.index("terminated")
        assert names.count("exited") == names.count("terminated") == 1
        return code

    # ---- reading ---------------------------------------------------------------------------------

    def _take(self, seconds: float) -> None:
        """Handles one incoming message."""
        assert not self._ended, f"the adapter ended; open: {self._open}; stderr: {self.stderr}"
        try:
            message = self._incoming.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            raise TimeoutError(f"the adapter said nothing; open: {self._open}") from None
        if message is None:
            self._ended = True
            return
        if isinstance(message, Exception):
            raise message
        self._their_seq += 1
        assert message["seq"] == self._their_seq, f"seq must be {self._their_seq}: {message}"
        check_message(message, self._module_columns)
        self.history.append(message)
        if message["type"] == "request":
            self._answer(message)
            return
        assert "body" in message, message
        if message["type"] == "response":
            command = self._open.pop(message["request_seq"], None)
            assert command == message["command"], f"nobody waits for {message}"
            self._responses[message["request_seq"]] = message
            return
        self._events.append(message)
        if message["event"] == "output" and message["body"].get("category") == "stdout":
            self.output += message["body"]["output"]

    def _answer(self, request: Json) -> None:
        """Answers a request from the adapter."""
        self._seq += 1
        response: Json = {
            "seq": self._seq,
            "type": "response",
            "request_seq": request["seq"],
            "command": request["command"],
            "success": True,
        }
        try:
            response["body"] = self.answers[request["command"]](request["arguments"])
        except Exception as error:
            response.update(success=False, message=str(error))
            response["body"] = {"error": {"id": 1, "format": str(error)}}
        check_message(response)
        self._write(response)

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        try:
            while header := stream.readline():
                match = re.fullmatch(rb"Content-Length: (\d+)\r\n", header)
                assert match, f"stdout holds something else than the protocol: {header!r}"
                assert stream.readline() == b"\r\n"
                self._incoming.put(json.loads(stream.read(int(match[1]))))
        except Exception as error:
            self._incoming.put(error)
        self._incoming.put(None)

    def _drain(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._stderr += line
