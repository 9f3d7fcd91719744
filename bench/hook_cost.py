"""Instructions that an op of a program costs with the hook there but off, with the hook compiled
out, and after ops of imperative mode."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from table import Row

ROOT = Path(__file__).resolve().parent.parent
BAR = 3.0
TRACED_BAR = 0.1
OPS, RUNS = 1000, 40


def _instructions(program: Path, runs: int, *options: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                f"--callgrind-out-file={folder}/out",
                # Only the run loop and its callees: no other thread, no start-up.
                "--toggle-collect=opstep::Frame::RunBlock(int, unsigned long)",
                str(program),
                str(OPS),
                str(runs),
                *options,
            ],
            capture_output=True,
            text=True,
            check=True,
        )
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1])


def _per_op(program: Path, *options: str) -> float:
    # The difference of two lengths: the part equal in both (start, compile) cancels out.
    long, short = (_instructions(program, runs, *options) for runs in (2 * RUNS, RUNS))
    return (long - short) / (OPS * RUNS)


def rows() -> list[Row]:
    build = ROOT / "build" / "cmake"
    subprocess.run(
        ["cmake", "--build", str(build), "--target", "hook_off", "hook_absent"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    folder = build / "bench"
    off, absent = _per_op(folder / "hook_off"), _per_op(folder / "hook_absent")
    traced = _per_op(folder / "hook_off", "traced")
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
        ),
        Row(
            "instructions an op, after imperative ops",
            traced,
            "",
            "imperative mode not used",
            off,
            None,
            f"differ by <= {TRACED_BAR:g}",
            abs(traced - off) <= TRACED_BAR,
        ),
    ]
