"""A client of debugpy, the debugger for Python in editors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.patience import SECONDS

Json = dict[str, Any]


class Debugpy:
    """One script under debugpy, stopped at a line."""

    def __init__(self, script: Path, line: int) -> None:
        self._script, self._line = script, line
        self._seq = 0
        self._events: list[Json] = []

    def __enter__(self) -> Debugpy:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "debugpy.adapter"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.request("initialize", adapterID="debugpy", linesStartAt1=True, pathFormat="path")
        launched = self._send(
            "launch",
            program=str(self._script),
            python=[sys.executable],
            console="internalConsole",
            redirectOutput=True,
        )
        self.event("initialized")
        self.request(
            "setBreakpoints",
            source={"path": str(self._script)},
            breakpoints=[{"line": self._line}],
        )
        self.request("configurationDone")
        self._response(launched)
        self.thread = self.event("stopped")["threadId"]
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.request("disconnect", terminateDebuggee=True)
        finally:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def request(self, command: str, **arguments: Any) -> Json:
        return self._response(self._send(command, **arguments))

    def event(self, name: str) -> Json:
        while True:
            for event in self._events:
                if event["event"] == name:
                    self._events.remove(event)
                    return event.get("body") or {}
            self._take(self._read())

    def locals(self) -> dict[str, Json]:
        frame = self.request("stackTrace", threadId=self.thread)["stackFrames"][0]
        scope = self.request("scopes", frameId=frame["id"])["scopes"][0]
        return self.children(scope)

    def children(self, of: Json) -> dict[str, Json]:
        found = self.request("variables", variablesReference=of["variablesReference"])
        return {variable["name"]: variable for variable in found["variables"]}

    def next(self) -> None:
        self.request("next", threadId=self.thread)
        self.event("stopped")

    # ---- messages

    def _send(self, command: str, **arguments: Any) -> int:
        self._seq += 1
        message = {"seq": self._seq, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()
        return self._seq

    def _read(self) -> Json:
        assert self._process.stdout is not None
        header = self._process.stdout.readline()
        assert header.lower().startswith(b"content-length:"), header
        self._process.stdout.readline()
        message = json.loads(self._process.stdout.read(int(header.split(b":")[1])))
        assert isinstance(message, dict)
        return message

    def _take(self, message: Json) -> None:
        if message["type"] == "event":
            self._events.append(message)

    def _response(self, seq: int) -> Json:
        while True:
            message = self._read()
            if message["type"] == "response" and message["request_seq"] == seq:
                assert message["success"], message
                return message.get("body") or {}
            self._take(message)
