"""What people wait for: importing opstep and building a program."""

from __future__ import annotations

import subprocess
import sys
import time

import opstep
from opstep import layers


def best(measure, times: int) -> float:
    return min(measure() for _ in range(times))


def test_importing_is_quick() -> None:
    def measure() -> float:
        code = "import time; t = time.process_time(); import opstep; print(time.process_time() - t)"
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return float(run.stdout)

    assert best(measure, 5) < 0.3


def test_building_an_op_is_quick() -> None:
    ops = 500

    def measure() -> float:
        with opstep.program_guard(opstep.Program(), opstep.Program()):
            x = layers.data("x", [None, 8])
            # Of this thread alone: the machine may be busy with other things.
            start = time.thread_time()
            for _ in range(ops):
                x = layers.relu(x)
            return (time.thread_time() - start) / ops

    # pytest's own frames are in the stack here, so this is more than a script pays.
    assert best(measure, 10) < 30e-6
