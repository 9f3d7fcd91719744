"""What executors say of taps: told to people once, and counted over all processes."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence

from opstep_server.model import Event, Executor, ExecutorLost, TapsChanged
from opstep_server.wire import debug_pb2 as pb

# A tap that is bound to nothing may be so only until the next program is compiled.
SETTLE_SECONDS = 1.0
COUNTS = tuple(field.name for field in pb.TapCounts.DESCRIPTOR.fields if field.name != "uid")
_WORDS = {"at_exit": "at exit", "queue_full": "queue full", "too_large": "too large"}


class Reports:
    def __init__(self, tell: Callable[[str], None], *, early: bool = False) -> None:
        """`early`: also what is said of processes that have not run anything yet."""
        self._tell = tell
        self._early = early
        # By process and tap.
        self._known: dict[tuple[str, str], pb.TapStatus] = {}
        self._told: set[tuple[str, str, str]] = set()
        # Since when it says what it says.
        self._since: dict[tuple[str, str, str], float] = {}
        self._written: dict[str, str] = {}

    def take(self, event: Event) -> None:
        if isinstance(event, TapsChanged):
            self.note(event.executor, event.statuses)
        elif isinstance(event, ExecutorLost):
            # What was wrong to the end is told, however short that was.
            for (process, _), status in self._known.items():
                if process == _process(event.executor):
                    self._tell_message(process, status)

    def note(self, executor: Executor, statuses: Iterable[pb.TapStatus]) -> None:
        process = _process(executor)
        for status in statuses:
            known = self._known.setdefault((process, status.uid), pb.TapStatus())
            counts = pb.TapCounts()
            counts.CopyFrom(status.counts if status.HasField("counts") else known.counts)
            if status.name:
                known.CopyFrom(status)
            known.counts.CopyFrom(counts)
            if known.ended:
                self._once(process, known, f"{known.name} has ended: {known.ended}")

    def poll(self, now: float | None = None) -> None:
        """To be called now and then: tells what has been so for a while."""
        now = time.monotonic() if now is None else now
        for (process, uid), status in self._known.items():
            since = self._since.setdefault((process, uid, status.message), now)
            if now - since >= SETTLE_SECONDS:
                self._tell_message(process, status)

    @property
    def ended(self) -> bool:
        """All of them have, wherever they were."""
        return bool(self._known) and all(status.ended for status in self._known.values())

    def counts(self) -> dict[str, dict[str, int]]:
        """By the tap's name."""
        found: dict[str, dict[str, int]] = {}
        for status in self._known.values():
            counts = found.setdefault(status.name, dict.fromkeys(COUNTS, 0))
            for name in COUNTS:
                counts[name] += getattr(status.counts, name)
        return found

    def table(self) -> list[str]:
        """A line for each tap; what was never dropped for a reason has no column."""
        counts = self.counts()
        used = [
            name for name in COUNTS
            if name in ("produced", "delivered") or any(one[name] for one in counts.values())
        ]  # fmt: skip
        rows = [["tap", *(_WORDS.get(name, name) for name in used)]]
        rows += [[tap, *(f"{one[name]:,}" for name in used)] for tap, one in counts.items()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(used) + 1)]
        return [
            "  ".join([row[0].ljust(widths[0]), *(map(str.rjust, row[1:], widths[1:]))])
            for row in rows
        ]

    def write(self, directories: Sequence[str]) -> None:
        """`counts.json`, whole or not at all. What cannot be written is tried again later."""
        counts = self.counts()
        for directory in directories:
            text = json.dumps(counts)
            path = os.path.join(directory, "counts.json")
            if not counts or (self._written.get(directory) == text and os.path.exists(path)):
                continue
            now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="microseconds")
            with contextlib.suppress(OSError):
                os.makedirs(directory, exist_ok=True)
                with open(f"{path}.new", "w", encoding="utf-8") as file:
                    file.write(json.dumps({"time": now, "taps": counts}, indent=1) + "\n")
                os.replace(f"{path}.new", path)
                self._written[directory] = text

    def _tell_message(self, process: str, status: pb.TapStatus) -> None:
        early = status.message.endswith(" yet") and not self._early
        if status.message and not status.ended and not early:
            self._once(process, status, f"{status.name}: {status.message}")

    def _once(self, process: str, status: pb.TapStatus, what: str) -> None:
        key = (process, status.uid, what)
        if key not in self._told:
            self._told.add(key)
            self._tell(f"tap {what}")


def _process(executor: Executor) -> str:
    return executor.hello.identity or str(executor.id)
