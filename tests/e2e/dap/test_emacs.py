"""Emacs with Debian's dap-mode and our settings for it, in batch, against the real adapter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.patience import SECONDS

pytestmark = pytest.mark.emacs

ROOT = Path(__file__).resolve().parents[3]
DRIVE = ROOT / "tests" / "emacs" / "drive.el"
SETTINGS = ROOT / "ide_plugins" / "emacs" / "opstep-dap.el"


def drive(home: Path, scenario: str, script: Path, *args: str) -> list[str]:
    """What happened, one line each."""
    emacs = shutil.which("emacs")
    assert emacs is not None, "emacs is missing: tools/setup_system.sh emacs installs it"
    command = (emacs, "-q", "--batch", "-l", DRIVE, SETTINGS, sys.executable, scenario, script)
    done = subprocess.run(
        [*map(str, command), *args],
        env={**os.environ, "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS * 4,
        # SIGPIPE stays ignored, as in an Emacs with a window: dap-mode writes to closed pipes.
        restore_signals=False,
    )
    said = [line for line in done.stderr.splitlines() if line.startswith("drive: ")]
    assert done.returncode == 0, done.stderr
    assert said[-1] == "drive: all done", done.stderr
    return [line.removeprefix("drive: ") for line in said[:-1]]


def test_launch_step_and_restart(programs: Path, tmp_path: Path) -> None:
    happened = drive(tmp_path, "step", programs / "two_lines.py")
    names = [each.partition(":")[0] for each in happened]
    assert names == [
        "breakpoint", "step", "restart", "breakpoint again", "step again", "end", "output"
    ]  # fmt: skip


def test_pause(programs: Path, tmp_path: Path) -> None:
    happened = drive(tmp_path, "pause", programs / "forever.py", str(tmp_path / "until"))
    assert happened[1].startswith("pause: ")


def test_attach_leaves_the_process_running(programs: Path, tmp_path: Path) -> None:
    script, until = programs / "forever.py", tmp_path / "until"
    command = (sys.executable, script, "--until", until)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("first run")
            happened = drive(tmp_path, "attach", script, str(process.pid))
            assert happened[1].startswith("attached: ")
            assert process.poll() is None
            until.touch()
            assert process.stdout.read() == "done\n"
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()


def test_an_exception_filter_of_the_settings(programs: Path, tmp_path: Path) -> None:
    happened = drive(tmp_path, "filter", programs / "make_nan.py")
    assert "reason: exception" in happened
