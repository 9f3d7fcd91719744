"""Programs with taps for tests, and their written records."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from harness.processes import OPSTEP, PROGRAMS, SECONDS, wait_until

TAPPED = PROGRAMS / "taps" / "tapped.py"


def records(folder: Path) -> list[dict[str, Any]]:
    """All records that were written there; the last line may be incomplete."""
    found = []
    for name in sorted(folder.glob("records-*.jsonl")):
        whole, _, _ = name.read_text().rpartition("\n")
        found += [json.loads(line) for line in whole.splitlines()]
    return found


def counts(folder: Path) -> dict[str, dict[str, int]]:
    try:
        return dict(json.loads((folder / "counts.json").read_text())["taps"])
    except FileNotFoundError:
        return {}


def adds_up(one: dict[str, int]) -> bool:
    """Checks that every produced record is counted somewhere."""
    return one["produced"] == sum(number for name, number in one.items() if name != "produced")


class Command:
    """`opstep WORDS`, with all its output."""

    def __init__(self, *words: str, cwd: Path, **env: str) -> None:
        self.process = subprocess.Popen(
            [*OPSTEP, *words],
            cwd=cwd,
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.output = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line

    def says(self, text: str) -> None:
        assert wait_until(lambda: text in self.output), f"never said {text!r}: {self.output}"

    def end(self, number: signal.Signals = signal.SIGINT) -> str:
        """All its output, after a successful end by that signal."""
        self.process.send_signal(number)
        return self.finish()

    def finish(self) -> str:
        self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        assert self.process.returncode == 0, self.output
        return self.output

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self._reader.join(SECONDS)


def run(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs to the end; returns the output."""
    command = [sys.executable, *words]
    env = {**os.environ, **env}
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=SECONDS * 4
    )
