"""How long a test waits for what must happen before it calls it a hang.

No test may pass or fail by the speed of a machine: these are guards, longer than anything takes.
OPSTEP_TEST_PATIENCE=3 makes them, and the limit of each test, three times as long.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

FACTOR = float(os.environ.get("OPSTEP_TEST_PATIENCE", "1"))
SECONDS = 120.0 * FACTOR


def wait_until(condition: Callable[[], object], seconds: float = SECONDS) -> bool:
    """Asks again and again; whether the condition became true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not condition():
        time.sleep(0.02)
    return bool(condition())


def wait_until_computing(pid: int, seconds: float = 0.05) -> None:
    """Until the process has used that much more processor time, however long that takes."""

    def used() -> float:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = used()
    assert wait_until(lambda: used() >= before + seconds), f"process {pid} computes nothing"
