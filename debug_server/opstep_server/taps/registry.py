"""The registry of all users' taps: one list for executors, records to the owner of the tap."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from opstep_server.model import ExecutorProcess
from opstep_server.wire import debug_pb2 as pb

# More batches than an executor sends ahead of their answers.
MAX_ANSWERS = 1000
# Kept sources without a tap: executors send a source once, even if its tap is set again later.
MAX_ORPHANS = 50_000
# By a source's number, how many of its records were taken by no sink.
Losses = dict[int, int]
_COLUMNS = (
    "source", "step", "iteration", "time", "thread",
    "count", "min", "max", "mean", "std", "l2", "nan", "inf", "zeros",
)  # fmt: skip


class Taker(Protocol):
    """The owner of taps; called on the event loop, in the order of the stream."""

    def source(self, executor: ExecutorProcess, source: pb.TapSource) -> None: ...

    def records(
        self, executor: ExecutorProcess, records: pb.TapRecords, done: Callable[[Losses], None]
    ) -> None:
        """Call `done` once, when the sinks have taken or lost all of them."""

    def piece(self, executor: ExecutorProcess, piece: pb.TapPiece) -> None: ...

    def gone(self, executor: ExecutorProcess) -> None: ...

    def removed(self, uids: Sequence[str]) -> None:
        """A user removed these taps of the owner."""

    def forget_sources(self, executor: ExecutorProcess, sources: Sequence[int]) -> None:
        """No more records come from these sources."""


@dataclass(frozen=True)
class Wanted:
    tap: pb.Tap
    # The process that gets it; "": all.
    identity: str = ""
    # No later tap will have the same uid.
    once: bool = False


@dataclass
class _Owner:
    taps: tuple[Wanted, ...]
    taker: Taker
    # When they were set.
    since: float = field(default_factory=time.monotonic)


@dataclass
class _Stream:
    """The sources and batches of one executor."""

    executor: ExecutorProcess
    sources: dict[int, pb.TapSource] = field(default_factory=dict)
    # Of the last batch: the owners of its records, and their indices there. None: all to one owner.
    batch: int = 0
    whole: str | None = None
    places: dict[int, tuple[str, int]] = field(default_factory=dict)
    # The answers to the newest batches.
    answers: dict[int, _Answer] = field(default_factory=dict)


class _Answer:
    """Waits for all owners that got a part of a batch."""

    def __init__(self, executor: ExecutorProcess, batch: int, sources: Sequence[int]) -> None:
        self._executor = executor
        self._batch = batch
        self.sources = Counter(sources)
        self.losses: Losses = {}
        self.waiting = 1
        # Called at the end if the executor has left before the answer.
        self.late: Callable[[_Answer], None] | None = None

    def done(self, losses: Losses) -> None:
        for source, records in losses.items():
            self.losses[source] = self.losses.get(source, 0) + records
        self.waiting -= 1
        if self.waiting:
            return
        lost = [pb.TapLoss(source=s, records=n) for s, n in self.losses.items() if n]
        taken = pb.TapsTaken(batch=self._batch, losses=lost)
        self._executor.connection.tell(pb.ToExecutor(taps_taken=taken))
        if self.late is not None:
            self.late(self)


class TapRegistry:
    def __init__(self) -> None:
        # The hub's owner may choose a name that is the same after a restart.
        self.server = uuid.uuid4().hex
        self._owners: dict[str, _Owner] = {}
        self._by_uid: dict[str, str] = {}
        self._once: set[str] = set()
        # By identity, processes in which taps are silent until records on the way have come; and
        # processes in which they were removed, though others still have them.
        self._silent: set[tuple[str, str]] = set()
        self._away: set[tuple[str, str]] = set()
        self._streams: dict[int, _Stream] = {}
        self._statuses: dict[str, dict[int, pb.TapStatus]] = {}
        # Called when a sink has taken records that an executor, now gone, had counted as lost.
        self.on_late: Callable[[ExecutorProcess, str, pb.TapStatus], None] = lambda *_: None
        # Executors get the list from the first tap on, even when it is empty again.
        self._used = False

    # ---- the list of taps ------------------------------------------------------------------------

    def replace(self, owner: str, taps: Sequence[Wanted], taker: Taker) -> None:
        """Replaces all taps of the owner."""
        self._used = True
        self._owners[owner] = _Owner(tuple(taps), taker)
        self._index()
        # It may be for sources that are already known.
        mine = {wanted.tap.uid for wanted in taps}
        for stream in self._streams.values():
            for source in stream.sources.values():
                if source.tap in mine:
                    taker.source(stream.executor, source)

    def use(self, server: str) -> None:
        """Names the server; executors know by the name which taps it has set before."""
        self.server = server
        self._used = True

    def drop(self, user: str) -> bool:
        """Removes the taps whose owner begins with it; returns whether there were some."""
        gone = [owner for owner in self._owners if owner.startswith(user)]
        for owner in gone:
            del self._owners[owner]
        self._index()
        return bool(gone)

    def remove(self, uids: Sequence[str]) -> None:
        """Removes these taps of any owner."""
        for owner in self._owners.values():
            if mine := [each.tap.uid for each in owner.taps if each.tap.uid in uids]:
                owner.taps = tuple(each for each in owner.taps if each.tap.uid not in mine)
                owner.taker.removed(mine)
        self._index()

    def silence(self, uids: Sequence[str], executors: Sequence[ExecutorProcess]) -> None:
        """Stops recording there until they are removed."""
        self._silent |= {(uid, each.hello.identity) for uid in uids for each in executors}

    def remove_from(
        self, executor: ExecutorProcess, uids: Sequence[str], others: Sequence[ExecutorProcess]
    ) -> None:
        """Removes the taps in these processes; altogether when no other process has them."""
        here = executor.hello.identity
        wanted = {each.tap.uid: each for owner in self._owners.values() for each in owner.taps}
        self._away |= {(uid, here) for uid in uids}
        for uid in uids:
            self._statuses.get(uid, {}).pop(executor.id, None)
        left = {
            uid
            for uid in uids
            if uid in wanted
            and not wanted[uid].identity
            and any((uid, each.hello.identity) not in self._away for each in others)
        }
        self.remove([uid for uid in uids if uid not in left])

    def continue_elsewhere(
        self, executor: ExecutorProcess, last: Mapping[str, pb.TapStatus]
    ) -> None:
        """The executor forgets its taps and gets them anew: limits go on where they were.

        `last` has the last statuses of the taps, by uid.
        """
        here = executor.hello.identity
        for owner in self._owners.values():
            passed = time.monotonic() - owner.since
            for wanted in owner.taps:
                tap, status = wanted.tap, last.get(wanted.tap.uid)
                if status is None:
                    continue
                if status.ended or 0 < tap.count <= status.counts.produced:
                    self._away.add((tap.uid, here))
                elif tap.count:
                    tap.count -= status.counts.produced
                if tap.seconds:
                    tap.seconds = max(tap.seconds - passed, 0.001)
            owner.since = time.monotonic()

    @property
    def uids(self) -> list[str]:
        """Of all taps of all users."""
        return list(self._by_uid)

    def bring_back(self, owner: str) -> None:
        """The owner's settings have changed: sets removed taps again in their processes."""
        self._away = {each for each in self._away if self.owner(each[0]) != owner}

    def _index(self) -> None:
        self._by_uid = {
            wanted.tap.uid: name for name, owner in self._owners.items() for wanted in owner.taps
        }
        for uid in self._statuses.keys() - self._by_uid.keys():
            del self._statuses[uid]
        self._silent = {each for each in self._silent if each[0] in self._by_uid}
        self._away = {each for each in self._away if each[0] in self._by_uid}
        over = self._once - self._by_uid.keys()
        self._once = {
            each.tap.uid for owner in self._owners.values() for each in owner.taps if each.once
        }
        for stream in self._streams.values():
            self._forget_sources(stream, over)

    def _forget_sources(self, stream: _Stream, over: set[str]) -> None:
        left = {n: s.tap for n, s in stream.sources.items() if s.tap not in self._by_uid}
        numbers = [number for number, uid in left.items() if uid in over]
        rest = [number for number, uid in left.items() if uid not in over]
        numbers += rest[: max(0, len(rest) - MAX_ORPHANS)]
        for number in numbers:
            del stream.sources[number]
        for owner in self._owners.values() if numbers else ():
            owner.taker.forget_sources(stream.executor, numbers)

    def message(self, executor: ExecutorProcess) -> pb.SetTaps | None:
        """The list for an executor; None when there never was a tap."""
        if not self._used:
            return None
        here = executor.hello.identity
        message = pb.SetTaps(server=self.server)
        for wanted in (each for owner in self._owners.values() for each in owner.taps):
            if wanted.identity in ("", here) and (wanted.tap.uid, here) not in self._away:
                message.taps.append(wanted.tap)
                message.taps[-1].disabled |= (wanted.tap.uid, here) in self._silent
        return message

    def owner(self, uid: str) -> str:
        return self._by_uid.get(uid, "")

    # ---- statuses from executors -----------------------------------------------------------------

    def statuses(self, user: str) -> list[tuple[int, pb.TapStatus]]:
        """The statuses of the user's taps, with the executors' numbers."""
        return [
            (executor, status)
            for uid, by_executor in self._statuses.items()
            if self.owner(uid).startswith(user)
            for executor, status in by_executor.items()
        ]

    def report(
        self, executor: ExecutorProcess, statuses: Sequence[pb.TapStatus]
    ) -> dict[str, list[pb.TapStatus]]:
        """Takes an executor's statuses; returns them by owner."""
        owners: dict[str, list[pb.TapStatus]] = {}
        for status in statuses:
            if owner := self.owner(status.uid):
                self._statuses.setdefault(status.uid, {})[executor.id] = status
                owners.setdefault(owner, []).append(status)
        return owners

    def known(self, executor: ExecutorProcess, uids: Sequence[str]) -> list[pb.TapStatus]:
        """The executor's last statuses of these taps."""
        found = (self._statuses.get(uid, {}).get(executor.id) for uid in uids)
        return [status for status in found if status is not None]

    def _status(self, executor: ExecutorProcess, uid: str) -> pb.TapStatus:
        """The known status; the executor may not have sent one on this stream."""
        owner = self._owners.get(self.owner(uid))
        if owner is None:
            return pb.TapStatus()
        known = self._statuses.setdefault(uid, {})
        if executor.id not in known:
            tap = next(wanted.tap for wanted in owner.taps if wanted.tap.uid == uid)
            known[executor.id] = pb.TapStatus(uid=uid, name=tap.name, who=tap.who)
        return known[executor.id]

    def refused(self, executor: ExecutorProcess, message: str) -> list[pb.TapStatus]:
        """The statuses when the executor accepts no taps."""
        wanted = self.message(executor)
        return [
            pb.TapStatus(uid=tap.uid, name=tap.name, who=tap.who, ended=message)
            for tap in (wanted.taps if wanted is not None else ())
        ]

    # ---- records ---------------------------------------------------------------------------------

    def source(self, executor: ExecutorProcess, source: pb.TapSource) -> None:
        self._stream(executor).sources[source.source] = source
        if (owner := self._owners.get(self.owner(source.tap))) is not None:
            owner.taker.source(executor, source)

    def records(self, executor: ExecutorProcess, records: pb.TapRecords) -> None:
        stream = self._stream(executor)
        for counts in records.counts:
            self._status(executor, counts.uid).counts.CopyFrom(counts)
        owners: dict[str, set[int]] = {}
        for number in set(records.source):
            told = stream.sources.get(number)
            owners.setdefault(self.owner(told.tap) if told is not None else "", set()).add(number)
        stream.batch, stream.whole, stream.places = records.batch, None, {}
        answer = _Answer(executor, records.batch, records.source)
        stream.answers[records.batch] = answer
        if len(stream.answers) > MAX_ANSWERS:
            del stream.answers[next(iter(stream.answers))]
        if len(owners) == 1 and "" not in owners:
            (stream.whole,) = owners
            self._owners[stream.whole].taker.records(executor, records, answer.done)
            return
        for owner, numbers in owners.items():
            index = [i for i, number in enumerate(records.source) if number in numbers]
            answer.waiting += 1
            part = _part(records, index)
            if owner and part is not None:
                stream.places.update({old: (owner, new) for new, old in enumerate(index)})
                self._owners[owner].taker.records(executor, part, answer.done)
            else:
                answer.done(_count(records.source, numbers))
        answer.done({})

    def left(self, executor: ExecutorProcess, batches: Sequence[int]) -> None:
        """The executor's last message: these batches got no answer in time; they are left over."""
        stream = self._stream(executor)
        uids = {number: source.tap for number, source in stream.sources.items()}
        last = {uid: self._status(executor, uid) for uid in set(uids.values())}
        # Before the sinks are done the owner may remove the tap.
        owners = {uid: self.owner(uid) for uid in last}

        def put_right(answer: _Answer) -> None:
            for number, records in answer.sources.items():
                if (uid := uids.get(number, "")) not in last:
                    continue
                counts, lost = last[uid].counts, answer.losses.get(number, 0)
                counts.at_exit -= min(records, counts.at_exit)
                counts.delivered += records - lost
                counts.sink += lost
                self.on_late(executor, owners[uid], last[uid])

        for batch in batches:
            if (answer := stream.answers.get(batch)) is None:
                continue  # The batch never came.
            if answer.waiting:
                answer.late = put_right
            else:
                put_right(answer)

    def piece(self, executor: ExecutorProcess, piece: pb.TapPiece) -> None:
        stream = self._stream(executor)
        if piece.batch != stream.batch:
            return
        owner, record = stream.places.get(piece.record, (stream.whole or "", piece.record))
        if owner in self._owners:
            piece.record = record
            self._owners[owner].taker.piece(executor, piece)

    def lost(self, executor: ExecutorProcess) -> dict[str, list[pb.TapStatus]]:
        """The executor is gone; returns the last statuses of its taps, by owner."""
        self._streams.pop(executor.id, None)
        last: dict[str, list[pb.TapStatus]] = {}
        for uid, statuses in self._statuses.items():
            if executor.id in statuses:
                last.setdefault(self.owner(uid), []).append(statuses.pop(executor.id))
        for owner in self._owners.values():
            owner.taker.gone(executor)
        return last

    def _stream(self, executor: ExecutorProcess) -> _Stream:
        if executor.id not in self._streams:
            self._streams[executor.id] = _Stream(executor)
        return self._streams[executor.id]


def _part(records: pb.TapRecords, index: Sequence[int]) -> pb.TapRecords | None:
    """Some of its records; None when its columns do not fit together."""
    part = pb.TapRecords(batch=records.batch)
    for name in _COLUMNS:
        column = getattr(records, name)
        if len(column) not in (0, len(records.source)):
            return None
        if column:
            getattr(part, name).extend([column[i] for i in index])
    places = {old: new for new, old in enumerate(index)}
    for extra in records.extras:
        if extra.record in places:
            copy = part.extras.add()
            copy.CopyFrom(extra)
            copy.record = places[extra.record]
    return part


def _count(sources: Sequence[int], numbers: set[int]) -> Losses:
    losses: Losses = dict.fromkeys(numbers, 0)
    for number in sources:
        if number in losses:
            losses[number] += 1
    return losses
