"""The example: taps added, changed and removed on a server under load, answers byte for byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.patience import SECONDS

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "serve_and_log" / "demo.py"


def test_answers_are_the_same_and_all_is_logged(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--requests", "100", "--to", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(" p50")[0].strip() for line in lines[:-1]] == [
        *("without taps", "a tap was added", "changed, another added", "all were removed")
    ]
    assert lines[-1] == "all answers are the same bytes"
    taps = [line.split("records ")[1] for line in lines[:-1]]
    assert taps[0] == "{}" and "answers" not in taps[1] and "answers" in taps[2]
    assert taps[3] == taps[2], "what was removed goes on logging"
