"""Numbers that stand for frames and values, each valid for one stop of one thread."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

# Results of expressions that stay usable at one stop; a polling client makes any number of them.
MOST_PASSING = 1000


class Handles(Generic[T]):
    """Numbers rise and are never given twice, so a late request cannot hit a newer stop's value."""

    def __init__(self) -> None:
        self._next = 1
        self._values: dict[int, T] = {}
        # In the order of their numbers.
        self._by_thread: dict[int, dict[int, None]] = {}
        self._passing: dict[int, deque[int]] = {}

    def add(self, thread_id: int, value: T, passing: bool = False) -> int:
        """A handle that is `passing` is dropped when there are too many later ones."""
        handle = self._next
        self._next += 1
        self._values[handle] = value
        mine = self._by_thread.setdefault(thread_id, {})
        mine[handle] = None
        if passing:
            waiting = self._passing.setdefault(thread_id, deque())
            waiting.append(handle)
            if len(waiting) > MOST_PASSING:
                oldest = waiting.popleft()
                del self._values[oldest], mine[oldest]
        return handle

    def get(self, handle: int) -> T | None:
        return self._values.get(handle)

    def of(self, thread_id: int) -> list[tuple[int, T]]:
        return [(handle, self._values[handle]) for handle in self._by_thread.get(thread_id, ())]

    def forget(self, thread_id: int) -> None:
        """Drops all handles of the thread's stop: the thread has gone on, or ended."""
        for handle in self._by_thread.pop(thread_id, ()):
            del self._values[handle]
        self._passing.pop(thread_id, None)

    def __len__(self) -> int:
        return len(self._values)
