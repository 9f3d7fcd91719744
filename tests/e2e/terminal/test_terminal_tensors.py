"""Tensors in `opstep debug`, of real runs: files for NumPy, plain characters, a dead process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.patience import SECONDS

PROGRAMS = Path(__file__).parents[2] / "programs"
DEBUG = [sys.executable, "-m", "opstep_server", "debug"]
DTYPES = (
    *("float32", "float64", "float16", "bfloat16"),
    *("int8", "int16", "int32", "int64", "uint8", "bool"),
)

pytestmark = pytest.mark.e2e


def batch(*commands: str, program: tuple[str, ...], **environment: str) -> str:
    options = [part for command in commands for part in ("-ex", command)]
    result = subprocess.run(
        [*DEBUG, "--batch", *options, *program],
        cwd=PROGRAMS,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_what_is_dumped_is_what_numpy_reads(tmp_path: Path):
    results = tmp_path / "results.npz"
    dumps = [f"dump {name}.out {tmp_path}/{name}.npy" for name in DTYPES]
    shown = batch(
        *("break tanh", "run", *dumps, f"dump float32.out[1, ::-1, :0] {tmp_path}/none.npy"),
        *("delete", "continue"),
        program=("editing.py", "dtypes", str(results)),
    )
    assert "wrote bfloat16.out, bfloat16[4, 3, 5], as float32, to" in shown
    wanted = np.load(results)
    for name in DTYPES:
        read = np.load(tmp_path / f"{name}.npy")
        assert read.shape == (4, 3, 5)
        if name == "bfloat16":
            exact = np.load(tmp_path / "float32.npy").astype(np.float32)
            bits = read.view(np.uint32)
            assert read.dtype == np.float32 and not (bits & 0xFFFF).any()
            np.testing.assert_allclose(read, exact, rtol=1 / 128)
        else:
            assert read.dtype == np.dtype(name)
            if f"{name}.out_1" in wanted:
                np.testing.assert_array_equal(read, wanted[f"{name}.out_1"])
    assert np.load(tmp_path / "none.npy").shape == (3, 0)
    assert not [file for file in os.listdir(tmp_path) if file.startswith(".dump-")]


def test_a_large_tensor_is_dumped_in_pieces(tmp_path: Path):
    file = tmp_path / "x.npy"
    shown = batch(
        *("break reduce_sum", "run", f"dump x {file}", "print x[0, :2], x[-1, -1]"),
        *("heat x", "diff x, x[::-1]"),
        program=("editing.py", "large", str(tmp_path / "results.npz")),
    )
    read = np.load(file)
    assert read.shape == (2048, 2048) and read.dtype == np.float32
    assert f"x[-1, -1] = {read[-1, -1]:.4g}" in shown
    assert "every 86th row and every 27th column" in shown
    different = int((read != read[::-1]).sum())
    assert f"{different} of {read.size} elements" in shown
    largest = np.abs(read - read[::-1]).max()
    assert f"largest difference  {largest:.4g} at" in shown


def test_without_unicode_plain_characters_stand_for_it():
    shown = batch(
        *("break relu", "run", "hist X 5", "graph", "list listing"),
        program=("mlp.py",),
        PYTHONIOENCODING="ascii",
    )
    assert shown.isascii()
    assert re.search(r"^ +-3\.058 \|#+ +1$", shown, re.M)
    assert "-> fc_0.out float32[16, 4]" in shown
    assert "   `- fc_0.out float32[16, 4]" in shown
    assert "=>*  6  #5" in shown


class Typed:
    """A debugger that reads commands from a pipe."""

    def __init__(self, *program: str) -> None:
        self._process = subprocess.Popen(
            [*DEBUG, *program],
            cwd=PROGRAMS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def until(self, pattern: str) -> re.Match[str]:
        """The first line that has it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if match := re.search(pattern, line):
                return match
        raise AssertionError(f"it ended without '{pattern}'")

    def end(self) -> str:
        shown, _ = self._process.communicate(timeout=SECONDS)
        return shown


@pytest.fixture
def typed() -> Iterator[Typed]:
    session = Typed("mlp.py")
    yield session
    session._process.kill()
    session._process.wait()


def test_the_prompt_survives_a_script_that_is_killed_while_it_is_looked_at(typed: Typed):
    typed.type("break sgd")
    typed.type("run")
    typed.until("stopped at op #18")
    typed.type("info threads")
    pid = int(typed.until(r"process (\d+): stopped")[1])
    os.kill(pid, signal.SIGKILL)
    typed.until("the script ended by signal 9")
    looking = (
        "print loss",
        "summary loss",
        "hist x",
        "heat x",
        "diff x x",
        "set x = 1",
        "inputs",
        "attrs",
    )
    walking = ("graph", "inspect #3", "back", "producers x", "info blocks", "info op")
    for command in (*looking, *walking):
        typed.type(command)
    shown = typed.end()
    assert shown.count("error: ") == len(looking + walking)
    for line in shown.splitlines():
        assert line.startswith("(opstep) ") or "'run' starts" in line or "with 'run'" in line
