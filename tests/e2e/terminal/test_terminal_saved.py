"""`opstep debug` on what Program.save and save_model wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.patience import SECONDS

pytestmark = pytest.mark.e2e

SAVE = """
import numpy as np
import opstep
from opstep import layers

x = layers.data("x", shape=[None, 2])
y = layers.log(layers.fc(x, size=3, weight_init=opstep.initializer.Constant(1.0)))
exe = opstep.Executor()
exe.run(opstep.default_startup_program())
opstep.default_main_program().save("main.opstep")
opstep.default_startup_program().save("startup.opstep")
opstep.save_model("model", [x], [y])
np.save("x.npy", np.array([[1, 2], [-1, -3]], np.float32))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    (folder / "save.py").write_text(SAVE)
    subprocess.run([sys.executable, "save.py"], cwd=folder, check=True, timeout=SECONDS)
    return folder


def debug(folder: Path, *words: str) -> tuple[list[str], str, int]:
    result = subprocess.run(
        [sys.executable, "-m", "opstep_server", "debug", *words],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    return result.stdout.splitlines(), result.stderr, result.returncode


@pytest.mark.parametrize(
    "words",
    [
        ["model", "--feed", "x=x.npy", "--batch", "-ex", "catch nan", "-ex", "run"],
        ["--batch", "-ex", "catch nan", "-ex", "run", "--feed", "x=x.npy", "model"],
        ["--batch", "-ex", "catch nan", "main.opstep", "-ex", "run", "--startup=startup.opstep",
         "--feed=x=x.npy"],
    ],
    ids=["options behind", "options before", "program with startup"],
)  # fmt: skip
def test_a_nan_is_found(folder: Path, words: list[str]):
    lines, errors, code = debug(folder, *words)
    assert (errors, code) == ("", 1)
    assert lines[:2] == ["(opstep) catch nan", "catching nan, error"]
    assert "save.py:7, run 1: NaN: [log] made 3 NaN" in lines[3]


def test_it_shows_what_it_gave_and_a_number_is_a_line_of_the_listing(folder: Path):
    lines, _, code = debug(
        folder, "--batch", "-ex", "tbreak 3", "-ex", "run", "-ex", "continue", "model",
        "--random", "--batch-size=1", "--seed=3", "--repeat=2",
    )  # fmt: skip
    assert code == 0
    assert any(line.startswith("stopped at op #2 fc_0.matmul") for line in lines)
    assert lines[-1] == "the program ended with exit code 0"
    assert any(line.startswith("log_0.out float32[1, 3] =") for line in lines)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["model", "--feed", "x=nowhere.npy"], "there is no file nowhere.npy to feed x from"),
        (["model", "--feed", "x"], "'x' is not a feed: write --feed NAME=FILE.npy"),
        (["model", "--repeat", "0"], "'0' is not a number for --repeat"),
        (["main.opstep", "--startup", "nowhere"], "there is no file nowhere"),
        (["--feed", "x=x.npy", "save.py"], "--feed is for a saved program, and save.py is a"),
        (["--batch-size", "2", "save.py"], "--batch-size is for a saved program, and save.py"),
        (["nowhere"], "there is no script, model or program nowhere"),
    ],
)
def test_what_is_wrong_is_told_before_it_runs(folder: Path, words: list[str], sentence: str):
    lines, errors, code = debug(folder, *words)
    assert (lines, code) == ([], 2)
    assert errors.startswith(f"opstep: {sentence}")
