"""Runs `opstep debug` as a process, on a script that speaks as an executor would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from patience import SECONDS
from scripted_train import line_of

HERE = Path(__file__).parent
OPSTEP = (sys.executable, "-m", "opstep_server")
SCRIPT = "scripted_train.py"
LINES = len((HERE / SCRIPT).read_text().splitlines())
MATMUL, ADD, LOG = line_of("matmul"), line_of("add"), line_of("log")


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
