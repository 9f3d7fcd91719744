"""The time before anything runs: importing opstep, and making an op."""

from __future__ import annotations

import subprocess
import sys
import time

from table import Row

import opstep
from opstep import layers

OPS = 500


def _build() -> float:
    with opstep.program_guard(opstep.Program(), opstep.Program()):
        x = layers.data("x", [None, 8])
        start = time.thread_time()
        for _ in range(OPS):
            x = layers.relu(x)
        return (time.thread_time() - start) / OPS


def _train() -> float:
    """A network with its training step: layers, initializers, gradients and updates."""
    main, startup = opstep.Program(), opstep.Program()
    start = time.thread_time()
    with opstep.program_guard(main, startup):
        x = layers.data("x", [None, 8])
        for _ in range(OPS // 20):
            x = layers.fc(x, size=8, act="relu")
        opstep.optimizer.Adam(0.001).minimize(layers.mean(x))
    spent = time.thread_time() - start
    return spent / sum(len(program.global_block().ops) for program in (main, startup))


def _import() -> float:
    code = (
        "import numpy, time; t = time.process_time(); import opstep; print(time.process_time() - t)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(run.stdout)


def _row(name: str, value: float, unit: str, bar: float) -> Row:
    return Row(name, value, unit, bar=f"<= {bar:.0f} {unit}", met=value <= bar)


def rows() -> list[Row]:
    return [
        _row(
            "making an op, with its creation stack",
            min(_build() for _ in range(20)) * 1e6,
            "us",
            30,
        ),
        _row(
            "an op of a network trained by Adam", min(_train() for _ in range(20)) * 1e6, "us", 30
        ),
        _row("importing opstep, after NumPy", min(_import() for _ in range(5)) * 1e3, "ms", 300),
    ]
