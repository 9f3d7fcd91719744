"""Servers that stand still while they are being written to: the socket is full."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.patience import SECONDS

pytestmark = pytest.mark.e2e

# Reads the tensors of a stopped thread over and over.
SERVER = """
import asyncio
from opstep_server.debugger import Debugger
from opstep_server.model import BreakpointSpec, PatternWhere, StoppedEvent

async def main():
    debugger, events = Debugger(), asyncio.Queue()
    debugger.subscribe(events.put_nowait)
    await debugger.add_breakpoint(BreakpointSpec(PatternWhere("tanh")))
    print(await debugger.listen(), flush=True)
    while not isinstance(event := await events.get(), StoppedEvent):
        pass
    for number in range(1, 1000):
        await debugger.read_bytes(event.thread.id, 0, "x", 0, 1 << 40)
        print("read", flush=True)

asyncio.run(main())
"""

PROGRAM = """
import numpy as np
import opstep
from opstep import layers

x = layers.data("x", shape=[None, 1024])
y = layers.tanh(x)
feed = {"x": np.ones((8192, 1024), np.float32)}
opstep.Executor().run(opstep.default_main_program(), feed, [y])
print("done")
"""


@pytest.fixture
def deaf(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that is stopped by a server that stands still in the middle of a read."""
    command = [sys.executable, "-c"]
    with subprocess.Popen([*command, SERVER], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        script = tmp_path / "script.py"
        script.write_text(PROGRAM)
        address = server.stdout.readline().strip()
        env = {**os.environ, "OPSTEP_SERVER": address, "OPSTEP_WAIT": "100"}
        program = subprocess.Popen(
            [sys.executable, str(script)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert server.stdout.readline() == "read\n"
            server.send_signal(signal.SIGSTOP)
            yield program
        finally:
            server.kill()
            program.kill()
            program.communicate()


def test_a_server_that_stops_reading_is_left(deaf: subprocess.Popen[str]) -> None:
    output, _ = deaf.communicate(timeout=SECONDS)
    assert deaf.returncode == 0, output
    assert "done" in output


def test_ctrl_c_ends_a_run_whose_server_does_not_read(deaf: subprocess.Popen[str]) -> None:
    deaf.send_signal(signal.SIGINT)
    output, _ = deaf.communicate(timeout=SECONDS)
    assert deaf.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in output
