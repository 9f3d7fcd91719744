"""Compiled programs as the protocol's modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.framing import Json
from opstep_server.dap.protocol.request_arguments import Arguments
from opstep_server.dap.protocol.request_rules import request
from opstep_server.debugger import ExecutorProcess, ProgramRef
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

_COLUMNS: list[types.ColumnDescriptor] = [
    {"attributeName": "ops", "label": "Ops", "type": "number"},
    {"attributeName": "bytes", "label": "Bytes", "type": "number"},
    {"attributeName": "compileMs", "label": "Compile ms", "type": "number"},
]


class Modules:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        # By executor and program, the module that the client knows.
        self._told: dict[tuple[int, int], Json] = {}

    @request(supportsModulesRequest=True, additionalModuleColumns=_COLUMNS)
    async def modules_request(self, arguments: Arguments) -> Json:
        start = arguments.natural("startModule", 0)
        count = arguments.natural("moduleCount", 0)
        modules = [self._module(ref) for ref in self._session.debugger.programs]
        chosen = modules[start : start + count] if count else modules[start:]
        return {"modules": chosen, "totalModules": len(modules)}

    def compiled(self, executor: ExecutorProcess, program: pb.ProgramEvent) -> None:
        key = (executor.id, program.program)
        reason = "changed" if key in self._told else "new"
        self._told[key] = self._module(ProgramRef(executor, program))
        self._session.outbox.event("module", {"reason": reason, "module": self._told[key]})

    def lost(self, executor: ExecutorProcess) -> None:
        for key in [key for key in self._told if key[0] == executor.id]:
            body = {"reason": "removed", "module": self._told.pop(key)}
            self._session.outbox.event("module", body)

    def _module(self, ref: ProgramRef) -> Json:
        program = ref.event
        return {
            "id": f"{ref.executor.id}:{program.program}",
            "name": program.name,
            "version": str(program.version),
            "ops": program.op_count,
            "bytes": program.planned_bytes,
            "compileMs": round(program.compile_ms, 3),
        }
