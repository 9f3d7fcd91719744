"""Numbers that stand for frames and values, each valid for one stop of one thread."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Handles(Generic[T]):
    """Numbers rise and are never given twice, so a late request cannot hit a newer stop's value."""

    def __init__(self) -> None:
        self._next = 1
        self._values: dict[int, T] = {}
        self._by_thread: dict[int, list[int]] = {}

    def add(self, thread_id: int, value: T) -> int:
        handle = self._next
        self._next += 1
        self._values[handle] = value
        self._by_thread.setdefault(thread_id, []).append(handle)
        return handle

    def get(self, handle: int) -> T | None:
        return self._values.get(handle)

    def of(self, thread_id: int) -> list[tuple[int, T]]:
        return [(handle, self._values[handle]) for handle in self._by_thread.get(thread_id, ())]

    def forget(self, thread_id: int) -> None:
        """All that was given out for the thread's stop: it has gone on, or ended."""
        for handle in self._by_thread.pop(thread_id, ()):
            del self._values[handle]

    def __len__(self) -> int:
        return len(self._values)
