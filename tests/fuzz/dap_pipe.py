"""A DAP client on an adapter's pipes that reads only when it is told to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

Json = dict[str, Any]


class Client:
    """No thread: what is not read stays in the pipe, as with an editor that is busy."""

    def __init__(self) -> None:
        self._adapter = subprocess.Popen(
            [sys.executable, "-m", "opstep_server", "dap"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._seq = 0
        self._buffer = b""
        self.messages: list[Json] = []

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._adapter.stdin is not None and self._adapter.stdout is not None
        self._adapter.stdin.close()
        while self.read():
            pass
        self._adapter.stdout.close()
        self._adapter.wait(300)

    def send(self, command: str, arguments: Mapping[str, object] | None = None) -> int:
        assert self._adapter.stdin is not None
        self._seq += 1
        body = {"seq": self._seq, "type": "request", "command": command}
        data = json.dumps({**body, "arguments": arguments or {}}).encode()
        self._adapter.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(data), data))
        self._adapter.stdin.flush()
        return self._seq

    def read(self, most: int = 1 << 16) -> bool:
        """Takes what has come, at least one byte; False at the end of the stream."""
        assert self._adapter.stdout is not None
        data = os.read(self._adapter.stdout.fileno(), most)
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            header, _, rest = self._buffer.partition(b"\r\n\r\n")
            length = int(header.rpartition(b":")[2])
            if len(rest) < length:
                break
            self.messages.append(json.loads(rest[:length]))
            self._buffer = rest[length:]
        return bool(data)

    def until(self, found: Callable[[Json], bool]) -> Json:
        seen = 0
        while True:
            for message in self.messages[seen:]:
                if found(message):
                    return message
            seen = len(self.messages)
            assert self.read(), f"the adapter ended: {self.messages[-3:]}"

    def event(self, name: str) -> Json:
        return self.until(lambda each: each.get("event") == name)

    def answer(self, seq: int) -> Json:
        return self.until(lambda each: each.get("request_seq") == seq)

    def outputs(self) -> list[str]:
        events = (each for each in self.messages if each.get("event") == "output")
        return [each["body"]["output"] for each in events]
