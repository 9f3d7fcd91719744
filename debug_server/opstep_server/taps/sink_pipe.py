"""The pipe to one sink: a bounded queue and a thread, so that the sink blocks nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from opstep_server.taps.records import Batch
from opstep_server.taps.sinks.base import Sink

# A sink that is busy with one call for this time counts as stuck and is skipped.
STALL_SECONDS = 5.0
# Written records are flushed after this time, even if more wait.
FLUSH_SECONDS = 1.0
RETRY_SECONDS = (0.1, 2.0)
# A sink that closes may go on for this time without getting ahead, and for the other in all.
CLOSE_SECONDS = 2.0
LAST_SECONDS = 15.0
# The time between two messages that a sink is slow, or fails again.
SLOW_SECONDS = 60.0

Mask = npt.NDArray[np.bool_]
Tell = Callable[[str], None]


class Ticket:
    """A batch that sinks work on; used on the event loop only.

    A record is delivered when at least one of its sinks has it, safe from a crash of this process;
    it is lost when none of its sinks took it.
    """

    def __init__(self, length: int, settled: Callable[[Mask], None]) -> None:
        """`settled` gets the mask of the lost records."""
        self._lost: Mask = np.ones(length, np.bool_)
        self._settled: Callable[[Mask], None] | None = settled
        self.waiting = 0

    def done(self, index: npt.NDArray[np.intp] | None, taken: bool) -> None:
        """A sink is done with these records, or with all."""
        self.waiting -= 1
        if taken:
            self._lost[slice(None) if index is None else index] = False
        self.settle()

    def settle(self) -> None:
        """Calls `settled` when all sinks are done, or the others can save nothing more."""
        if self._settled is not None and (self.waiting <= 0 or not self._lost.any()):
            settled, self._settled = self._settled, None
            settled(self._lost)


@dataclass(frozen=True)
class Item:
    """One sink's part of a batch."""

    ticket: Ticket
    batch: Batch
    # The indices of the ticket's records; None: all.
    index: npt.NDArray[np.intp] | None
    bytes: int


@dataclass
class Counts:
    """Counts of one sink's records."""

    taken: int = 0
    lost: int = 0


