"""The examples do what they say."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from harness import ROOT
from harness.patience import SECONDS

EXAMPLES = ROOT / "examples"


def run(name: str) -> str:
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "bar"),
    [
        ("softmax_regression.py", 95),
        ("digits_mlp.py", 95),
        ("line_by_line.py", 95),
        ("digits_conv.py", 98),
        ("digits_rnn.py", 95),
        ("sequences.py", 95),
    ],
)
def test_it_is_learned(name: str, bar: float) -> None:
    output = run(name)
    accuracy = float(re.findall(r"test accuracy ([\d.]+)%", output)[-1])
    assert accuracy >= bar, output
    assert run(name) == output, "it is not reproducible"


def test_line_by_line_is_the_compiled_training() -> None:
    both = [re.findall(r"epoch .*", run(name)) for name in ("digits_mlp.py", "line_by_line.py")]
    assert len(both[0]) == 6
    assert both[0] == both[1]
    assert "the same bits: True" in run("line_by_line.py")


def test_a_loop_and_a_branch_are_compiled() -> None:
    output = run("kepler.py")
    assert "the same bits: True" in output
    assert re.findall(r"comet.*: (\d+) turns", output) == ["7", "7"], output


def test_the_lower_half_of_digits_is_predicted() -> None:
    output = run("linear_regression.py")
    learned, exact = map(float, re.findall(r"([\d.]+)%", output))
    assert learned == pytest.approx(exact, abs=0.5) and learned > 33, output


def test_an_example_that_learns_too_little_says_so() -> None:
    command = [sys.executable, str(EXAMPLES / "linear_regression.py"), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd="/")
    assert done.returncode == 1 and "explained variance" in done.stdout


def test_the_gan_draws_the_ring() -> None:
    output = run("gan.py")
    mean, spread = map(float, re.search(r"radius ([\d.]+) ± ([\d.]+),", output).groups())
    emptiest = float(re.search(r"emptiest eighth ([\d.]+)%", output)[1])
    assert mean == pytest.approx(2, abs=0.1) and spread == pytest.approx(0.1, abs=0.1), output
    assert emptiest >= 5, output
    assert run("gan.py") == output, "it is not reproducible"


def test_a_gan_that_learned_nothing_yet_says_so() -> None:
    command = [sys.executable, str(EXAMPLES / "gan.py"), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd="/")
    assert done.returncode == 1 and "emptiest eighth" in done.stdout, done.stderr


def test_the_nan_comes_after_a_while() -> None:
    output = run("find_the_nan.py")
    losses = re.findall(r"step +(\d+): loss (\S+)", output)
    assert losses[-1][1] == "nan" and int(losses[-1][0]) > 5, output
    assert all(value != "nan" for _, value in losses[:-1])


def test_the_loop_finds_square_roots() -> None:
    output = run("loop.py")
    values = [float(v) for v in re.search(r"\[(.*)\]", output)[1].split()]
    assert values == pytest.approx([2**0.5, 3, 10, 12345**0.5], rel=1e-5)
