"""What a program prints and what its log points write come in the order in which they happened."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.dap_client import SECONDS, Session
from harness.markers import line_of

pytestmark = pytest.mark.e2e

RUNS = 200
BUILD = """
import os, sys, numpy as np, opstep
from opstep import layers
exe = opstep.Executor()
main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[1])
    y = layers.relu(x)  # @relu
def run(i):
    exe.run(main, feed={"x": np.full(1, i, np.float32)}, fetch_list=[y])
"""
COMPILED = f"""{BUILD}
for i in range({RUNS}):
    print("before", i, flush=True)
    run(i)
    print("after", i, flush=True)
"""
IMPERATIVE = f"""
import numpy as np
from opstep import layers
from opstep.imperative import guard, to_variable
with guard():
    for i in range({RUNS}):
        print("before", i, flush=True)
        x = to_variable(np.full(1, i, np.float32))
        y = layers.relu(x)  # @relu
        print("after", i, flush=True)
"""
WANTED = [f"{what} {i}" for i in range(RUNS) for what in ("before", "log", "after")]


@pytest.mark.parametrize("text", [COMPILED, IMPERATIVE], ids=["compiled", "imperative"])
def test_in_an_editor(tmp_path: Path, text: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    lines = {str(script): [{"line": line_of(script, "relu"), "logMessage": "log {out[0]:.0f}"}]}
    with Session() as session:
        session.start(script, lines=lines)
        assert session.ends() == 0
        outputs = [m["body"]["output"] for m in session.history if m.get("event") == "output"]
        assert "".join(outputs).splitlines() == WANTED


def test_in_a_terminal(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(COMPILED)
    commands = ("-ex", "break relu log log {X[0]:.0f}", "-ex", "run")
    result = subprocess.run(
        [sys.executable, "-m", "opstep_server", "debug", "--batch", *commands, str(script)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    lines = result.stdout.splitlines()
    assert lines[lines.index("before 0") : -1] == WANTED


def test_what_a_run_wrote_is_counted_when_the_run_ends(tmp_path: Path) -> None:
    """The process leaves without a word right behind it."""
    script = tmp_path / "script.py"
    script.write_text(f"{BUILD}\nfor i in range(3): run(i)\nos._exit(3)\n")
    lines = {str(script): [{"line": line_of(script, "relu"), "logMessage": "log {out[0]:.0f}"}]}
    with Session() as session:
        session.start(script, lines=lines)
        assert session.ends() == 3
        outputs = [m["body"]["output"] for m in session.history if m.get("event") == "output"]
        assert "".join(outputs).splitlines()[:3] == ["log 0", "log 1", "log 2"]
