"""Reports of executors about taps: shown to users once, and counted over all processes."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from opstep_server.model import (
    Event,
    ExecutorJoined,
    ExecutorLost,
    ExecutorMoved,
    ExecutorProcess,
    TapsChanged,
)
from opstep_server.taps.disk_worker import DiskWorker
from opstep_server.wire import debug_pb2 as pb

# Processes that are gone for a while and still known one by one: a process that comes back goes on
# counting where it was. For earlier processes only sums are kept.
MAX_GONE = 200
GONE_SECONDS = 60.0
# The most messages of a tap that are remembered: messages with numbers must not fill the memory.
MAX_TOLD = 100
# How long a message must last: a tap may be unbound only until the next program is compiled.
SETTLE_SECONDS = 1.0
# How long a disk may take for the last counts.
LAST_SECONDS = 2.0
COUNTS = tuple(field.name for field in pb.TapCounts.DESCRIPTOR.fields if field.name != "uid")
_WORDS = {"at_exit": "at exit", "queue_full": "queue full", "too_large": "too large"}


@dataclass
class _Known:
    """A tap in one process."""

    status: pb.TapStatus = field(default_factory=pb.TapStatus)
    # Its message, and since when.
    message: str = ""
    since: float | None = None
    told: set[str] = field(default_factory=set)


class _Files:
    """`counts.json` of directories; used by one thread at a time."""

    def __init__(self) -> None:
        # By directory, the written content.
        self._written: dict[str, str] = {}

    def write(
        self,
        counts: dict[str, dict[str, int]],
        processes: Sequence[str],
        directories: Sequence[str],
        last: bool = False,
    ) -> None:
        """Writes whole files; failed ones are tried again later.

        Counts that are not the `last` may be old, after the collector or a process was killed.
        Then the log's records of these processes, which count from their beginning, are right.
        """
        text = json.dumps([counts, processes, last])
        self._written = {path: self._written[path] for path in directories if path in self._written}
        for directory in directories:
            path = os.path.join(directory, "counts.json")
            if not counts or (self._written.get(directory) == text and os.path.exists(path)):
                continue
            content = {"time": _now(), "last": last, "processes": processes, "taps": counts}
            with contextlib.suppress(OSError):
                os.makedirs(directory, exist_ok=True)
                with open(f"{path}.new", "w", encoding="utf-8") as file:
                    file.write(json.dumps(content, indent=1) + "\n")
                os.replace(f"{path}.new", path)
                self._written[directory] = text


class TapReports:
    def __init__(
        self, tell: Callable[[str], None], *, early: bool = False, anew: bool = False
    ) -> None:
        """`early`: shows messages also for processes that have not run anything yet.

        `anew`: a process that comes back has forgotten its taps and counts from the start.
        """
        self._tell = tell
        self._early = early
        self._anew = anew
        # By process and uid.
        self._known: dict[str, dict[str, _Known]] = {}
        # When processes left, the oldest first; and the sums of forgotten processes, by the tap's
        # name.
        self._gone: dict[str, float] = {}
        # The executor of each process; after a return the new one may come before the old is lost.
        self._here: dict[str, int] = {}
        self._sums: dict[str, dict[str, int]] = {}
        # Processes that left without a goodbye: their last counts may be old.
        self._broken_off: set[str] = set()
        # One of them came back through another debugger, and its counts until then may be old.
        self._torn = False
        # The names of processes as in records.
        self._processes: dict[str, None] = {}
        self._files = _Files()
        self._disk: DiskWorker[None] = DiskWorker()

    def take(self, event: Event) -> None:
        if isinstance(event, TapsChanged):
            self.note(event.executor, event.statuses)
        elif isinstance(event, ExecutorMoved):
            self._torn |= bool(event.broken)
        elif isinstance(event, ExecutorJoined):
            if self._anew:
                for known in self._known.pop(_process(event.executor), {}).values():
                    _add(self._sums, known.status)
            self._here[_process(event.executor)] = event.executor.id
            self._gone.pop(_process(event.executor), None)
            self._broken_off.discard(_process(event.executor))
        elif isinstance(event, ExecutorLost):
            process = _process(event.executor)
            # Problems at the end are reported even if they were short.
            for known in self._known.get(process, {}).values():
                self._tell_message(known)
            if self._here.get(process, event.executor.id) == event.executor.id:
                self._here.pop(process, None)
                self._gone[process] = time.monotonic()
                if event.message:
                    self._broken_off.add(process)

    def note(self, executor: ExecutorProcess, statuses: Iterable[pb.TapStatus]) -> None:
        taps = self._known.setdefault(_process(executor), {})
        self._processes[f"{executor.hello.host}:{executor.pid}"] = None
        for status in statuses:
            known = taps.setdefault(status.uid, _Known())
            counts = pb.TapCounts()
            counts.CopyFrom(status.counts if status.HasField("counts") else known.status.counts)
            if status.ended and not counts.produced:
                self._tell_message(known)  # The reason for no records.
            if status.name:
                known.status.CopyFrom(status)
            known.status.counts.CopyFrom(counts)
            if known.status.ended:
                self._once(known, f"{known.status.name} has ended: {known.status.ended}")

    def poll(self, now: float | None = None) -> None:
        """Call this now and then: reports messages that have lasted for a while."""
        now = time.monotonic() if now is None else now
        for process, taps in self._known.items():
            for known in taps.values() if process not in self._gone else ():
                if known.since is None or known.message != known.status.message:
                    known.message, known.since = known.status.message, now
                if now - known.since >= SETTLE_SECONDS:
                    self._tell_message(known)
        while len(self._gone) > MAX_GONE:
            process, since = next(iter(self._gone.items()))
            # Sinks may still work on its last records.
            if now - since < GONE_SECONDS:
                break
            del self._gone[process]
            for known in self._known.pop(process, {}).values():
                _add(self._sums, known.status)

    def tell_rest(self) -> None:
        """The end: reports remaining problems, even if they were short."""
        for taps in self._known.values():
            for known in taps.values():
                self._tell_message(known)

    def ended_by(self, why: str) -> set[str]:
        """The uids of taps that have ended for a reason that begins with `why`."""
        taps = (each.items() for each in self._known.values())
        return {uid for one in taps for uid, each in one if each.status.ended.startswith(why)}

    @property
    def all_lost(self) -> bool:
        """Whether there were records, but none was delivered or can still be."""
        counts = self.counts().values()
        some = any(each["delivered"] or each["waiting"] for each in counts)
        return not some and any(each["produced"] for each in counts)

    @property
    def ended(self) -> bool:
        """Whether all taps have ended in all processes."""
        taps = [known for taps in self._known.values() for known in taps.values()]
        return bool(taps) and all(known.status.ended for known in taps)

    def counts(self) -> dict[str, dict[str, int]]:
        """The counts by the tap's name."""
        found = {name: dict(counts) for name, counts in self._sums.items()}
        for taps in self._known.values():
            for known in taps.values():
                _add(found, known.status)
        return found

    def table(self) -> list[str]:
        """A line for each tap; a reason without dropped records has no column."""
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
        """Writes `counts.json` without waiting for it; call this now and then."""
        work = partial(self._files.write, self.counts(), list(self._processes), tuple(directories))
        self._disk.start(work)

    async def write_last(self, directories: Sequence[str], seconds: float = LAST_SECONDS) -> None:
        """Writes it the last time and waits, for at most `seconds`."""
        work = partial(
            self._files.write,
            self.counts(),
            list(self._processes),
            tuple(directories),
            last=not (self._broken_off or self._torn),
        )
        await self._disk.finish(work, seconds)

    def _tell_message(self, known: _Known) -> None:
        status = known.status
        early = status.message.endswith(" yet") and not self._early
        if status.message and not status.ended and not early:
            self._once(known, f"{status.name}: {status.message}")

    def _once(self, known: _Known, what: str) -> None:
        if what not in known.told and len(known.told) < MAX_TOLD:
            known.told.add(what)
            self._tell(f"tap {what}")


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="microseconds")


def _add(sums: dict[str, dict[str, int]], status: pb.TapStatus) -> None:
    counts = sums.setdefault(status.name, dict.fromkeys(COUNTS, 0))
    for name in COUNTS:
        counts[name] += getattr(status.counts, name)


def _process(executor: ExecutorProcess) -> str:
    return executor.hello.identity or str(executor.id)
