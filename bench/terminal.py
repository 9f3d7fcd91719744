"""The terminal debugger as a person feels it: the first prompt, and one step until it is shown."""

from __future__ import annotations

import os
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dap_steps import GRAPH
from table import Row

STARTS = 5
STEPS = 200
PROMPT_BAR = 1.0
STEP_BAR = 20.0
SECONDS = 30.0


class Terminal:
    """A pseudo-terminal with the debugger in it."""

    def __init__(self, script: Path, folder: Path) -> None:
        self._ours, theirs = os.openpty()
        self._seen = ""
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "opstep_server", "debug", str(script)],
            env={**os.environ, "TERM": "xterm-256color", "XDG_STATE_HOME": str(folder)},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def expect(self, text: str) -> float:
        """When it was shown."""
        while (at := self._seen.find(text)) < 0:
            if not select.select([self._ours], [], [], SECONDS)[0]:
                raise TimeoutError(f"no '{text}' in {self._seen[-500:]!r}")
            data = os.read(self._ours, 1 << 16).decode(errors="replace")
            if "\x1b[6n" in data:
                self.type("\x1b[1;1R")  # The cursor's position, as a terminal answers.
            self._seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", data)
        self._seen = self._seen[at + len(text) :]
        return time.perf_counter()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


def _prompt(script: Path, folder: Path) -> float:
    """Seconds from the start of the process to its prompt."""
    terminal = Terminal(script, folder)
    try:
        return terminal.expect("(opstep)") - terminal.began
    finally:
        terminal.close()


def _steps(script: Path, folder: Path) -> float:
    """Milliseconds from Enter to the stop's line, the median."""
    terminal = Terminal(script, folder)
    try:
        terminal.expect("(opstep)")
        terminal.type("tbreak add\r")
        terminal.expect("(opstep)")
        terminal.type("run\r")
        terminal.expect("breakpoint 1")
        times = []
        for _ in range(STEPS):
            terminal.expect("(opstep)")
            time.sleep(0.01)  # Like a person: the prompt has finished its other work by then.
            begin = time.perf_counter()
            terminal.type("stepi\r")
            times.append(terminal.expect(": step") - begin)
        return statistics.median(times) * 1e3
    finally:
        terminal.type("\x03quit terminate\r")
        terminal.process.wait(SECONDS)
        terminal.close()


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "graph.py"
        script.write_text(GRAPH)
        prompt = statistics.median(_prompt(script, folder) for _ in range(STARTS))
        step = _steps(script, folder)
    return [
        Row(
            "first prompt of opstep debug", prompt, "s", bar=f"<= {PROMPT_BAR:g} s",
            met=prompt <= PROMPT_BAR,
        ),
        Row(
            "a step until it is shown", step, "ms", bar=f"<= {STEP_BAR:g} ms",
            met=step <= STEP_BAR,
        ),
    ]  # fmt: skip
