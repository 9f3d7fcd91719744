"""Taps whose records go to sinks of this process: taps of a file and of programs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opstep_server.model import ExecutorProcess
from opstep_server.taps.intake import Index, Intake
from opstep_server.taps.records import Batch
from opstep_server.taps.registry import Losses, Wanted
from opstep_server.taps.settings import Settings, SinkSettings, TapSettings
from opstep_server.taps.sink_pipe import CLOSE_SECONDS, Counts, Mask, Tell
from opstep_server.taps.sink_router import SinkRouter
from opstep_server.taps.sinks.base import Sink
from opstep_server.wire import debug_pb2 as pb


def uid_of(server: str, name: str) -> str:
    """The same uid for the same server and name, so that the tap goes on counting."""
    return hashlib.sha256(f"{server}\0{name}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class RequestedTap:
    """A tap that a program asked for."""

    wanted: Wanted
    tap: TapSettings
    # The tap's own sinks, beside those of the settings.
    sinks: tuple[SinkSettings, ...]
    # The program's keys, so that a change need not repeat them.
    said: dict[str, object]


class LocalSinks:
    """A `Taker` with sinks. Records become batches, batches go to the sinks of their taps."""

    def __init__(self, server: str, who: str, tell: Tell) -> None:
        self.settings = Settings()
        self._server = server
        self._who = who
        self._tell = tell
        self._router = SinkRouter(tell, self.settings.memory)
        self._intakes: dict[int, Intake] = {}
        # By uid.
        self._requested: dict[str, RequestedTap] = {}
        # Taps of the settings that a user removed: they come back with the next settings.
        self._removed: set[str] = set()
        self._disabled = False
        # The only process that gets the taps of the settings; "": all.
        self.only = ""

    @property
    def counts(self) -> dict[str, Counts]:
        """By sink."""
        return self._router.counts

    @property
    def sinks(self) -> list[SinkSettings]:
        """The sinks of the settings, and those that programs asked for."""
        own = (each for asked in self._requested.values() for each in asked.sinks)
        return list({each.name: each for each in (*self.settings.sinks, *own)}.values())

    def use(self, settings: Settings) -> list[Wanted]:
        """Replaces the settings; the result is for the hub."""
        self.settings = settings
        self._removed.clear()
        return self._changed()

    def also(self, sink: str, made: Sink) -> None:
        """Adds a sink beside those of the settings."""
        self._router.add(sink, made)

    def ask(self, uid: str, asked: RequestedTap) -> list[Wanted]:
        self._requested[uid] = asked
        return self._changed()

    def forget(self, uid: str) -> list[Wanted]:
        self._requested.pop(uid, None)
        return self._changed()

    def asked(self, uid: str, identity: str) -> RequestedTap | None:
        """The tap that this process asked for under this uid."""
        found = self._requested.get(uid)
        return found if found is not None and found.wanted.identity == identity else None

    def forget_process(self, identity: str) -> list[Wanted] | None:
        """Removes the taps of a process that is gone; None when it had none."""
        uids = [uid for uid, each in self._requested.items() if each.wanted.identity == identity]
        for uid in uids:
            del self._requested[uid]
        return self._changed() if uids else None

    def stop(self) -> list[Wanted]:
        """Stops recording; records on the way still come."""
        self._disabled = True
        return self._wanted()

    def _changed(self) -> list[Wanted]:
        self._router.replace(self.sinks, self.settings.memory)
        routes = {uid_of(self._server, tap.name): tap.to for tap in self.settings.taps}
        if self._requested:
            # Sinks that a program named are for its taps only.
            everybody = tuple(each.name for each in self.settings.sinks)
            routes = {uid: to or everybody for uid, to in routes.items()}
            routes.update({uid: each.tap.to or everybody for uid, each in self._requested.items()})
        self._router.route(routes)
        return self._wanted()

    def _wanted(self) -> list[Wanted]:
        wanted = []
        for tap in self.settings.taps:
            if (uid := uid_of(self._server, tap.name)) not in self._removed:
                wanted.append(Wanted(message_of(tap, uid, self._who), self.only))
        wanted += [each.wanted for each in self._requested.values()]
        if self._disabled:
            wanted = [replace(each, tap=_disabled(each.tap)) for each in wanted]
        return wanted

    async def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Closes the sinks; records that they have not taken by then are lost."""
        for intake in self._intakes.values():
            intake.give_up()
        await self._router.close(seconds)

    # ---- from the wire ---------------------------------------------------------------------------

    def source(self, executor: ExecutorProcess, source: pb.TapSource) -> None:
        self._intake(executor).source(source)

    def records(
        self, executor: ExecutorProcess, records: pb.TapRecords, done: Callable[[Losses], None]
    ) -> None:
        numbers = np.fromiter(records.source, np.uint32, len(records.source))

        def settled(lost: Mask) -> None:
            found, counts = np.unique(numbers[lost], return_counts=True)
            done(dict(zip(found.tolist(), counts.tolist(), strict=True)))

        def ready(batch: Batch | None, index: Index | None) -> None:
            if batch is None:
                settled(np.ones(len(numbers), np.bool_))
            elif index is None:
                self._router.put(batch, settled)
            else:
                self._router.put(batch, lambda lost: settled(_among(lost, index, len(numbers))))

        self._intake(executor).records(records, ready)

    def piece(self, executor: ExecutorProcess, piece: pb.TapPiece) -> None:
        self._intake(executor).piece(piece)

    def gone(self, executor: ExecutorProcess) -> None:
        if (intake := self._intakes.pop(executor.id, None)) is not None:
            intake.give_up()

    def removed(self, uids: Sequence[str]) -> None:
        for tap in self.settings.taps:
            if (uid := uid_of(self._server, tap.name)) in uids:
                self._removed.add(uid)
                self._tell(
                    f"tap {tap.name} was removed: it stays away until the file of taps changes"
                )
        for uid in uids:
            self._requested.pop(uid, None)
        self._changed()

    def forget_sources(self, executor: ExecutorProcess, sources: Sequence[int]) -> None:
        if (intake := self._intakes.get(executor.id)) is not None:
            intake.forget(sources)

    def _intake(self, executor: ExecutorProcess) -> Intake:
        if executor.id not in self._intakes:
            process = f"{executor.hello.host}:{executor.pid}"
            self._intakes[executor.id] = Intake(process, self.settings.memory)
        return self._intakes[executor.id]


def message_of(tap: TapSettings, uid: str, who: str) -> pb.Tap:
    message = pb.Tap()
    message.CopyFrom(tap.message)
    message.uid, message.who = uid, who
    return message


def _among(lost: Mask, index: Index, length: int) -> Mask:
    """The mask of lost records among all, from the mask of the given part."""
    found: Mask = np.ones(length, np.bool_)
    found[index] = lost
    return found


def _disabled(tap: pb.Tap) -> pb.Tap:
    copy = pb.Tap()
    copy.CopyFrom(tap)
    copy.disabled = True
    return copy
