"""Coroutines that begin at once: most of them end at once too, and need no task of their own."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Coroutine, Generator
from typing import Any


def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Runs the coroutine until it waits; the result is the task for the rest, None when it ended.

    What it raises before it waits for the first time is raised here.
    """
    if sys.version_info >= (3, 12):
        task = asyncio.Task(work, loop=asyncio.get_running_loop(), eager_start=True)
        if not task.done():
            return task
        task.result()
        return None
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_rest(work, awaited))


@types.coroutine
def _rest(work: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """What the coroutine waits for goes to the task; what becomes of it goes to the coroutine."""
    try:
        while True:
            try:
                yield awaited
            except BaseException as error:
                awaited = work.throw(error)
            else:
                awaited = work.send(None)
    except StopIteration:
        return
