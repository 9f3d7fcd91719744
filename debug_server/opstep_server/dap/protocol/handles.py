"""Numbers that stand for frames and values, each valid for one stop of one thread."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

# Results of expressions, and parts of them, that stay usable at one stop; a polling client makes
# any number of them.
MOST_PASSING = 2000


class Handles(Generic[T]):
    """Numbers rise and are never given twice, so a late request cannot hit a newer stop's value."""

    def __init__(self) -> None:
        self._next = 1
        self._values: dict[int, T] = {}
        # In the order of their numbers.
        self._by_thread: dict[int, dict[int, None]] = {}
        # The longest unused first.
        self._passing: dict[int, dict[int, None]] = {}
        # Those from here on belong to the answer that is being made. It is kept as a whole, and so
        # is the handle that it is about.
        self._kept_from = 0
        self._subject = 0

    def add(self, thread_id: int, value: T, passing: bool = False) -> int:
        """A handle that is `passing` is dropped when there are too many later ones."""
        handle = self._next
        self._next += 1
        self._values[handle] = value
        mine = self._by_thread.setdefault(thread_id, {})
        mine[handle] = None
        if passing:
            waiting = self._passing.setdefault(thread_id, {})
            waiting[handle] = None
            while len(waiting) > MOST_PASSING:
                oldest = next(iter(waiting))
                if oldest >= self._kept_from or oldest == self._subject:
                    break
                del waiting[oldest], self._values[oldest], mine[oldest]
        return handle

    def begin(self, subject: int = 0) -> None:
        """The handles that are made next belong together: an answer about the `subject`."""
        self._kept_from, self._subject = self._next, subject

    def use(self, thread_id: int, handle: int) -> None:
        """Keeps a passing handle as if it were new."""
        waiting = self._passing.get(thread_id, {})
        if handle in waiting:
            del waiting[handle]
            waiting[handle] = None

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
