"""`opstep debug` at a real terminal: prompt, completion, colour, Ctrl-C and leaving."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from harness.patience import SECONDS
from harness.terminal import terminal

# Not the line that says that the breakpoint is there.
STOPPED = r"stopped at op #\d .*: breakpoint 1\r\n"


def test_a_person_pauses_looks_and_leaves(tmp_path: Path):
    with terminal("--endless", XDG_STATE_HOME=str(tmp_path)) as t:
        t.expect(r"opstep \S+: type help for the commands, run to begin\r\n")
        t.expect(r"\(opstep\)")
        t.type("run\r")
        t.expect("run 3")
        t.type("\x03")
        t.expect(r"stopped at op #\d .*: pause")
        t.expect(r"\(opstep\)")
        t.type("print fc_0\t")
        t.expect(r"\.matmul\.out")
        t.type("\r")
        t.expect(r"fc_0\.matmul\.out = 0\.25")
        t.type("stepi\r")
        t.expect(r"run \d+: step")
        t.type("\r")
        t.expect(r"run \d+: step")
        t.type("quit\r")
        t.expect(r"or \[S\]tay\?")
        t.type("s\r")
        t.expect(r"\(opstep\)")
        t.type("quit\r")
        t.expect(r"or \[S\]tay\?")
        t.type("t\r")
        assert t.process.wait(SECONDS) == 0
        assert "\x1b[1;32mstopped" in t.raw
    assert "stepi" in (tmp_path / "opstep" / "history").read_text()


@pytest.mark.parametrize("key", ["\x03", "\x04"], ids=["ctrl-c", "ctrl-d"])
def test_only_an_answer_ends_the_script(tmp_path: Path, key: str):
    with terminal("--endless", XDG_STATE_HOME=str(tmp_path)) as t:
        t.expect(r"\(opstep\)")
        t.type("tbreak add\r")
        t.expect(r"\(opstep\)")
        t.type("run\r")
        t.expect(STOPPED)
        t.expect(r"\(opstep\)")
        t.type("\x04")
        t.expect(r"or \[S\]tay\?")
        t.type(key)
        t.expect(r"\(opstep\)")
        t.type("print x\r")
        t.expect(r"x = 0\.25")


def test_ctrl_c_ends_a_count_of_steps(tmp_path: Path):
    with terminal("--endless", XDG_STATE_HOME=str(tmp_path)) as t:
        t.expect(r"\(opstep\)")
        t.type("tbreak add\r")
        t.expect(r"\(opstep\)")
        t.type("run\r")
        t.expect(STOPPED)
        t.type("stepi 1000000\r")
        t.expect(r"run 3: step")
        t.type("\x03")
        t.expect(r"\(opstep\)")
        t.type("print x\r")
        t.expect(r"x = 0\.25")
        t.type("stepi\r")
        t.expect(r"run \d+: step")


def test_a_script_that_runs_no_ops_is_not_to_be_started_again(tmp_path: Path):
    script = tmp_path / "plain.py"
    script.write_text("import time\nprint('waiting', flush=True)\ntime.sleep(600)\n")
    with terminal(script=str(script), XDG_STATE_HOME=str(tmp_path)) as t:
        t.expect(r"\(opstep\)")
        t.type("run\r")
        t.expect(r"waiting")
        t.type("\x03")
        t.expect(r"pausing: the script runs Python code, and stops at its next op")
        t.type("\x03")
        t.expect(r"\(opstep\)")
        for topic, what in (
            ("threads", "thread has run an op"),
            ("ops", "program has been compiled"),
        ):
            t.type(f"info {topic}\r")
            t.expect(f"error: no {what} yet: 'pause' stops the script at its first op")
            t.expect(r"\(opstep\)")
        t.type("quit\r")
        t.expect(r"or \[S\]tay\?")
        t.type("t\r")
        assert t.process.wait(SECONDS) == 0


def test_ctrl_c_while_no_op_runs(tmp_path: Path):
    go = tmp_path / "go"
    with terminal(XDG_STATE_HOME=str(tmp_path), SCRIPT_WAITS_FOR=str(go)) as t:
        t.expect(r"\(opstep\)")
        t.type("run\r")
        t.expect(r"waiting")
        t.type("\x03")
        t.expect(r"pausing: the script runs Python code, and stops at its next op")
        t.type("\x03")
        t.expect(r"still running Python code, and stops at its next op")
        t.expect(r"\(opstep\)")
        t.type("where\r")
        t.expect(r"error: the script is running Python code, not ops")
        t.expect(r"\(opstep\)")
        go.touch()
        # It is told although nobody waits.
        t.expect(r"stopped at op #1 .*: pause")
        t.type("continue\r")
        t.expect(r"the script ended with exit code 0")


def test_the_script_sees_the_terminal(tmp_path: Path):
    script = tmp_path / "tty.py"
    script.write_text("import os, sys\nprint([os.isatty(i) for i in (0, 1, 2)])\n")
    with terminal(script=str(script), XDG_STATE_HOME=str(tmp_path)) as t:
        t.expect(r"\(opstep\)")
        t.type("run\r")
        t.expect(r"\[False, True, True\]")
        t.expect(r"the script ended with exit code 0")


def test_long_lines_break_at_words(tmp_path: Path):
    with terminal(XDG_STATE_HOME=str(tmp_path), size=(80, 24)) as t:
        t.expect(r"\(opstep\)")
        t.type("help\r")
        shown = t.expect(r"(?s)break WHERE.*(?=-- \d+ more lines)")
        t.type("G")
        shown += t.expect(r"(?s).*computed\.")
        assert max(map(len, shown.splitlines())) <= 80
        t.type("tbreak matmul\r")
        t.type("run\r")
        t.expect(r"stopped at op #1 fc_0\.matmul [^\r\n]*,\r\n    [^\r\n]*breakpoint 1\r\n")


def test_ctrl_d_leaves_at_once_when_nothing_runs(tmp_path: Path):
    with terminal(XDG_STATE_HOME=str(tmp_path)) as t:
        t.expect(r"\(opstep\)")
        t.type("\x03")
        t.expect(r"\n\W*\(opstep\)")  # The next one, not the same drawn again.
        t.type("\x04")
        assert t.process.wait(SECONDS) == 0


def test_a_script_is_started_again_only_after_a_yes(tmp_path: Path):
    with terminal("--endless", XDG_STATE_HOME=str(tmp_path)) as t:
        t.expect(r"\(opstep\)")
        t.type("tbreak add\r")
        t.type("run\r")
        t.expect(STOPPED)
        t.expect(r"\(opstep\)")
        t.type("run\r")
        t.expect(r"start it again\? \[y/N\]")
        t.type("\r")
        t.expect(r"\(opstep\)")
        t.type("print x\r")
        t.expect(r"x = 0\.25")
        t.type("run\r")
        t.expect(r"start it again\? \[y/N\]")
        t.type("y\r")
        t.expect(r"the script was ended")
        t.expect(r"run 3")
        t.type("\x03")
        t.expect(r"stopped at op #\d .*: pause")


def test_a_script_that_was_left_goes_on(tmp_path: Path):
    with terminal("--endless", XDG_STATE_HOME=str(tmp_path)) as t:
        t.expect(r"\(opstep\)")
        t.type("tbreak add\r")
        t.type("run\r")
        t.expect(STOPPED)
        t.expect(r"\(opstep\)")
        t.type("quit\r")
        t.expect(r"or \[S\]tay\?")
        t.type("d\r")
        pid = int(re.findall(r"\d+", t.expect(r"process \d+ goes on without the debugger"))[0])
        try:
            assert t.process.wait(SECONDS) == 0
            os.kill(pid, 0)
        finally:
            os.kill(pid, signal.SIGKILL)
