"""Processes that VS Code did not start, modules, and several executors in one session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import patience
from harness.markers import line_with
from harness.patience import until

if TYPE_CHECKING:
    from workbench import Workbench

FOREVER = Path(__file__).parents[1] / "programs" / "forever.py"


@contextmanager
def running(script: Path, end: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The script in its own process, for a debugger to attach to. It ends with the block."""
    command = [sys.executable, str(script), "--until", str(end)]
    process = subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
        end.touch()
        assert process.wait(patience.SECONDS) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def forever(folder: Path) -> Path:
    """A script of the workspace that runs a program again and again."""
    script = folder / "forever.py"
    script.write_text(FOREVER.read_text())
    return script


def write_launch(folder: Path, **configuration: object) -> None:
    whole = {"type": "opstep", "name": "the one", **configuration}
    text = json.dumps({"version": "0.2.0", "configurations": [whole]})
    (folder / ".vscode" / "launch.json").write_text(text)


@pytest.mark.both_versions
def test_attach_to_a_running_process(forever: Path, workbench: Workbench, tmp_path: Path) -> None:
    line = line_with(forever, "@tanh")
    with running(forever, tmp_path / "end") as process:
        assert process.stdout and "first run" in process.stdout.readline()
        editor = workbench.open(forever.name)
        editor.click_gutter(line)
        workbench.run_command("opstep: Attach to a Running Process")
        workbench.pick(str(process.pid))
        until(f"a stop at line {line}", lambda: editor.stopped_lines() == [line])
        assert workbench.evaluate("sum(x)") == "4"
        # After the disconnect the process goes on, until the file tells it to end.
        workbench.toolbar("disconnect").click()
        workbench.expect_session(running=False)
        assert process.poll() is None
    assert workbench.notifications() == []


@pytest.fixture
def address(folder: Path, tmp_path: Path) -> str:
    """Where the session of launch.json waits for executors."""
    address = f"unix:{tmp_path / 'server'}"
    write_launch(folder, request="attach", listen=address)
    return address


@pytest.mark.own_window
def test_two_executors_in_one_session(
    address: str, forever: Path, workbench: Workbench, tmp_path: Path
) -> None:
    line = line_with(forever, "@tanh")
    editor = workbench.open(forever.name)
    editor.click_gutter(line)
    workbench.press("F5")
    workbench.expect_session(running=True)
    with (
        running(forever, tmp_path / "end1", OPSTEP_SERVER=address) as one,
        running(forever, tmp_path / "end2", OPSTEP_SERVER=address) as other,
    ):
        pids = {str(one.pid), str(other.pid)}

        def threads() -> list[str]:
            rows = workbench.call_stack()
            return [row for row in rows if any(pid in row for pid in pids)]

        until("two threads", lambda: len(threads()) == 2)
        until("both stopped", lambda: all("paused" in row.lower() for row in threads()))
        assert {pid for pid in pids if any(pid in row for row in threads())} == pids
        until(f"a stop at line {line}", lambda: editor.stopped_lines() == [line])
        workbench.toolbar("disconnect").click()
        workbench.expect_session(running=False)


@pytest.fixture
def module(folder: Path) -> Path:
    write_launch(folder, request="launch", module="train")
    return (folder / "loop.py").rename(folder / "train.py")


@pytest.mark.own_window
def test_debug_a_module(module: Path, workbench: Workbench) -> None:
    line = line_with(module, "better = ")
    editor = workbench.open(module.name)
    editor.click_gutter(line)
    workbench.press("F5")
    until(f"a stop at line {line}", lambda: editor.stopped_lines() == [line])
    until("the iteration", lambda: any("iteration" in row for row in workbench.call_stack()))
