"""A process that is killed while it writes a checkpoint leaves one that can be gone on from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.patience import SECONDS

pytestmark = pytest.mark.e2e


def test_a_hundred_kills_leave_a_hundred_checkpoints(programs: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        programs / "killed_checkpoints.py",
        tmp_path / "checkpoint.safetensors",
        "100",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    times, halves, steps = map(int, done.stdout.split())
    assert times >= 100 and steps >= times and halves >= 20
