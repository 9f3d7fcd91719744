"""Log points, hit counts, data breakpoints, overflow and `finish` in `opstep debug`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.patience import SECONDS

pytestmark = pytest.mark.e2e


def debug(script: Path, *commands: str, code: int = 0) -> list[str]:
    options = [word for command in commands for word in ("-ex", command)]
    result = subprocess.run(
        [sys.executable, "-m", "opstep_server", "debug", "--batch", *options, str(script)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert result.returncode == code, result.stdout + result.stderr
    # Libraries have nothing to say in the user's terminal.
    assert result.stderr == ""
    return result.stdout.splitlines()


def stops(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("stopped")]


def test_hits_and_log_lines(programs: Path) -> None:
    lines = debug(
        programs / "counting.py",
        "break increment", "hits 1 % 4", "break add", "log 2 {iteration}: {X.sum():.1f}", "run",
        "continue", "finish iteration", "finish run", "info breakpoints", "continue",
    )  # fmt: skip
    assert "breakpoint 1 at increment, hits % 4: pending: no op matches 'increment' yet" in lines
    log = "log point 2 at add, log {iteration}: {X.sum():.1f}"
    assert f"{log}: pending: no op matches 'add' yet" in lines
    first, second, iteration, run = stops(lines)
    assert "while_0 iteration 3, run 1: breakpoint 1" in first
    assert "while_0 iteration 7, run 1: breakpoint 1" in second
    assert "while_0 iteration 8, run 1: step" in iteration
    assert run.startswith("stopped after op #13 reduce_sum_0")
    assert [line for line in lines if line[:2] in [f"{i}:" for i in range(10)]] == [
        f"{i}: {i}.0" for i in range(10)
    ]
    assert "2    log    yes  10    add" in lines


def test_watch_and_overflow(programs: Path) -> None:
    lines = debug(
        programs / "growing.py", "catch overflow 1e3", "watch left/mul_0.out changed", "run",
        "delete", "continue",
        code=1,
    )  # fmt: skip
    assert "catching overflow 1000, error" in lines
    written, beyond = stops(lines)
    assert ": breakpoint 1: [mul] wrote left/mul_0.out: nothing → mean 12.5 " in written
    assert ": overflow: [mul] made 1 element beyond 1000 in left/mul_0.out" in beyond


def test_breakpoint_in_the_program(programs: Path) -> None:
    (stop,) = stops(debug(programs / "marked.py", "run"))
    assert stop.endswith("run 1: breakpoint() in the program")
