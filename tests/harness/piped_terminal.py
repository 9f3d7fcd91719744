"""The terminal debugger with commands from a pipe, typed one after the other as it answers."""

from __future__ import annotations

import re
import subprocess
import weakref

from harness.processes import OPSTEP, PROGRAMS


class Terminal:
    """Sends each command through a pipe once the one before has shown its effect."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [*OPSTEP, *words],
            cwd=PROGRAMS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        # A failing test may leave it running.
        weakref.finalize(self, self.process.kill)

    def type(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")

    def expect(self, pattern: str) -> re.Match[str]:
        assert self.process.stdout is not None
        seen = ""
        for line in self.process.stdout:
            seen += line
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"no {pattern!r} in {seen!r}")
