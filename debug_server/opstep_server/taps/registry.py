"""The registry of all users' taps: one list for executors, records to who set the tap."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from opstep_server.model import ExecutorProcess
from opstep_server.wire import debug_pb2 as pb

# More batches than an executor sends ahead of their answers.
MAX_ANSWERS = 1000
# Executors tell of a source once, even if its tap goes and comes again: so many are kept for that.
MAX_ORPHANS = 50_000
# By a source's number, how many of its records no sink took.
Losses = dict[int, int]
_COLUMNS = (
    "source", "step", "iteration", "time", "thread",
    "count", "min", "max", "mean", "std", "l2", "nan", "inf", "zeros",
)  # fmt: skip


class Taker(Protocol):
    """Who set a tap; called on the event loop, in the order of the stream."""

    def source(self, executor: ExecutorProcess, source: pb.TapSource) -> None: ...

    def records(
        self, executor: ExecutorProcess, records: pb.TapRecords, done: Callable[[Losses], None]
    ) -> None:
        """`done` is to be called once, when its sinks have taken or lost all of them."""

    def piece(self, executor: ExecutorProcess, piece: pb.TapPiece) -> None: ...

    def gone(self, executor: ExecutorProcess) -> None: ...

    def removed(self, uids: Sequence[str]) -> None:
        """Somebody took these of his taps away."""

    def forget_sources(self, executor: ExecutorProcess, sources: Sequence[int]) -> None:
        """Nothing comes of these any more, whoever had them."""


@dataclass(frozen=True)
class Wanted:
    tap: pb.Tap
    # Of the process that is to have it; "": all.
    identity: str = ""
    # When it is gone no other tap will have its uid.
    once: bool = False


@dataclass
class _Owner:
    taps: tuple[Wanted, ...]
    taker: Taker


@dataclass
class _Stream:
    """What one executor has told."""

    executor: ExecutorProcess
    sources: dict[int, pb.TapSource] = field(default_factory=dict)
    # Of the last batch: where its records went, and as which there. None: all to that owner.
    batch: int = 0
    whole: str | None = None
    places: dict[int, tuple[str, int]] = field(default_factory=dict)
    # Of the newest batches.
    answers: dict[int, _Answer] = field(default_factory=dict)


class _Answer:
    """Waits for all who got a part of a batch."""

    def __init__(self, executor: ExecutorProcess, batch: int, sources: Sequence[int]) -> None:
        self._executor = executor
        self._batch = batch
        self.sources = Counter(sources)
        self.losses: Losses = {}
        self.waiting = 1
        # Also told when it is over: the executor has left without an answer.
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
        # The same after a restart with the same settings, if whoever owns the hub says so.
        self.server = uuid.uuid4().hex
        self._owners: dict[str, _Owner] = {}
        self._by_uid: dict[str, str] = {}
        self._once: set[str] = set()
        # In which processes, by identity, taps are silent until what is on the way has come; and in
        # which somebody took them away, though others still have them.
        self._silent: set[tuple[str, str]] = set()
        self._away: set[tuple[str, str]] = set()
        self._streams: dict[int, _Stream] = {}
        self._statuses: dict[str, dict[int, pb.TapStatus]] = {}
        # Told when a sink has taken records that the executor, which is gone, had given up.
        self.on_late: Callable[[ExecutorProcess, str, pb.TapStatus], None] = lambda *_: None
        # Executors are told of taps from the first one on, also when there is none any more.
        self._used = False

    # ---- what is set -----------------------------------------------------------------------------

    def replace(self, owner: str, taps: Sequence[Wanted], taker: Taker) -> None:
        """Makes these all that the owner has."""
        self._used = True
        self._owners[owner] = _Owner(tuple(taps), taker)
        self._index()
        # It may be for sources that were told of before.
        mine = {wanted.tap.uid for wanted in taps}
        for stream in self._streams.values():
            for source in stream.sources.values():
                if source.tap in mine:
                    taker.source(stream.executor, source)

    def use(self, server: str) -> None:
        """The server has a name by which executors know what it has set before."""
        self.server = server
        self._used = True

    def drop(self, user: str) -> bool:
        """Those whose owner begins with it; whether there were some."""
        gone = [owner for owner in self._owners if owner.startswith(user)]
        for owner in gone:
            del self._owners[owner]
        self._index()
        return bool(gone)

    def remove(self, uids: Sequence[str]) -> None:
        """These, whoever has set them."""
        for owner in self._owners.values():
            if mine := [each.tap.uid for each in owner.taps if each.tap.uid in uids]:
                owner.taps = tuple(each for each in owner.taps if each.tap.uid not in mine)
                owner.taker.removed(mine)
        self._index()

    def silence(self, uids: Sequence[str], executors: Sequence[ExecutorProcess]) -> None:
        """Until they are removed, nothing new is recorded there."""
        self._silent |= {(uid, each.hello.identity) for uid in uids for each in executors}

    def remove_from(
        self, executor: ExecutorProcess, uids: Sequence[str], others: Sequence[ExecutorProcess]
    ) -> None:
        """There only; altogether when none of the others has it."""
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

    def bring_back(self, owner: str) -> None:
        """His settings have changed: what was taken away somewhere is set there again."""
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
        """All that it is to have; None when taps were never spoken of."""
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

    # ---- what executors say of them --------------------------------------------------------------

    def statuses(self, user: str) -> list[tuple[int, pb.TapStatus]]:
        """Of his taps, with the executor's number."""
        return [
            (executor, status)
            for uid, by_executor in self._statuses.items()
            if self.owner(uid).startswith(user)
            for executor, status in by_executor.items()
        ]

    def report(
        self, executor: ExecutorProcess, statuses: Sequence[pb.TapStatus]
    ) -> dict[str, list[pb.TapStatus]]:
        """Takes what it says; by owner, what concerns him."""
        owners: dict[str, list[pb.TapStatus]] = {}
        for status in statuses:
            if owner := self.owner(status.uid):
                self._statuses.setdefault(status.uid, {})[executor.id] = status
                owners.setdefault(owner, []).append(status)
        return owners

    def known(self, executor: ExecutorProcess, uids: Sequence[str]) -> list[pb.TapStatus]:
        """What it last said of these."""
        found = (self._statuses.get(uid, {}).get(executor.id) for uid in uids)
        return [status for status in found if status is not None]

    def _status(self, executor: ExecutorProcess, uid: str) -> pb.TapStatus:
        """What is known of it; the executor may not have told of it on this stream."""
        owner = self._owners.get(self.owner(uid))
        if owner is None:
            return pb.TapStatus()
        known = self._statuses.setdefault(uid, {})
        if executor.id not in known:
            tap = next(wanted.tap for wanted in owner.taps if wanted.tap.uid == uid)
            known[executor.id] = pb.TapStatus(uid=uid, name=tap.name, who=tap.who)
        return known[executor.id]

    def refused(self, executor: ExecutorProcess, message: str) -> list[pb.TapStatus]:
        """What to say when the executor takes none of them."""
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
        """Its last word: these were not answered in time, and count there as left over."""
        stream = self._stream(executor)
        uids = {number: source.tap for number, source in stream.sources.items()}
        last = {uid: self._status(executor, uid) for uid in set(uids.values())}
        # As long as sinks work on them their owner may no longer have the tap.
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
                continue  # It never came.
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
        """The executor is gone; by owner, what was last known of his taps there."""
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
