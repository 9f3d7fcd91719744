"""`opstep debug` when the script dies, or leaves children behind: told, and the prompt survives."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from harness.piped_terminal import Terminal
from harness.processes import SECONDS

pytestmark = pytest.mark.e2e

CHILD = """
import os, subprocess, sys, time
if sys.argv[1] == "child":
    import numpy as np
    import opstep
    from opstep import layers
    x = layers.data("x", shape=[2])
    y = layers.relu(x)
    opstep.Executor().run(feed={"x": np.ones(2, np.float32)}, fetch_list=[y])
    print("the child went on", flush=True)
else:
    subprocess.Popen([sys.executable, sys.argv[0], "child"])
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
"""


def pid_of(terminal: Terminal) -> int:
    terminal.type("info threads")
    return int(terminal.expect(r"process (\d+): ")[1])


def test_killed_while_it_is_stopped():
    terminal = Terminal("debug", "mlp.py")
    terminal.type("break relu")
    terminal.type("run")
    terminal.expect(r"stopped at op")
    os.kill(pid_of(terminal), signal.SIGKILL)
    terminal.expect(r"^the script ended by signal 9 \(SIGKILL\)$")
    for command in ("where", "print x", "continue", "stepi", "inputs", "info ops"):
        terminal.type(command)
        terminal.expect(r"^error: the script has ended: 'run' starts it again$")
    terminal.type("run")
    terminal.expect(r"stopped at op .*: breakpoint 1")
    terminal.type("quit")
    assert terminal.process.wait(SECONDS) == 2


def test_killed_while_it_runs(tmp_path: Path):
    terminal = Terminal("debug", "forever.py", "--until", str(tmp_path / "never"))
    terminal.type("tbreak tanh")
    terminal.type("run")
    terminal.expect(r"stopped at op")
    pid = pid_of(terminal)
    terminal.type("continue")
    terminal.expect(r"first run")
    os.kill(pid, signal.SIGKILL)
    terminal.expect(r"^the script ended by signal 9 \(SIGKILL\)$")
    terminal.type("quit")
    assert terminal.process.wait(SECONDS) == 128 + 9


def test_a_child_that_outlives_the_script_is_not_left_standing(tmp_path: Path):
    script, end = tmp_path / "script.py", tmp_path / "end"
    script.write_text(CHILD)
    terminal = Terminal("debug", str(script), str(end))
    terminal.type("break relu")
    terminal.type("run")
    terminal.expect(r"process \d+ \(.*script.py child\) was started by the script and is debugged")
    terminal.expect(r"stopped at op .* breakpoint 1")
    end.touch()
    terminal.expect(r"process \d+, which it started, goes on by itself")
    terminal.expect(r"the child went on")
    terminal.type("where")
    terminal.expect(r"error: the script has ended")
    terminal.type("quit")
    assert terminal.process.wait(SECONDS) == 2


def test_the_debugger_keeps_the_scripts_ctrl_c_and_gives_it(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import time\n"
        "try:\n"
        "    print('waiting', flush=True)\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    print('got it', flush=True)\n"
    )
    terminal = Terminal("debug", str(script))
    terminal.type("run")
    terminal.expect(r"waiting")
    os.kill(terminal.process.pid, signal.SIGINT)
    terminal.expect(r"pausing: the script runs Python code, and stops at its next op; Ctrl-C gives")
    os.kill(terminal.process.pid, signal.SIGINT)
    terminal.expect(
        r"still running Python code, .* 'interrupt' gives it the Ctrl-C, 'quit' ends it"
    )
    terminal.type("interrupt")
    terminal.expect(r"got it")
    terminal.expect(r"the script ended with exit code 0, and ran no program")
