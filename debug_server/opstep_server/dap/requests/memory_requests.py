"""Requests for tensors as bytes; each tensor on display has its own address."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from opstep_server import assignment
from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, When, request
from opstep_server.dap.stops import Stop
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

MAX_READ = 64 << 20


class MemoryRequests:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session

    @request(When.STOPPED, Run.INSPECTION, supportsReadMemoryRequest=True)
    async def readMemory_request(self, arguments: Arguments) -> types.ReadMemoryResponseBody:
        base, ref = self._session.stops.remembered(arguments.string("memoryReference"))
        offset, count = arguments.integer("offset", 0), arguments.natural("count")
        if count > MAX_READ:
            raise RequestError(f"{count} bytes are too many at once: at most {MAX_READ}")
        if offset < 0:
            # There is nothing before the tensor.
            return {"address": f"{max(base + offset, 0):#x}", "unreadableBytes": count}
        data, _ = await self._session.debugger.read_bytes(
            ref.stop.thread.id, ref.frame, ref.expr, min(offset, 1 << 62), count
        )
        body: types.ReadMemoryResponseBody = {
            "address": f"{base + offset:#x}",
            "data": base64.b64encode(data).decode(),
        }
        if len(data) < count:
            body["unreadableBytes"] = count - len(data)
        return body

    @request(When.STOPPED, supportsWriteMemoryRequest=True)
    async def writeMemory_request(self, arguments: Arguments) -> types.WriteMemoryResponseBody:
        _, ref = self._session.stops.remembered(arguments.string("memoryReference"))
        offset = arguments.natural("offset", 0)
        try:
            data = base64.b64decode(arguments.string("data"), validate=True)
        except (binascii.Error, ValueError):
            raise RequestError("arguments.data is not base64") from None
        debugger, thread = self._session.debugger, ref.stop.thread.id
        if arguments.boolean("allowPartial", False):
            _, total = await debugger.read_bytes(thread, ref.frame, ref.expr, 0, 0)
            data = data[: max(total - offset, 0)]
        if data:
            await debugger.write_bytes(thread, ref.frame, ref.expr, offset, data)
            self.edited(ref.stop, ref.expr, offset, len(data))
        return {"offset": offset, "bytesWritten": len(data)}

    def edited(self, stop: Stop, target: pb.Expr, offset: int = 0, count: int = 0) -> None:
        """Reports the bytes on the client's screen that may have changed."""
        client, outbox = self._session.client, self._session.outbox
        variable = assignment.root(target)
        if client.memory:
            for reference, ref in self._session.stops.memory_of(stop.thread.id):
                if assignment.root(ref.expr) != variable:
                    continue
                # In other views of the variable the position of the change is not computed.
                exact = count and ref.expr == target
                body: types.MemoryEventBody = {
                    "memoryReference": reference,
                    "offset": offset if exact else 0,
                    "count": count if exact else MAX_READ,
                }
                outbox.event("memory", body)
        if client.invalidated:
            outbox.event("invalidated", {"areas": ["variables"], "threadId": stop.thread.id})
