"""Progress of requests that take long, for clients that show it."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from opstep_server.dap.protocol import types

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession, Pending

START_SECONDS = 0.5
UPDATE_SECONDS = 1.0


class Progress:
    """One timer for each request under way; most end before it fires."""

    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        self._ids = itertools.count(1)
        self._timers: dict[Pending, asyncio.TimerHandle] = {}
        self._shown: dict[Pending, str] = {}

    def begin(self, pending: Pending) -> None:
        loop = asyncio.get_running_loop()
        self._timers[pending] = loop.call_later(START_SECONDS, self._start, pending)

    def end(self, pending: Pending) -> None:
        timer = self._timers.pop(pending, None)
        if timer is not None:
            timer.cancel()
        progress = self._shown.pop(pending, None)
        if progress is not None:
            self._session.outbox.event("progressEnd", {"progressId": progress})

    def find(self, progress: str) -> Pending | None:
        return next((p for p, id in self._shown.items() if id == progress), None)

    def _start(self, pending: Pending) -> None:
        progress = self._shown[pending] = f"progress {next(self._ids)}"
        body: types.ProgressStartEventBody = {
            "progressId": progress,
            "title": f"opstep: {pending.command}",
            "requestId": pending.seq,
            "cancellable": True,
        }
        self._session.outbox.event("progressStart", body)
        self._tick(pending, START_SECONDS)

    def _tick(self, pending: Pending, seconds: float) -> None:
        def update() -> None:
            body = {"progressId": self._shown[pending], "message": f"{seconds:g} s"}
            self._session.outbox.event("progressUpdate", body)
            self._tick(pending, seconds + UPDATE_SECONDS)

        seconds += UPDATE_SECONDS
        self._timers[pending] = asyncio.get_running_loop().call_later(UPDATE_SECONDS, update)
