"""A worker for disk access beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")
POLL_SECONDS = 0.01


class DiskWorker(Generic[Result]):
    """One job at a time, each on its own thread.

    A disk that hangs blocks only that thread. It is a daemon, not a thread of asyncio, for which
    the process would wait at its end.
    """

    def __init__(self) -> None:
        self._busy = False
        self._results: list[Result] = []

    def start(self, work: Callable[[], Result]) -> bool:
        """Starts a job; False, without starting it, while the last job still runs."""
        if self._busy:
            return False
        self._busy = True
        threading.Thread(target=self._work, args=(work,), name="disk", daemon=True).start()
        return True

    def take(self) -> Result | None:
        """The result of the last job, once."""
        return self._results.pop() if self._results and not self._busy else None

    async def finish(self, work: Callable[[], Result], seconds: float) -> None:
        """Runs the job after the current one, and waits for it for at most that time."""
        end = asyncio.get_running_loop().time() + seconds
        started = False
        while asyncio.get_running_loop().time() < end:
            started = started or self.start(work)
            if started and not self._busy:
                return
            await asyncio.sleep(POLL_SECONDS)

    def _work(self, work: Callable[[], Result]) -> None:
        try:
            self._results = [work()]
        finally:
            self._busy = False
