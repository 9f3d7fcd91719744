"""The examples do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str) -> str:
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_digits_are_learned() -> None:
    output = run("digits_mlp.py")
    accuracy = float(re.findall(r"test accuracy ([\d.]+)%", output)[-1])
    assert accuracy >= 95, output
    assert run("digits_mlp.py") == output, "it is not reproducible"


def test_the_nan_comes_after_a_while() -> None:
    output = run("find_the_nan.py")
    losses = re.findall(r"step +(\d+): loss (\S+)", output)
    assert losses[-1][1] == "nan" and int(losses[-1][0]) > 5, output
    assert all(value != "nan" for _, value in losses[:-1])


def test_the_loop_finds_square_roots() -> None:
    output = run("loop.py")
    values = [float(v) for v in re.search(r"\[(.*)\]", output)[1].split()]
    assert values == pytest.approx([2**0.5, 3, 10, 12345**0.5], rel=1e-5)
