"""How long a test waits for something that must happen before it counts as a hang.

No test may depend on the speed of a machine: these limits are longer than anything takes.
OPSTEP_TEST_PATIENCE=3 makes them, and the limit of each test, three times as long.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import TypeVar

FACTOR = float(os.environ.get("OPSTEP_TEST_PATIENCE", "1"))
SECONDS = 120.0 * FACTOR
T = TypeVar("T")


def wait_until(condition: Callable[[], object], seconds: float = SECONDS) -> bool:
    """Checks the condition again and again; returns whether it became true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not condition():
        time.sleep(0.02)
    return bool(condition())


def until(what: str, probe: Callable[[], T | None]) -> T:
    """The first answer of `probe` that is true or not empty; the error names `what`."""
    deadline = time.monotonic() + SECONDS
    while True:
        answer = probe()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"waited {SECONDS:g} s in vain for {what}"
        time.sleep(0.05)


async def until_async(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Checks again and again, while the event loop runs; fails if the condition stays false."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain"
        await asyncio.sleep(0.01)


def wait_until_computing(pid: int, seconds: float = 0.05) -> None:
    """Waits until the process has used that much more processor time."""

    def used() -> float:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = used()
    assert wait_until(lambda: used() >= before + seconds), f"process {pid} computes nothing"
