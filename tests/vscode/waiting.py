"""Waiting for other processes: a question is asked again and again until the answer is yes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import patience

T = TypeVar("T")


def until(what: str, probe: Callable[[], T | None]) -> T:
    """The first answer of `probe` that is true or not empty; `what` is named if none comes."""
    deadline = time.monotonic() + patience.SECONDS
    while True:
        answer = probe()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"waited {patience.SECONDS:g} s in vain for {what}"
        time.sleep(0.05)


def processes(*words: str) -> list[int]:
    """The running processes whose command line has all these words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(word in command for word in words):
            found.append(int(path.parent.name))
    return found


def line_with(path: Path, text: str) -> int:
    """The number of the first line that has the text: tests name no line numbers."""
    lines = path.read_text().splitlines()
    return next(at for at, line in enumerate(lines, 1) if text in line)
