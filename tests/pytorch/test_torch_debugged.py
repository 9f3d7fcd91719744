"""A training script with torch.compile(backend="opstep") under the terminal's debugger."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from harness.debug_command import OPSTEP
from harness.markers import line_of
from harness.patience import SECONDS

HERE = Path(__file__).parent / "programs"
NET = HERE / "net.py"


def run(*command: str, code: int = 0) -> str:
    done = subprocess.run(
        command, cwd=HERE, env=os.environ, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def debug(shift: int, *commands: str, code: int = 0) -> str:
    options = [word for command in commands for word in ("-ex", command)]
    return run(*OPSTEP, "debug", "--batch", *options, "train_net.py", str(shift), code=code)


def printed(output: str) -> list[str]:
    """What the script itself printed."""
    return [row for row in output.splitlines() if re.match(r"(loss|weight|gradient) ", row)]


def first_gradients(shift: int) -> dict[str, np.ndarray]:
    """Of the parameters after one step, by torch alone."""
    sys.path.insert(0, str(HERE))
    from net import Net

    torch.manual_seed(0)
    net = Net()
    net(torch.rand(4, 8) + shift).square().mean().backward()
    found = {}
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None
        found[name] = parameter.grad.numpy()
        found[f"value of {name}"] = parameter.detach().numpy()
    return found


def numbers(output: str, what: str) -> list[float]:
    (row,) = re.findall(rf"^{re.escape(what)} = float32\[3\] \[(.*)\]$", output, re.MULTILINE)
    return [float(word) for word in row.split(",")]


def test_it_stops_on_the_models_lines_forward_and_backward() -> None:
    gelu = line_of(NET, "gelu")
    output = debug(
        5,
        f"break net.py:{gelu}",
        "break grad:blocks.1.linear*",
        "run",
        "info op",
        "print blocks.0.linear.weight[0, :3]",
        "continue",
        "continue",
        "info op",
        "print grad(head.weight)[0, :3]",
    )
    stops = re.findall(r"^stopped at op #\d+ (\S+) .*, (net\.py:\d+), run 1", output, re.MULTILINE)
    assert stops[:2] == [("blocks.0.gelu", f"net.py:{gelu}"), ("blocks.1.gelu", f"net.py:{gelu}")]
    name, place = stops[2]
    assert name.startswith("blocks.1.linear.") and place == f"net.py:{line_of(NET, 'gelu') - 1}"
    assert f"made at net.py:{line_of(NET, 'block')} in forward" in output
    assert "gradient of blocks.1.linear.linear" in output
    wanted = first_gradients(5)
    weight = numbers(output, "blocks.0.linear.weight[0, :3]")
    np.testing.assert_allclose(weight, wanted["value of blocks.0.linear.weight"][0, :3], atol=1e-4)
    gradient = numbers(output, "grad(head.weight)[0, :3]")
    np.testing.assert_allclose(gradient, wanted["head.weight"][0, :3], rtol=1e-4)


def test_a_line_breakpoint_meets_its_gradients_if_asked() -> None:
    norm = line_of(NET, "norm")
    output = debug(5, f"break net.py:{norm} grad", "run", *["continue"] * 2, "info op")
    stops = re.findall(rf"^stopped at op #\d+ (\S+) .*net\.py:{norm}, run 1", output, re.MULTILINE)
    assert len(stops) == 3
    assert re.search(r"gradient of blocks\.1\.", output)


def test_a_nan_is_caught_at_the_op_and_line_that_made_it() -> None:
    output = debug(-5, "catch nan", "run", code=1)  # as a fault in batch mode does
    where = rf"stopped after op #\d+ log \(log\) .*net\.py:{line_of(NET, 'log')}, run 1: NaN"
    assert re.search(where, output)


def test_the_bits_are_the_same_with_and_without_a_debugger() -> None:
    alone = printed(run(sys.executable, "train_net.py", "5"))
    assert len(alone) == 4
    gelu = line_of(NET, "gelu")
    steps = ["continue"] * 8
    watched = debug(5, "catch nan", f"break net.py:{gelu}", "break grad:*norm*", "run", *steps)
    assert printed(watched) == alone
