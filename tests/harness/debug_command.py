"""Runs `opstep debug` as a process, on a script that acts like an executor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.markers import line_of
from harness.patience import SECONDS

HERE = Path(__file__).parent
OPSTEP = (sys.executable, "-m", "opstep_server")
SCRIPT = "scripted_train.py"
LINES = len((HERE / SCRIPT).read_text().splitlines())
MATMUL, ADD, LOG = (
    line_of(HERE / SCRIPT, "matmul"),
    line_of(HERE / SCRIPT, "add"),
    line_of(HERE / SCRIPT, "log"),
)


def opstep(*args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*OPSTEP, *args],
        cwd=HERE,
        env={**os.environ, **env},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def batch(*commands: str, **env: str) -> tuple[list[str], int]:
    options = [word for command in commands for word in ("-ex", command)]
    result = opstep("debug", "--batch", *options, SCRIPT, **env)
    assert result.stderr == ""
    return result.stdout.splitlines(), result.returncode
