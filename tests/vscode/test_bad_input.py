"""Errors before and during a session: one message that says what to do, and a clean end."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.markers import line_with
from harness.patience import until
from harness.processes import processes

if TYPE_CHECKING:
    from workbench import Workbench

SCRIPT = "digits_mlp.py"


class Interpreter:
    """The workspace's Python, which a test replaces by others that users may have."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def be(self, command: str) -> None:
        self.path.write_text(f'#!/bin/sh\n{command} "$@"\n')
        self.path.chmod(0o755)

    def have_opstep(self, version: str) -> None:
        """A package that says it is this version of opstep."""
        package = self.path.parent / f"opstep-{version}" / "opstep_server"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"def version():\n    return {version!r}\n")
        # Without site-packages, where an opstep installed to be edited would come first.
        self.be(f"PYTHONPATH='{package.parent}' exec '{sys.executable}' -S")


@pytest.fixture
def python(folder: Path, tmp_path: Path) -> Interpreter:
    settings = folder / ".vscode" / "settings.json"
    settings.write_text(json.dumps({"opstep.python": str(tmp_path / "python")}))
    return Interpreter(tmp_path / "python")


@pytest.mark.both_versions
@pytest.mark.own_window
def test_a_python_that_cannot_debug(python: Interpreter, workbench: Workbench) -> None:
    workbench.open(SCRIPT).click_gutter(1)  # When that works, F5 does.

    def told() -> str:
        """Try to start a session; the message that comes instead of it."""
        workbench.press("F5")
        (message,) = until("a message", workbench.notifications)
        workbench.run_command("Notifications: Clear All Notifications")
        until("no message", lambda: not workbench.notifications())
        workbench.expect_session(running=False)
        return message

    message = told()
    assert f"{python.path} cannot be started" in message and "opstep.python" in message, message

    python.be(f"exec '{sys.executable}' -I -S")
    message = told()
    assert "opstep is not installed" in message and "make wheel" in message, message
    tag = "cp{}{}".format(*sys.version_info)
    assert f"dist/opstep_server-*.whl dist/opstep-*-{tag}-*.whl" in message, message
    assert "Copy Install Command" in message, message

    python.have_opstep("0.0.9")
    message = told()
    assert "has opstep 0.0.9" in message and "make wheel" in message, message

    python.have_opstep("7.0.0")
    message = told()
    assert "has opstep 7.0.0" in message and "make vsix" in message, message

    python.be(f"echo 'import failed' >&2; exit 3; '{sys.executable}'")
    assert "cannot import opstep_server (import failed)" in told()


def test_scripts_that_never_get_to_an_op(folder: Path, workbench: Workbench) -> None:
    workbench.open(SCRIPT).click_gutter(1)

    def said(name: str, text: str) -> str:
        """Debug a script with this text; the row of the console that has the name."""
        script = folder / f"script_{len(text)}.py"
        script.write_text(text)
        workbench.open(script.name)
        workbench.press("F5")
        console = until(
            f"the end of {name}",
            lambda: next((row for row in workbench.console() if name in row), None),
        )
        workbench.expect_session(running=False)
        assert workbench.notifications() == []
        return console

    said("SyntaxError", "def broken(:\n")
    console = said("nothing to stop at", "print('hello')\n")
    assert "ran no program of opstep" in console and "Executor.run" in console, console


@pytest.mark.both_versions
def test_a_debug_server_that_dies(folder: Path, workbench: Workbench) -> None:
    script = folder / SCRIPT
    line = line_with(script, "layers.fc(x")
    editor = workbench.open(SCRIPT)
    editor.click_gutter(line)
    workbench.press("F5")
    until(f"a stop at line {line}", lambda: editor.stopped_lines() == [line])
    (pid,) = processes(str(script))
    adapter = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(adapter, signal.SIGKILL)
    (message,) = until("a message", workbench.notifications)
    assert "opstep" in message, message
    workbench.expect_session(running=False)
    until("no stopped line", lambda: editor.stopped_lines() == [])
    # The run comes first: it goes on to its end without the debugger.
    until("the script's end", lambda: not processes(str(script)))
