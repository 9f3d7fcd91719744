"""Coroutines that begin at once: most of them end at once too, and need no task of their own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any


def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Runs the coroutine until it waits; the result is the task for the rest, None when it ended.

    What it raises before it waits for the first time is raised here.
    """
    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        task = asyncio.Task(work, loop=loop, eager_start=True)
        if not task.done():
            return task
        task.result()
        return None
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return loop.create_task(_Rest(work, awaited))


class _Rest(Coroutine[Any, Any, None]):
    """A coroutine that has begun: hands its task first what it waits for already."""

    def __init__(self, work: Coroutine[Any, Any, None], awaited: asyncio.Future[Any] | None):
        self._work = work
        self._awaited = awaited
        self._handed_over = False

    def send(self, value: None) -> Any:
        if self._handed_over:
            return self._work.send(value)
        self._handed_over = True
        return self._awaited

    def throw(self, *error: Any) -> Any:
        if not self._handed_over:
            # Cancelled before the task knew what it waits for, and would cancel that.
            self._handed_over = True
            if self._awaited is not None:
                self._awaited.cancel()
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        raise TypeError("only a task runs the rest of a coroutine")
