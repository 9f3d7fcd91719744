"""Coroutines that start at once, and resume inside the call that answers them.

Most requests wait for one reply and nothing else. Such a request needs neither a task nor turns of
the event loop: it runs inside the call that starts it, then inside the call that brings the reply.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Answer(asyncio.Future[T]):
    """A future; a coroutine that `start` runs goes on inside `go_on`, others at the next turn."""

    _waiting: Callable[[], None] | None = None

    def go_on(self) -> None:
        """Call this when the future is done."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting()


class Started(Protocol):
    def cancel(self) -> object: ...


def start(work: Coroutine[Any, Any, None], *, alone: bool = False) -> Started | None:
    """Runs the coroutine until it waits; returns a handle to cancel it, None when it ended.

    Errors before its first wait are raised here. With `alone` it needs no task: it must not use
    parts of asyncio that ask for the current task, such as timeouts.
    """
    if sys.version_info >= (3, 12) and not alone:
        task = asyncio.Task(work, loop=asyncio.get_running_loop(), eager_start=True)
        if not task.done():
            return task
        task.result()
        return None
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    if alone or type(awaited) is Answer:
        return _Waiting(work, awaited, alone)
    return _task(work, awaited)


class _Waiting:
    """A coroutine that waits for an answer; it becomes a task when it waits for something else."""

    __slots__ = ("_alone", "_awaited", "_task", "_work")

    def __init__(
        self, work: Coroutine[Any, Any, None], awaited: asyncio.Future[Any] | None, alone: bool
    ) -> None:
        self._work = work
        self._alone = alone
        self._task: asyncio.Task[None] | None = None
        self._wait(awaited)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            return
        self._awaited.cancel()
        if isinstance(self._awaited, Answer):
            self._awaited.go_on()

    def _wait(self, awaited: asyncio.Future[Any] | None) -> None:
        if awaited is None:  # It only yields to others.
            awaited = Answer()
            awaited.set_result(None)
            asyncio.get_running_loop().call_soon(awaited.go_on)
        self._awaited = awaited
        # As a task does, to distinguish a future that was awaited from one that was yielded.
        awaited._asyncio_future_blocking = False
        if isinstance(awaited, Answer):
            awaited._waiting = self._go_on
        else:
            awaited.add_done_callback(self._done)

    def _done(self, awaited: asyncio.Future[Any]) -> None:
        self._go_on()

    def _go_on(self) -> None:
        try:
            awaited = self._work.send(None)
        except (StopIteration, asyncio.CancelledError):
            return
        except Exception as error:
            # Not an error of the call that brought the answer.
            told = {"message": "an error in a request", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)
            return
        if self._alone or type(awaited) is Answer:
            self._wait(awaited)
        else:
            self._task = _task(self._work, awaited)


def _task(
    work: Coroutine[Any, Any, None], awaited: asyncio.Future[Any] | None
) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(_Rest(work, awaited))


class _Rest(Coroutine[Any, Any, None]):
    """The rest of a started coroutine: gives its task first the future that it waits for."""

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
            # Cancelled before the task knew the future, which it would have cancelled.
            self._handed_over = True
            if self._awaited is not None:
                self._awaited.cancel()
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        raise TypeError("only a task runs the rest of a coroutine")
