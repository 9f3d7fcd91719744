"""Requests that resume threads, and `pause`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, cast

from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, When, request
from opstep_server.dap.stops import Stop
from opstep_server.debugger import DebuggerError, ResumeMode, StepUnit
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

_GRANULARITIES = ("statement", "line", "instruction")
_OP_STEPS = ("over", "into", "out", "iteration", "run")


class ExecutionRequests:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session

    @request()
    async def threads_request(self, arguments: Arguments) -> types.ThreadsResponseBody:
        threads = self._session.debugger.threads
        several = len(self._session.debugger.executors) > 1
        names = [f"{t.name} ({t.executor.pid})" if several else t.name for t in threads]
        return {"threads": [{"id": t.id, "name": n} for t, n in zip(threads, names, strict=True)]}

    @request(When.STOPPED, ends_inspection=True, supportsSingleThreadExecutionRequests=True)
    async def continue_request(self, arguments: Arguments) -> types.ContinueResponseBody:
        self._session.cursor_lines.check_continue()
        await self._resume(arguments, "continue", "line")
        return {"allThreadsContinued": not arguments.boolean("singleThread", False)}

    @request(When.STOPPED, ends_inspection=True, supportsSteppingGranularity=True)
    async def next_request(self, arguments: Arguments) -> None:
        await self._resume(arguments, "over", _unit(arguments))

    @request(When.STOPPED, ends_inspection=True)
    async def stepIn_request(self, arguments: Arguments) -> None:
        block = arguments.optional_integer("targetId")
        if block is not None:
            stop = self._session.stops.get(arguments.integer("threadId"))
            if block not in _blocks(stop.stopped.frames[0]):
                raise RequestError(f"the op runs no block {block}: ask for the targets again")
        await self._resume(arguments, "into", _unit(arguments), block or 0)

    @request(When.STOPPED, Run.INSPECTION, supportsStepInTargetsRequest=True)
    async def stepInTargets_request(self, arguments: Arguments) -> types.StepInTargetsResponseBody:
        frame = self._session.stops.frame(arguments.integer("frameId")).frame
        if frame is None or frame.kind != pb.StackFrame.OP:
            return {"targets": []}
        targets: list[types.StepInTarget] = [
            {"id": block, "label": f"{frame.op.name}, {name} (block {block})"}
            for block, name in _blocks(frame).items()
        ]
        return {"targets": targets}

    @request(When.STOPPED, ends_inspection=True)
    async def stepOut_request(self, arguments: Arguments) -> None:
        await self._resume(arguments, "out", _unit(arguments))

    @request(When.STOPPED, ends_inspection=True)
    async def opstepResume_request(self, arguments: Arguments) -> None:
        """Resumes by ops, in ways that the protocol has no request for; sends `continued`."""
        stop = self._session.stops.get(arguments.integer("threadId"))
        mode = cast(ResumeMode, arguments.one_of("mode", _OP_STEPS, "over"))
        others = self._others(arguments, stop)
        await self._session.debugger.resume(stop.thread.id, mode, "op")
        await self._release(others)

    @request()
    async def pause_request(self, arguments: Arguments) -> None:
        thread_id = arguments.integer("threadId")
        threads = self._session.debugger.threads
        if any(thread.id == thread_id for thread in threads):
            await self._session.debugger.pause(thread_id)
        elif not threads or thread_id == 0:
            # No op ran yet, or the client knows no thread: pause the one that runs an op next.
            await self._session.debugger.pause()
        else:
            raise RequestError(f"there is no thread {thread_id}")

    async def _resume(
        self, arguments: Arguments, mode: ResumeMode, unit: StepUnit, block: int = 0
    ) -> None:
        stops = self._session.stops
        stop = stops.get(arguments.integer("threadId"))
        others = self._others(arguments, stop)
        stops.leave(stop.thread.id)
        try:
            await self._session.debugger.resume(stop.thread.id, mode, unit, block)
        except BaseException:
            if stop.thread.stopped is stop.stopped:
                stops.enter(stop.thread, stop.stopped)
            raise
        await self._release(others)

    def _others(self, arguments: Arguments, stop: Stop) -> list[Stop]:
        """The other stops that end too; threads that stop later stay stopped."""
        alone = arguments.boolean("singleThread", False)
        return [] if alone else [other for other in self._session.stops.all if other is not stop]

    async def _release(self, others: list[Stop]) -> None:
        """Resumes these threads; sends `continued` for each."""
        for other in others:
            # It may have gone on, ended, or stopped again by itself.
            if other.thread.stopped is other.stopped:
                with contextlib.suppress(DebuggerError):
                    await self._session.debugger.resume(other.thread.id, "continue")


def _blocks(frame: pb.StackFrame) -> dict[int, str]:
    """The blocks that the op is about to run, with the op's names for them."""
    if frame.after:
        return {}
    return {run.block: run.name for run in sorted(frame.op.blocks, key=lambda run: run.block)}


def _unit(arguments: Arguments) -> StepUnit:
    granularity = arguments.one_of("granularity", _GRANULARITIES, "statement")
    return "op" if granularity == "instruction" else "line"
