"""The examples in examples/in_program learn what they should, and to the same bits as with a loop
in Python."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opstep
from harness import ROOT
from harness.patience import SECONDS
from opstep import layers

EXAMPLES = ROOT / "examples"


def output(name: str, *args: str) -> str:
    command = [sys.executable, str(EXAMPLES / "in_program" / name), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "bar"), [("digits_conv.py", 98), ("sequences.py", 95)])
def test_it_is_learned(name: str, bar: float) -> None:
    text = output(name)
    assert float(re.findall(r"test accuracy ([\d.]+)%", text)[-1]) >= bar, text
    assert output(name) == text, "it is not reproducible"


def test_the_lower_half_of_digits_is_predicted() -> None:
    text = output("linear_regression.py")
    assert float(re.search(r"explained variance ([\d.]+)%", text)[1]) > 33, text


def test_the_gan_draws_the_ring() -> None:
    text = output("gan.py")
    mean, spread = map(float, re.search(r"radius ([\d.]+) ± ([\d.]+),", text).groups())
    assert mean == pytest.approx(2, abs=0.1) and spread == pytest.approx(0.1, abs=0.1), text
    assert float(re.search(r"emptiest eighth ([\d.]+)%", text)[1]) >= 5, text


# --- the same bits --------------------------------------------------------------------------------


def run(path: Path, steps: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, opstep.Scope]:
    """A short run of an example: what it defined, and its values."""
    monkeypatch.setattr(sys, "argv", [str(path), str(steps)])
    # It says that it has learned too little; that is not asked here.
    monkeypatch.setattr(sys, "exit", lambda *_: None)
    scope = opstep.Scope()
    with opstep.scope_guard(scope):
        return runpy.run_path(str(path), run_name="__main__"), scope


@pytest.mark.parametrize("name", ["linear_regression.py", "digits_conv.py", "sequences.py"])
def test_a_loop_in_python_gives_the_same_parameters(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    example, scope = run(EXAMPLES / "in_program" / name, 2, monkeypatch)
    main, startup = opstep.Program("other"), opstep.Program("startup")
    with opstep.program_guard(main, startup):
        fields = example["train"].fields
        given = [layers.data(f.name, f.shape, f.dtype, lod_level=f.lod_level) for f in fields]
        example["network"](*given)
    exe, other = opstep.Executor(), opstep.Scope()
    exe.run(startup, scope=other)
    for batch in example["train"]:
        exe.run(main, batch, scope=other)
    assert main.parameters()
    for parameter in main.parameters():
        a, b = scope.find(parameter.name), other.find(parameter.name)
        np.testing.assert_array_equal(a, b, err_msg=parameter.name, strict=True)


def test_machines_in_a_program_and_in_python_give_the_same_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inside, one = run(EXAMPLES / "in_program" / "gan.py", 20, monkeypatch)
    _, two = run(EXAMPLES / "gan.py", 20, monkeypatch)
    names = [*inside["generator"].values, *inside["judge"].values]
    assert len(names) == 12
    for name in names:
        np.testing.assert_array_equal(one.find(name), two.find(name), err_msg=name, strict=True)


def test_the_generators_update_leaves_the_judge_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    example, scope = run(EXAMPLES / "in_program" / "gan.py", 3, monkeypatch)
    both, generator, judge = example["both"], example["generator"], example["judge"]
    main, startup = opstep.Program("generator only"), opstep.Program("startup")
    apart = opstep.name_scope("apart")  # its loop counts for itself
    with opstep.program_guard(main, startup), opstep.scope_guard(scope), apart:
        reader = opstep.readers.from_steps(example["ring"])
        with reader.iterate(steps=5) as (points, noise):
            both.feed({"noise": noise, "real": layers.ones_like(points[:, :1])}).backward()
            opstep.updater(opstep.optimizer.Adam(0.001)).update(both, only=generator)
    before = generator.values, judge.values
    exe = opstep.Executor()
    exe.run(startup, scope=scope)
    exe.run(main, scope=scope)
    for name, value in judge.values.items():
        assert value.tobytes() == before[1][name].tobytes(), name
    for name, value in generator.values.items():
        assert value.tobytes() != before[0][name].tobytes(), name
