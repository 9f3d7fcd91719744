"""Ops as instructions: one address for each line of a listing that holds an op.

An address has the executor in its upper bits, the program in the middle and the listing's line
below, so that addresses sort as ops are listed and mean the same for the whole session.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, request
from opstep_server.debugger import ProgramRef
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

MAX_INSTRUCTIONS = 10_000
_LINE_BITS = 24
_PROGRAM_BITS = 24


def address(executor: int, program: int, line: int) -> int:
    return ((executor << _PROGRAM_BITS) + program << _LINE_BITS) + line


class Disassembly:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session

    def place(self, reference: str, offset: int = 0) -> tuple[ProgramRef, int]:
        """The program and the listing's line that the address stands for."""
        try:
            number = int(reference, 16 if reference.lower().startswith("0x") else 10) + offset
        except ValueError:
            raise RequestError(f"'{reference}' is not an address of an op") from None
        upper, line = divmod(number, 1 << _LINE_BITS)
        executor, program = divmod(upper, 1 << _PROGRAM_BITS)
        found = [ref for ref in self._session.debugger.programs if ref.event.program == program]
        if not found:
            raise RequestError(f"'{reference}' is an address in no program of this session")
        # After a restart the same program is in a process with another number.
        same = [ref for ref in found if ref.executor.id == executor]
        return (same or found)[-1], line

    async def op_at(self, reference: str, offset: int) -> tuple[ProgramRef, pb.OpInfo]:
        ref, line = self.place(reference, offset)
        for op in await self._session.debugger.ops(ref):
            if op.listing_line == line:
                return ref, op
        raise RequestError(f"program '{ref.event.name}' has no op on line {line}")

    @request(run=Run.INSPECTION, supportsDisassembleRequest=True)
    async def disassemble_request(self, arguments: Arguments) -> types.DisassembleResponseBody:
        count = arguments.natural("instructionCount")
        if count > MAX_INSTRUCTIONS:
            raise RequestError(f"{count} instructions are too many: at most {MAX_INSTRUCTIONS}")
        ref, line = self.place(arguments.string("memoryReference"), arguments.integer("offset", 0))
        ops = sorted(await self._session.debugger.ops(ref), key=lambda op: op.listing_line)
        listing = await self._session.debugger.listing(ref)
        # The op at the address, or the first op after it.
        base = sum(op.listing_line < line for op in ops)
        first = base + arguments.integer("instructionOffset", 0)
        rows = [self._row(ref, ops, listing, at) for at in range(first, first + count)]
        return {"instructions": rows}

    def _row(
        self, ref: ProgramRef, ops: list[pb.OpInfo], listing: list[str], at: int
    ) -> types.DisassembledInstruction:
        executor, program = ref.executor.id, ref.event.program
        if not 0 <= at < len(ops):
            # Outside the program: addresses that go on counting, without instructions.
            line = at + 1 if at < 0 else len(listing) + 1 + at - len(ops)
            filler = max(address(executor, program, line), 0)
            return {
                "address": f"{filler:#x}",
                "instruction": "(no op)",
                "presentationHint": "invalid",
            }
        op = ops[at]
        row: types.DisassembledInstruction = {
            "address": f"{address(executor, program, op.listing_line):#x}",
            "instruction": listing[op.listing_line - 1].strip(),
            "symbol": op.name,
        }
        if op.stack:
            made = op.stack[0]
            row["location"] = {"name": os.path.basename(made.file), "path": made.file}
            row["line"] = self._session.client.line(made.line)
        else:
            row["location"] = self._session.sources.listing(ref)
            row["line"] = self._session.client.line(op.listing_line)
        return row