class SinkPipe:
    """Its thread calls the sink and nothing else, and ends with `close`.

    The event loop puts items into the queue and gets their results. A lock guards the shared state;
    it is never held while the sink works.
    """

    def __init__(self, name: str, sink: Sink, memory: int, tell: Tell) -> None:
        self.name = name
        self.counts = Counts()
        self._sink = sink
        self._memory = memory
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._news = threading.Condition()
        self._queue: deque[Item] = deque()
        # Given to the sink, but not flushed.
        self._written: list[Item] = []
        self._bytes = 0
        self._closing = False
        self._stalled = False
        # Failures in a row, and the time of the next attempt.
        self._failures = 0
        self._retry_at = 0.0
        # When the sink's current call began; 0: there is none.
        self._busy_since = 0.0
        # When the oldest unflushed record was written; the time of the last flush and its duration.
        self._dirty_since = 0.0
        self._flushed_at = 0.0
        self._flush_took = 0.0
        self._is_open = False
        # The failure was reported.
        self._told_failing = False
        self._told_failing_at = -SLOW_SECONDS
        self._told_slow_at = -SLOW_SECONDS
        self._ended = asyncio.Event()
        self._watch = asyncio.create_task(self._notice_stalls())
        # A daemon: a sink that hangs must not keep the process alive.
        threading.Thread(target=self._run, name=f"sink {name}", daemon=True).start()

    # ---- on the event loop -----------------------------------------------------------------------

    def put(self, item: Item) -> None:
        """Queues the item; when there is no room, it is lost at once."""
        item.ticket.waiting += 1
        with self._news:
            # After the first failure new items may still be saved; after more they are not kept.
            fails = self._failures > 1 and time.monotonic() < self._retry_at
            refused = self._closing or self._stalled or fails
            full = self._bytes + item.bytes > self._memory
            if not refused and not full:
                self._queue.append(item)
                self._bytes += item.bytes
                self._news.notify()
                return
        self._lose([item])
        if not refused and time.monotonic() - self._told_slow_at >= SLOW_SECONDS:
            self._told_slow_at = time.monotonic()
            self._tell(f"sink {self.name}: it is too slow: {self._so_far()}")

    async def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Writes the waiting items; after that time without progress, the rest is lost."""
        with self._news:
            self._closing = True
            self._news.notify()
        end, taken = self._loop.time() + LAST_SECONDS, -1
        while not self._ended.is_set() and self.counts.taken > taken and self._loop.time() < end:
            taken = self.counts.taken
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ended.wait(), seconds)
        self._watch.cancel()
        if rest := self._drop_all():
            self._lose(rest)
            count = sum(len(item.batch) for item in rest)
            self._tell(f"sink {self.name}: it was too slow to write the last {count:,} records")

    async def _notice_stalls(self) -> None:
        while True:
            await asyncio.sleep(STALL_SECONDS / 5)
            with self._news:
                busy, now = self._busy_since, time.monotonic()
                if not busy or now - busy < STALL_SECONDS or self._stalled:
                    continue
                self._stalled = True
            self._failed(self._drop_all(), f"it has not moved for {STALL_SECONDS:g} s")

    def _drop_all(self) -> list[Item]:
        with self._news:
            items = [*self._written, *self._queue]
            self._written, self._bytes = [], 0
            self._queue.clear()
        return items

    def _taken(self, items: Sequence[Item]) -> None:
        for item in items:
            self.counts.taken += len(item.batch)
            item.ticket.done(item.index, True)
        if self._told_failing:
            self._told_failing = False
            self._tell(f"sink {self.name}: writing again, {self.counts.lost:,} records were lost")

    def _lose(self, items: Sequence[Item]) -> None:
        for item in items:
            self.counts.lost += len(item.batch)
            item.ticket.done(item.index, False)

    def _failed(self, items: Sequence[Item], why: str) -> None:
        self._lose(items)
        now = time.monotonic()
        if not self._told_failing and now - self._told_failing_at >= SLOW_SECONDS:
            self._told_failing, self._told_failing_at = True, now
            self._tell(f"sink {self.name}: {why}: {self._so_far()}, trying on")

    def _so_far(self) -> str:
        return f"{self.counts.lost:,} records lost so far"

    # ---- on its thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._news:
                what, patience = self._next()
                if what == "wait":
                    self._news.wait(patience)
                    continue
                if what == "write":
                    item = self._queue.popleft()
                    self._written.append(item)
                    self._dirty_since = self._dirty_since or time.monotonic()
                self._busy_since = time.monotonic()
            try:
                if what == "end":
                    self._close_sink()
                    self._say(self._ended.set)
                    return
                if what == "flush":
                    self._flush()
                else:
                    if not self._is_open:
                        self._is_open = True
                        self._sink.open()
                    self._sink.write(item.batch)
            except Exception as error:  # No error of a sink ends its thread.
                self._fail(_sentence(error))
            with self._news:
                self._busy_since = 0.0
                self._stalled = False

    def _next(self) -> tuple[Literal["wait", "write", "flush", "end"], float | None]:
        now = time.monotonic()
        if self._failures and now < self._retry_at:
            if self._closing:
                return "end", None
            return "wait", self._retry_at - now if self._queue else None
        if self._dirty_since:
            # Slow flushes are done less often.
            due = self._flushed_at + 10 * self._flush_took
            due = min(due, self._dirty_since + FLUSH_SECONDS)
            if now >= due or (self._closing and not self._queue):
                return "flush", None
            if not self._queue:
                return "wait", due - now
        if self._queue:
            return "write", None
        return ("end", None) if self._closing else ("wait", None)

    def _flush(self) -> None:
        begin = time.monotonic()
        self._sink.flush()
        self._flushed_at = time.monotonic()
        self._flush_took = self._flushed_at - begin
        with self._news:
            items, self._written = self._written, []
            self._bytes -= sum(item.bytes for item in items)
            self._dirty_since = 0.0
            self._failures = 0
        self._say(self._taken, items)

    def _fail(self, why: str) -> None:
        with self._news:
            items, self._written = self._written, []
            self._failures += 1
            least, most = RETRY_SECONDS
            self._retry_at = time.monotonic() + min(least * 2 ** min(self._failures - 1, 9), most)
            if self._failures > 1:
                items += self._queue
                self._queue.clear()
            self._bytes = sum(item.bytes for item in self._queue)
            self._dirty_since = 0.0
        self._say(self._failed, items, why)
        self._close_sink()

    def _close_sink(self) -> None:
        self._is_open = False
        with contextlib.suppress(Exception):
            self._sink.close()

    def _say(self, what: Callable[..., None], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed: the result is not needed.
            self._loop.call_soon_threadsafe(what, *args)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
