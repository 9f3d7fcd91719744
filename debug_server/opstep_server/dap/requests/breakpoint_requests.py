"""Requests that set breakpoints: on lines, on ops by name, on one op, on a variable."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opstep_server.dap.client_breakpoints import Wanted
from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, request
from opstep_server.debugger import (
    BreakpointSpec,
    DataWhere,
    ListingWhere,
    OpWhere,
    PatternWhere,
    SourceWhere,
)

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession


class BreakpointRequests:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session

    @request(
        supportsConditionalBreakpoints=True,
        supportsHitConditionalBreakpoints=True,
        supportsLogPoints=True,
    )
    async def setBreakpoints_request(
        self, arguments: Arguments
    ) -> types.SetBreakpointsResponseBody:
        source = arguments.object("source")
        wanted = arguments.objects("breakpoints")
        program_name = self._session.sources.program_of(source)
        if program_name is not None:
            owner = f"listing:{program_name}"
        else:
            path = os.path.normpath(source.string("path"))
            owner = f"source:{path}"
        gradients = self._session.breakpoints.gradients
        entries: list[Wanted] = []
        for entry in wanted:
            line = self._session.client.our_line(entry.line("line"))
            if program_name is not None:
                spec = BreakpointSpec(ListingWhere(program_name, line))
            else:
                spec = BreakpointSpec(SourceWhere(path, line), gradients=gradients)
            entries.append(_with_conditions(spec, entry))
        told = await self._session.breakpoints.replace(owner, entries)
        if program_name is None:
            self._session.cursor_lines.set(path, entries, told)
        lines = [entry.line("line") for entry in wanted]
        return {"breakpoints": [{**b, "line": line} for b, line in zip(told, lines, strict=True)]}

    @request(supportsFunctionBreakpoints=True)
    async def setFunctionBreakpoints_request(
        self, arguments: Arguments
    ) -> types.SetFunctionBreakpointsResponseBody:
        entries: list[Wanted] = []
        for entry in arguments.objects("breakpoints"):
            pattern = entry.string("name").strip()
            if pattern:
                entries.append(_with_conditions(BreakpointSpec(PatternWhere(pattern)), entry))
            else:
                entries.append("an op type or a pattern over op names is needed")
        return {"breakpoints": await self._session.breakpoints.replace("function", entries)}

    @request(supportsInstructionBreakpoints=True)
    async def setInstructionBreakpoints_request(
        self, arguments: Arguments
    ) -> types.SetInstructionBreakpointsResponseBody:
        wanted = arguments.objects("breakpoints")
        entries: list[Wanted] = []
        for entry in wanted:
            try:
                ref, op = await self._session.disassembly.op_at(
                    entry.string("instructionReference"), entry.integer("offset", 0)
                )
            except RequestError as error:
                entries.append(str(error))
                continue
            spec = BreakpointSpec(OpWhere(ref.event.program, op.id, ref.executor.id))
            entries.append(_with_conditions(spec, entry))
        told = await self._session.breakpoints.replace("instruction", entries)
        return {
            "breakpoints": [
                {**b, "instructionReference": entry.string("instructionReference")}
                for b, entry in zip(told, wanted, strict=True)
            ]
        }

    @request(run=Run.INSPECTION, supportsDataBreakpoints=True)
    async def dataBreakpointInfo_request(
        self, arguments: Arguments
    ) -> types.DataBreakpointInfoResponseBody:
        name = arguments.string("name")
        try:
            variable = await self._session.inspection.variable_of(
                name,
                arguments.optional_integer("variablesReference"),
                arguments.optional_integer("frameId"),
            )
        except RequestError as error:
            return {"dataId": None, "description": str(error)}
        return {
            "dataId": variable,
            "description": f"{variable} is written",
            "accessTypes": ["write"],
            "canPersist": True,
        }

    @request()
    async def setDataBreakpoints_request(
        self, arguments: Arguments
    ) -> types.SetDataBreakpointsResponseBody:
        entries: list[Wanted] = []
        for entry in arguments.objects("breakpoints"):
            access = entry.string("accessType", "write")
            if access == "write":
                spec = BreakpointSpec(DataWhere(entry.string("dataId")))
                entries.append(_with_conditions(spec, entry))
            else:
                entries.append(f"'{access}' cannot be watched: use 'write'")
        return {"breakpoints": await self._session.breakpoints.replace("data", entries)}


def _with_conditions(spec: BreakpointSpec, entry: Arguments) -> BreakpointSpec:
    def text(name: str) -> str | None:
        return (entry.optional_string(name) or "").strip() or None

    spec.condition = text("condition")
    spec.hit_condition = text("hitCondition")
    spec.log_message = text("logMessage")
    return spec
