"""The two distributions: their versions, and the debug server without the executor."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

OPSTEP = [sys.executable, "-m", "opstep_server"]


def test_every_version_is_the_same(root: Path) -> None:
    found = {
        file: re.search(pattern, (root / file).read_text(), re.MULTILINE).group(1)
        for file, pattern in {
            "pyproject.toml": r'^version = "(.+)"',
            "debug_server/pyproject.toml": r'^version = "(.+)"',
            "executor/opstep/version.py": r'^__version__ = "(.+)"',
            "CMakeLists.txt": r"^project\(opstep VERSION (\S+)",
        }.items()
    }
    found["the extension"] = json.loads((root / "ide_plugins/vscode/package.json").read_text())[
        "version"
    ]
    assert len(set(found.values())) == 1, found


def test_opstep_requires_the_debug_server_of_its_version() -> None:
    version = importlib.metadata.version("opstep")
    assert importlib.metadata.version("opstep-server") == version
    assert f"opstep-server=={version}" in importlib.metadata.requires("opstep")


@pytest.fixture
def without_executor(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds no package `opstep`."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['opstep'] = None\n")
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["run", "train.py"], "'opstep run'"),
        (["show", "model"], "'opstep show'"),
        (["records", "verify", "a.rec"], "'opstep records'"),
        (["debug", "--batch", "-ex", "run", "."], "a saved program"),
    ],
)
def test_commands_of_the_executor_are_refused_without_it(
    words: list[str], what: str, without_executor: dict[str, str]
) -> None:
    done = subprocess.run(
        [*OPSTEP, *words], env=without_executor, capture_output=True, text=True, timeout=600
    )
    assert done.stderr == (
        f"opstep: {what} needs the executor, and {sys.executable} has only the debug server: "
        "install the package opstep there\n"
    )
    assert (done.returncode, done.stdout) == (2, "")


def test_another_python_may_have_the_executor(without_executor: dict[str, str]) -> None:
    command = [*OPSTEP, "debug", "--batch", "--python", "/no/python", "-ex", "run", "."]
    done = subprocess.run(
        command, env=without_executor, capture_output=True, text=True, timeout=600
    )
    assert "needs the executor" not in done.stdout + done.stderr
    assert "/no/python" in done.stdout + done.stderr
