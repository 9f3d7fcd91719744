"""Steps a second through the Debug Adapter Protocol, each with a stackTrace, beside debugpy."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from table import Row, speed_ratio

STEPS = 1500
PEER_STEPS = 60
BAR = 500.0

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
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=-1
        )
        self.seq = 0
        self.events: list[dict[str, Any]] = []

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        length = 0
        while line := self.process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if not length:
            raise EOFError("the adapter closed the connection")
        message = json.loads(self.process.stdout.read(length))
        assert isinstance(message, dict)
        return message

    def send(self, command: str, **arguments: Any) -> int:
        assert self.process.stdin is not None
        self.seq += 1
        body = json.dumps(
            {"seq": self.seq, "type": "request", "command": command, "arguments": arguments}
        ).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()
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


def _measure(client: Client, thread: int, steps: int, **step: Any) -> tuple[float, float]:
    """Steps a second, and the median time of one step in milliseconds."""
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        client.request("next", threadId=thread, **step)
        assert client.event("stopped")["reason"] == "step"
        frames = client.request("stackTrace", threadId=thread, startFrame=0, levels=20)[
            "stackFrames"
        ]
        assert frames
        times.append(time.perf_counter() - start)
    return steps / sum(times), statistics.median(times) * 1e3


def _ours(folder: Path) -> tuple[float, float]:
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
        _measure(client, thread, 50, granularity="instruction")
        return _measure(client, thread, STEPS, granularity="instruction")
    finally:
        client.close()


def _debugpy(folder: Path) -> tuple[float, float]:
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
        _measure(client, thread, 5)
        return _measure(client, thread, PEER_STEPS)
    finally:
        client.close()


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        ours, ours_ms = _ours(Path(folder))
        peer, peer_ms = _debugpy(Path(folder))
    return [
        Row(
            "op steps over DAP with stackTrace",
            ours,
            "/s",
            "debugpy (Python lines)",
            peer,
            speed_ratio(ours, peer, higher_is_better=True),
            f">= {BAR:.0f}/s",
            ours >= BAR,
        ),
        Row(
            "one such step, median",
            ours_ms,
            "ms",
            "debugpy (Python lines)",
            peer_ms,
            speed_ratio(ours_ms, peer_ms),
        ),
    ]
