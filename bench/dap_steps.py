"""Steps a second through the Debug Adapter Protocol, bare and with a stackTrace, beside debugpy."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from table import Row, speed_ratio

# The best round counts, each of this many steps: a noisy moment hits some rounds only.
ROUNDS, STEPS = 30, 100
PEER_ROUNDS, PEER_STEPS = 5, 10
BARE_BAR = 2000.0
STACK_BAR = 500.0
MEDIAN_BAR = 2.0

GRAPH = """
import numpy as np
import opstep
from opstep import layers

x = layers.data("x", shape=[8])
value = x
for _ in range(200):
    value = value + x
exe = opstep.Executor()
for _ in range(1000):
    exe.run(feed={"x": np.ones(8, np.float32)}, fetch_list=[value])
"""

PYTHON = """
def main():
    value = 0
    for i in range(10_000_000):
        value = value + i
        value = value - 1

main()
"""


class Client:
    """Just enough of a DAP client: requests answered in order, events kept until asked for."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.received = b""
        self.seq = 0
        self.said: dict[str, bytes] = {}
        self.events: list[dict[str, Any]] = []

    def _receive(self) -> None:
        data = os.read(self.stdout, 1 << 16)
        if not data:
            raise EOFError("the adapter closed the connection")
        self.received += data

    def _read(self) -> dict[str, Any]:
        while (end := self.received.find(b"\r\n\r\n")) < 0:
            self._receive()
        end += 4
        until = end + int(self.received[:end].split(b":")[1])
        while len(self.received) < until:
            self._receive()
        message = json.loads(self.received[end:until])
        self.received = self.received[until:]
        assert isinstance(message, dict)
        return message

    def send(self, command: str, **arguments: Any) -> int:
        self.seq += 1
        # The adapter is measured, not this client: repeated requests are encoded once.
        key = f"{command} {arguments}"
        if key not in self.said:
            rest = {"type": "request", "command": command, "arguments": arguments}
            self.said[key] = json.dumps(rest).encode()[1:]
        body = b'{"seq": %d, %b' % (self.seq, self.said[key])
        os.write(self.stdin, b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return self.seq

    def response(self, seq: int) -> dict[str, Any]:
        while True:
            message = self._read()
            if message["type"] == "response" and message["request_seq"] == seq:
                if not message["success"]:
                    raise RuntimeError(message.get("message"))
                return message.get("body") or {}
            if message["type"] == "event":
                self.events.append(message)

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        return self.response(self.send(command, **arguments))

    def event(self, name: str) -> dict[str, Any]:
        while True:
            for i, event in enumerate(self.events):
                if event["event"] == name:
                    del self.events[i]
                    return event.get("body") or {}
            message = self._read()
            if message["type"] == "event":
                self.events.append(message)

    def close(self) -> None:
        self.send("disconnect", terminateDebuggee=True)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(frozen=True)
class Speed:
    """Steps a second, and the median time of one in milliseconds."""

    a_second: float
    median: float


def _measure(
    client: Client, thread: int, rounds: int, steps: int, *, stack: bool, **step: Any
) -> Speed:
    best = Speed(0, 0)
    for _ in range(rounds):
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            client.request("next", threadId=thread, **step)
            assert client.event("stopped")["reason"] == "step"
            if stack:
                body = client.request("stackTrace", threadId=thread, startFrame=0, levels=20)
                assert body["stackFrames"]
            times.append(time.perf_counter() - start)
        speed = Speed(steps / sum(times), statistics.median(times) * 1e3)
        best = max(best, speed, key=lambda s: s.a_second)
    return best


def _both(client: Client, thread: int, rounds: int, steps: int, **step: Any) -> tuple[Speed, Speed]:
    """Bare, and with a stackTrace after each step."""
    return (
        _measure(client, thread, rounds, steps, stack=False, **step),
        _measure(client, thread, rounds, steps, stack=True, **step),
    )


def _ours(folder: Path) -> tuple[Speed, Speed]:
    script = folder / "graph.py"
    script.write_text(GRAPH)
    client = Client([sys.executable, "-m", "opstep_server", "dap"])
    try:
        client.request("initialize", adapterID="opstep", linesStartAt1=True, columnsStartAt1=True)
        launch = client.send("launch", program=str(script), stopOnEntry=True, python=sys.executable)
        client.event("initialized")
        client.request("configurationDone")
        client.response(launch)
        thread = client.event("stopped")["threadId"]
        return _both(client, thread, ROUNDS, STEPS, granularity="instruction")
    finally:
        client.close()


def _debugpy(folder: Path) -> tuple[Speed, Speed]:
    script = folder / "loop.py"
    script.write_text(PYTHON)
    client = Client([sys.executable, "-m", "debugpy.adapter"])
    try:
        client.request(
            "initialize",
            adapterID="debugpy",
            linesStartAt1=True,
            columnsStartAt1=True,
            pathFormat="path",
        )
        launch = client.send(
            "launch", program=str(script), python=[sys.executable], console="internalConsole"
        )
        client.event("initialized")
        client.request("setBreakpoints", source={"path": str(script)}, breakpoints=[{"line": 5}])
        client.request("configurationDone")
        client.response(launch)
        thread = client.event("stopped")["threadId"]
        client.request("setBreakpoints", source={"path": str(script)}, breakpoints=[])
        return _both(client, thread, PEER_ROUNDS, PEER_STEPS)
    finally:
        client.close()


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        ours, ours_stack = _ours(Path(folder))
        peer, peer_stack = _debugpy(Path(folder))
    return [
        _rate("op steps over DAP", ours, peer, BARE_BAR),
        _rate("op steps over DAP with stackTrace", ours_stack, peer_stack, STACK_BAR),
        _median("one op step, median", ours, peer),
        _median("one op step with stackTrace, median", ours_stack, peer_stack),
    ]


_PEER = "debugpy (Python lines)"


def _rate(name: str, ours: Speed, peer: Speed, bar: float) -> Row:
    ratio = speed_ratio(ours.a_second, peer.a_second, higher_is_better=True)
    met = ours.a_second >= bar
    return Row(name, ours.a_second, "/s", _PEER, peer.a_second, ratio, f">= {bar:,.0f}/s", met)


def _median(name: str, ours: Speed, peer: Speed) -> Row:
    ratio = speed_ratio(ours.median, peer.median)
    met = ours.median < MEDIAN_BAR
    return Row(name, ours.median, "ms", _PEER, peer.median, ratio, f"< {MEDIAN_BAR:g} ms", met)
