"""A hub at a real socket, and its guests, with the test as their debugger."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from harness.patience import until_async
from opstep_server.access import Address, Endpoint
from opstep_server.guests import Guests
from opstep_server.hub import Hub
from opstep_server.wire import debug_pb2 as pb


@contextlib.asynccontextmanager
async def shared(path: Any) -> AsyncIterator[tuple[Hub, str]]:
    hub = Hub()
    address = await hub.server.open(Endpoint(Address(path=f"{path}/socket")))
    try:
        yield hub, address
    finally:
        await hub.close()


class Stream:
    """A guest's stream, with the test as its debugger."""

    def __init__(self, guests: Guests, name: str = "a guest") -> None:
        self.told: list[pb.FromExecutor] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self._said: asyncio.Queue[object] = asyncio.Queue()
        self.visit = asyncio.create_task(guests.visit(name, self))

    async def read(self) -> object:
        return await self._said.get()

    async def write(self, message: pb.FromExecutor) -> None:
        await self.reads.wait()
        self.told.append(message)

    def say(self, **message: Any) -> None:
        self._said.put_nowait(pb.ToExecutor(**message))

    def leave(self) -> None:
        self._said.put_nowait(None)

    def of(self, kind: str) -> list[Any]:
        return [getattr(m, kind) for m in self.told if m.WhichOneof("message") == kind]

    async def welcome(self, *patterns: str) -> None:
        """Connects, with breakpoints numbered from 1."""
        await until_async(lambda: self.of("hello"))
        wanted = [pb.Breakpoint(id=id, pattern=p) for id, p in enumerate(patterns, 1)]
        self.say(welcome=pb.Welcome(breakpoints=pb.SetBreakpoints(breakpoints=wanted)))
        self.say(command=pb.Command(id=1, set_presence=pb.SetPresence(present=True)))
        await until_async(lambda: self.of("reply"))
