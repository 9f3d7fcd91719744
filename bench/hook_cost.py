"""Instructions that an op costs with the hook there but off, and with the hook compiled out."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from table import Row

ROOT = Path(__file__).resolve().parent.parent
BAR = 3.0
OPS, RUNS = 1000, 40


def _instructions(program: Path, runs: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                f"--callgrind-out-file={folder}/out",
                # Only the run loop and what it calls: no other thread, no start.
                "--toggle-collect=opstep::Frame::RunBlock(int, unsigned long)",
                str(program),
                str(OPS),
                str(runs),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1])


def _per_op(program: Path) -> float:
    # The difference of two lengths: what is the same in both (start, compile) falls out.
    return (_instructions(program, 2 * RUNS) - _instructions(program, RUNS)) / (OPS * RUNS)


def rows() -> list[Row]:
    build = ROOT / "build" / "cmake"
    subprocess.run(
        ["cmake", "--build", str(build), "--target", "hook_off", "hook_absent"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    folder = build / "bench"
    off, absent = _per_op(folder / "hook_off"), _per_op(folder / "hook_absent")
    return [
        Row(
            "instructions an op, hook off",
            off,
            "",
            "hook compiled out",
            absent,
            None,
            f"differ by <= {BAR:.0f}",
            abs(off - absent) <= BAR,
        )
    ]
