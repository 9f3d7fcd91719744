"""A worker for disk access beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")
POLL_SECONDS = 0.01


class DiskWorker(Generic[Result]):
    """One piece of work at a time, each on a thread of its own that does nothing else.

    A disk that hangs holds up that thread only. It is a daemon, not one of asyncio's, for which the
    process would wait at its end.
    """

    def __init__(self) -> None:
        self._busy = False
        self._results: list[Result] = []

    def start(self, work: Callable[[], Result]) -> bool:
        """False, and nothing is done, while the last one is not over: nothing piles up."""
        if self._busy:
            return False
        self._busy = True
        threading.Thread(target=self._work, args=(work,), name="disk", daemon=True).start()
        return True

    def take(self) -> Result | None:
        """What the last one came to, once."""
        return self._results.pop() if self._results and not self._busy else None

    async def finish(self, work: Callable[[], Result], seconds: float) -> None:
        """Does it after what is under way, and waits for it, but no longer than that."""
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
