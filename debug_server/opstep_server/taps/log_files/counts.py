"""`counts.json`: how many records of each tap were delivered or lost, as the executor counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from opstep_server.taps.log_files.log_records import printable

# The reasons as text for users.
DROPPED = {
    "queue_full": "queue full",
    "disconnected": "disconnected",
    "rate": "rate",
    "too_large": "too large",
    "sink": "sink",
    "unconfirmed": "unconfirmed",
    "at_exit": "at exit",
}


@dataclass(frozen=True)
class TapCount:
    produced: int
    delivered: int
    waiting: int
    # By reason; without zeros.
    dropped: dict[str, int]

    def at_least(self, delivered: int) -> TapCount:
        more = delivered - self.delivered
        if more <= 0:
            return self
        waiting = max(0, self.waiting - more)
        lost = sum(self.dropped.values())
        produced = max(self.produced, delivered + waiting + lost)
        return TapCount(produced, delivered, waiting, self.dropped)


@dataclass(frozen=True)
class Counts:
    time: str = ""
    taps: dict[str, TapCount] = field(default_factory=dict)
    # The processes whose records are counted; empty when the file does not name them.
    processes: frozenset[str] = frozenset()
    # The collector wrote it at its regular end.
    last: bool = True
    # The log has more records than the file; they are counted here.
    old: bool = False

    def with_log(self, records: Mapping[tuple[str, str], int]) -> Counts:
        """The counts corrected by the log's own number of records of each process and tap."""
        if self.last or not self.processes:
            return self
        logged: Counter[str] = Counter()
        for (process, tap), count in records.items():
            logged[tap] += count if process in self.processes else 0
        taps = {name: tap.at_least(logged[name]) for name, tap in self.taps.items()}
        return replace(self, taps=taps, old=taps != self.taps)

    @property
    def total(self) -> TapCount:
        taps = self.taps.values()
        reasons = {reason for tap in taps for reason in tap.dropped}
        return TapCount(
            sum(tap.produced for tap in taps),
            sum(tap.delivered for tap in taps),
            sum(tap.waiting for tap in taps),
            {
                reason: sum(tap.dropped.get(reason, 0) for tap in taps)
                for reason in DROPPED.values()
                if reason in reasons
            },
        )


def counts_of(content: Any) -> Counts:
    """The counts in the file's content; other entries are left out."""
    if not isinstance(content, dict):
        return Counts()
    time, processes = content.get("time", ""), content.get("processes")
    inner = content.get("taps")
    taps = inner if isinstance(inner, dict) else content
    return Counts(
        printable(time) if isinstance(time, str) else "",
        {
            printable(name): _count(counts)
            for name, counts in taps.items()
            if isinstance(counts, dict) and "produced" in counts
        },
        processes=frozenset(map(printable, processes if isinstance(processes, list) else ())),
        last=content.get("last") is not False,
    )


def _count(counts: dict[str, Any]) -> TapCount:
    dropped = {words: _whole(counts.get(name)) for name, words in DROPPED.items()}
    return TapCount(
        _whole(counts.get("produced")),
        _whole(counts.get("delivered")),
        _whole(counts.get("waiting")),
        {reason: count for reason, count in dropped.items() if count},
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def age(counts: Counts) -> str:
    """The note on counts that are older than the log."""
    return (
        f"the collector was killed, or still runs: what was dropped since {counts.time} is not "
        "counted yet"
    )


def describe(count: TapCount) -> str:
    """`1,000 produced, 990 delivered, 10 dropped (rate 10)`."""
    text = f"{count.produced:,} produced, {count.delivered:,} delivered"
    if count.waiting:
        text += f", {count.waiting:,} waiting"
    lost = sum(count.dropped.values())
    if not lost:
        return f"{text}, none dropped"
    reasons = ", ".join(f"{reason} {number:,}" for reason, number in count.dropped.items())
    return f"{text}, {lost:,} dropped ({reasons})"
