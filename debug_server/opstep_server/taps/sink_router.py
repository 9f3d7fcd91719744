"""The router of one user's tap records to sinks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from opstep_server.taps.records import Batch
from opstep_server.taps.settings import DEFAULT_MEMORY, SinkSettings
from opstep_server.taps.sink_pipe import CLOSE_SECONDS, Counts, Item, Mask, SinkPipe, Tell, Ticket
from opstep_server.taps.sinks.base import Sink


class SinkRouter:
    def __init__(self, tell: Tell, memory: int = DEFAULT_MEMORY) -> None:
        self._tell = tell
        self._memory = memory
        self._pipes: dict[str, SinkPipe] = {}
        self._settings: dict[str, SinkSettings] = {}
        # By a tap's uid, names of sinks; other taps go to all.
        self._routes: dict[str, tuple[str, ...]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def counts(self) -> dict[str, Counts]:
        return {name: pipe.counts for name, pipe in self._pipes.items()}

    def add(self, name: str, sink: Sink) -> None:
        self._pipes[name] = SinkPipe(name, sink, self._memory, self._tell)

    def replace(self, sinks: Sequence[SinkSettings], memory: int) -> None:
        """Keeps unchanged sinks; closes the others when they are done."""
        wanted = {each.name: each for each in sinks}
        for name, pipe in list(self._pipes.items()):
            if memory != self._memory or wanted.get(name) != self._settings.get(name):
                del self._pipes[name]
                self._settings.pop(name, None)
                task = asyncio.create_task(pipe.close())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
        self._memory = memory
        for name, settings in wanted.items():
            if name not in self._pipes:
                self._settings[name] = settings
                self.add(name, settings.make())

    def route(self, routes: Mapping[str, tuple[str, ...]]) -> None:
        """Sets the sinks of taps, by uid; an empty list means all."""
        self._routes = {uid: to for uid, to in routes.items() if to}

    def put(self, batch: Batch, settled: Callable[[Mask], None]) -> None:
        """Passes the batch to its sinks; `settled` gets the mask of records that none took."""
        ticket = Ticket(len(batch), settled)
        size = batch.bytes
        ticket.waiting += 1  # So that nothing is settled before all sinks have it.
        if not self._routes:
            for pipe in self._pipes.values():
                pipe.put(Item(ticket, batch, None, size))
        else:
            to = [self._routes.get(source.uid) for source in batch.sources]
            for name, pipe in self._pipes.items():
                index = np.array(
                    [i for i, names in enumerate(to) if names is None or name in names], np.intp
                )
                if len(index) == len(batch):
                    pipe.put(Item(ticket, batch, None, size))
                elif len(index):
                    part = batch.part(index)
                    pipe.put(Item(ticket, part, index, part.bytes))
        ticket.waiting -= 1
        ticket.settle()

    async def close(self, seconds: float = CLOSE_SECONDS) -> None:
        pipes, self._pipes = list(self._pipes.values()), {}
        await asyncio.gather(*(pipe.close(seconds) for pipe in pipes), *self._closing)
