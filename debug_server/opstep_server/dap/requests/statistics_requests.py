"""Our own requests for views that colour ops by statistics from a tap."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from opstep_server.dap.protocol.framing import Json
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, request
from opstep_server.dap.requests.graph_requests import find_program
from opstep_server.model import ExecutorProcess
from opstep_server.tap_api import who
from opstep_server.taps.latest_records import LatestRecord, LatestRecords
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession


class StatisticsRequests:
    """The tap exists only while the client wants it, so that other runs cost nothing."""

    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        self._latest: LatestRecords | None = None

    def compiled(self, executor: ExecutorProcess, program: pb.ProgramEvent) -> None:
        if self._latest is not None:
            self._latest.forget(executor.id, program.program)

    @request()
    async def opstepTap_request(self, arguments: Arguments) -> Json:
        every = arguments.natural("every", 1)
        if not every:
            raise RequestError("arguments.every must be 1 or more: statistics of every Nth run")
        if arguments.boolean("on"):
            self._latest = await self._session.debugger.watch(every, who("opstep dap"))
        else:
            self._latest = None
            await self._session.debugger.unwatch()
        return {"on": self._latest is not None, **self._problem()}

    @request(run=Run.BESIDE)
    async def opstepTapStatistics_request(self, arguments: Arguments) -> Json:
        ref = find_program(self._session, arguments.string("program"))
        since = arguments.natural("since", 0)
        latest = self._latest
        if latest is None:
            raise RequestError("no statistics are kept: ask for 'opstepTap' with on = true first")
        told = latest.of(ref.executor.id, ref.event.program, since)
        return {
            "number": latest.number,
            "statistics": [_figures(each) for each in told],
            **self._problem(),
        }

    def _problem(self) -> Json:
        problem = self._session.debugger.unwatchable()
        return {"problem": problem} if problem else {}


def _figures(told: LatestRecord) -> Json:
    figures = dict(told.figures)
    body: Json = {"op": told.op, "variable": told.variable, "run": figures.pop("step")}
    # JSON has no NaN: without finite elements the numbers are left out.
    if figures["nan"] + figures["inf"] >= figures["count"]:
        for name in ("min", "max", "mean", "std", "l2"):
            del figures[name]
    body.update({name: value for name, value in figures.items() if math.isfinite(value)})
    return body
