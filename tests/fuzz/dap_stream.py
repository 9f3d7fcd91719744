"""Fuzz: the stream of a client that has logged in, damaged byte by byte.

The server answers each request once at the most, serves the next client, and the process that is
debugged runs on.

PYTHONPATH=tests python -m fuzz.dap_stream --seconds 60 --seed 1
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from harness.processes import Client, Script, Server, connect

Json = dict[str, Any]
SECONDS = 300.0
# What is sent behind the login, in an order of chance; nothing that ends the process.
REQUESTS: tuple[tuple[str, Json], ...] = (
    ("attach", {}),
    ("configurationDone", {}),
    ("threads", {}),
    ("pause", {"threadId": 1}),
    ("stackTrace", {"threadId": 1}),
    ("scopes", {"frameId": 1}),
    ("variables", {"variablesReference": 1}),
    ("evaluate", {"expression": "y.mean()", "context": "repl"}),
    ("evaluate", {"expression": "y[0] = 1", "frameId": 1, "context": "repl"}),
    ("setBreakpoints", {"source": {"path": "/forever.py"}, "breakpoints": [{"line": 21}]}),
    ("setFunctionBreakpoints", {"breakpoints": [{"name": "tanh", "logMessage": "{X.sum()}"}]}),
    ("setExceptionBreakpoints", {"filters": ["nan"]}),
    ("dataBreakpointInfo", {"name": "y"}),
    ("readMemory", {"memoryReference": "0x10000000000", "count": 16}),
    ("next", {"threadId": 1}),
    ("continue", {"threadId": 1}),
    ("modules", {}),
    ("completions", {"text": "y.", "column": 3}),
    ("cancel", {"requestId": 3}),
)
HEADERS = (
    b"Content-Length: %d\r\n\r\n",
    b"content-length:%d\r\n\r\n",
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n",
)


def framed(message: Json, header: bytes = HEADERS[0]) -> bytes:
    body = json.dumps(message).encode()
    return header % len(body) + body


class Fuzz:
    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        self.streams = self.answers = 0

    def run(self, seconds: float, streams: int | None = None) -> None:
        end = time.monotonic() + seconds
        with tempfile.TemporaryDirectory() as folder:
            words = ("serve", "--dap", "127.0.0.1:0")
            with (
                Server(*words, XDG_RUNTIME_DIR=folder) as server,
                Script(Path(folder), OPSTEP_SERVER=server.executors).ready() as script,
            ):
                while time.monotonic() < end and self.streams != streams:
                    self._stream(server)
                    if self.streams % 10 == 0:
                        self._client(server, script)
                self._client(server, script)
                assert server.process.poll() is None, server.said
                assert "done" in script.finish()

    def _stream(self, server: Server) -> None:
        """One client, whose stream is damaged behind its login."""
        choose = self._choose
        arguments = {"adapterID": "opstep", "opstepToken": server.token}
        login = {"seq": 1, "type": "request", "command": "initialize", "arguments": arguments}
        asked = [choose.choice(REQUESTS) for _ in range(choose.randrange(1, 30))]
        stream = bytearray()
        for seq, (command, arguments) in enumerate([("attach", {}), *asked], 2):
            body = {"seq": seq, "type": "request", "command": command, "arguments": arguments}
            stream += framed(body, choose.choice(HEADERS))
        damages = choose.choice((0, 1, 1, 2, 5, 30))
        for _ in range(damages):
            self._damage(stream)
        with connect(server.clients) as client:
            client.settimeout(SECONDS)
            heard = self._talk(client, framed(login), bytes(stream))
        answered = Counter(m["request_seq"] for m in heard if m["type"] == "response")
        # A request that was damaged may have another's number.
        assert damages or max(answered.values()) == 1, answered
        assert answered.total() <= 2 + len(asked) + damages, answered
        assert answered[1] >= 1, "the login is not answered"
        assert [m["seq"] for m in heard] == list(range(1, len(heard) + 1))
        self.streams += 1
        self.answers += sum(answered.values())

    def _damage(self, stream: bytearray) -> None:
        choose = self._choose
        at = choose.randrange(len(stream)) if stream else 0
        length = choose.choice((1, 2, 7, 100))
        kind = choose.randrange(5)
        if kind == 0 and stream:
            stream[at] ^= 1 << choose.randrange(8)
        elif kind == 1:
            del stream[at : at + length]
        elif kind == 2:
            stream[at:at] = choose.randbytes(length)
        elif kind == 3:
            stream[at:at] = stream[at : at + length]
        else:
            digits = [i for i in range(len(stream)) if 48 <= stream[i] < 58]
            if digits:
                stream[choose.choice(digits)] = choose.randrange(48, 58)

    def _talk(self, client: socket.socket, login: bytes, stream: bytes) -> list[Json]:
        """Sends all in pieces of chance, and hears what comes up to the end."""
        received = bytearray()
        try:
            client.sendall(login)
            received += client.recv(1 << 16)
            while stream:
                length = self._choose.choice((1, 10, 200, 1 << 16))
                client.sendall(stream[:length])
                stream = stream[length:]
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # It was cut off, as a stream is that cannot be read any further.
        try:
            while piece := client.recv(1 << 16):
                received += piece
        except ConnectionResetError:
            pass
        heard: list[Json] = []
        while received:
            header, _, rest = bytes(received).partition(b"\r\n\r\n")
            length = int(header.removeprefix(b"Content-Length: "))
            if len(rest) < length:
                break  # The reset took the rest.
            heard.append(json.loads(rest[:length]))
            received = bytearray(rest[length:])
        return heard

    def _client(self, server: Server, script: Script) -> None:
        """One that does everything right is served."""
        with Client(server.clients, server.token) as client:
            client.initialize()
            attached = client.send("attach", {})
            client.request("configurationDone")
            client.response(attached)
            client.request("pause", {"threadId": 1})
            client.stopped()
            frame = client.top(1)["id"]
            shown = client.evaluate("y.shape", frame)["result"]
            assert shown == "[4]", shown
            client.request("disconnect", {"terminateDebuggee": False})
        assert script.process.poll() is None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    fuzz = Fuzz(options.seed)
    fuzz.run(options.seconds)
    print(f"{fuzz.streams} streams, {fuzz.answers} answers, seed {options.seed}: nothing broke")


if __name__ == "__main__":
    main()
