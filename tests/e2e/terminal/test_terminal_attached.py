"""`opstep attach PID` at a real terminal: Ctrl-C, leaving, and coming back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.processes import SECONDS, Script
from harness.terminal import Terminal, terminal

pytestmark = pytest.mark.e2e

PAUSED = r"stopped (at|after) op .*: pause"


def interrupt(t: Terminal) -> None:
    """As a person does who presses Ctrl-C and looks what happens."""
    for _ in range(int(SECONDS)):
        t.press("C-C")
        try:
            t.expect(PAUSED, seconds=1)
            return
        except AssertionError:
            continue  # The prompt still had the keyboard.
    raise AssertionError(f"Ctrl-C did not stop it:\n{t.text}")


def test_ctrl_c_then_leave_and_come_back(tmp_path: Path):
    state = {"XDG_STATE_HOME": str(tmp_path)}
    with Script(tmp_path).ready() as script:
        with terminal(command="attach", script=str(script.pid), **state) as t:
            t.expect(r"attached to process \d+ (?s:.*)'pause' stops it")
            t.expect(r"\(opstep\)")
            t.type("continue\r")
            t.expect(r"\(opstep\) continue\r+\n")
            t.type("quit\r")  # Nobody reads it, and Ctrl-C takes it away, as in any program.
            interrupt(t)
            t.expect(r"\(opstep\)")
            t.type("quit\r")
            assert t.wait() == 0
        with terminal(command="attach", script=str(script.pid), **state) as t:
            t.expect(r"\(opstep\)")
            t.type("pause\r")
            t.expect(PAUSED)
            t.expect(r"\(opstep\)")
            t.type("detach\r")
            t.expect(rf"process {script.pid} goes on without the debugger: 'opstep attach")
            t.expect(r"\(opstep\)")
            t.type("where\r")
            t.expect(r"error: process \d+ goes on without the debugger")
            t.type("quit\r")
            assert t.wait() == 0


def test_ctrl_c_at_the_prompt_clears_the_line_and_ends_nothing(tmp_path: Path):
    with Script(tmp_path).ready() as script:
        options = {"command": "attach", "script": str(script.pid)}
        with terminal(**options, XDG_STATE_HOME=str(tmp_path)) as t:
            for _ in range(3):
                t.expect(r"\(opstep\)")
                t.type("quit terminate")
                t.expect("terminate")
                t.press("C-C")
                t.expect(r"\n\W*(?=\(opstep\))")
                t.type("continue\r")
                t.expect(r"\(opstep\) continue\r+\n")
                interrupt(t)
            t.expect(r"\(opstep\)")
            t.type("quit terminate\r")
            assert t.wait() == 0
        assert script.process.wait(SECONDS) == -15


def test_a_ctrl_c_between_prompt_and_command_ends_nothing(tmp_path: Path):
    with terminal(script="../programs/mlp.py", XDG_STATE_HOME=str(tmp_path)) as t:
        t.expect(r"\(opstep\)")
        for _ in range(30):
            t.type("info breakpoints\r")
            t.press("C-C")
        t.press("C-C")
        t.type("help quit\r")
        t.expect(r"leave the debugger")
        assert t.process.poll() is None
        assert not re.search("Traceback", t.raw)
