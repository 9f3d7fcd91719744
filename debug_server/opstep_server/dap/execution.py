"""Requests that let threads go on, and the one that makes them stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opstep_server.dap.arguments import Arguments, RequestError
from opstep_server.dap.framing import Json
from opstep_server.dap.rules import When, request
from opstep_server.debugger import ResumeMode, StepUnit

if TYPE_CHECKING:
    from opstep_server.dap.session import Session

_GRANULARITIES = ("statement", "line", "instruction")


class Execution:
    def __init__(self, session: Session) -> None:
        self._session = session

    @request()
    async def threads_request(self, arguments: Arguments) -> Json:
        threads = self._session.debugger.threads
        return {"threads": [{"id": thread.id, "name": thread.name} for thread in threads]}

    @request(When.STOPPED, ends_looking=True)
    async def continue_request(self, arguments: Arguments) -> Json:
        await self._resume(arguments, "continue", "line")
        return {"allThreadsContinued": False}

    @request(When.STOPPED, ends_looking=True, supportsSteppingGranularity=True)
    async def next_request(self, arguments: Arguments) -> None:
        await self._resume(arguments, "over", _unit(arguments))

    @request(When.STOPPED, ends_looking=True)
    async def stepIn_request(self, arguments: Arguments) -> None:
        await self._resume(arguments, "into", _unit(arguments))

    @request(When.STOPPED, ends_looking=True)
    async def stepOut_request(self, arguments: Arguments) -> None:
        await self._resume(arguments, "out", _unit(arguments))

    @request()
    async def pause_request(self, arguments: Arguments) -> None:
        thread_id = arguments.integer("threadId")
        threads = self._session.debugger.threads
        if any(thread.id == thread_id for thread in threads):
            await self._session.debugger.pause(thread_id)
        elif not threads:
            # No op ran yet: whichever thread runs the first one.
            await self._session.debugger.pause()
        else:
            raise RequestError(f"there is no thread {thread_id}")

    async def _resume(self, arguments: Arguments, mode: ResumeMode, unit: StepUnit) -> None:
        stops = self._session.stops
        stop = stops.get(arguments.integer("threadId"))
        stops.leave(stop.thread.id)
        try:
            await self._session.debugger.resume(stop.thread.id, mode, unit)
        except BaseException:
            if stop.thread.stopped is stop.stopped:
                stops.enter(stop.thread, stop.stopped)
            raise


def _unit(arguments: Arguments) -> StepUnit:
    granularity = arguments.one_of("granularity", _GRANULARITIES, "statement")
    return "op" if granularity == "instruction" else "line"
