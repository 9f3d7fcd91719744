"""The adapter on stdin and stdout: `python -m opstep_server dap`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import IO

from opstep_server.dap.session import Session
from opstep_server.debugger import Debugger


def main() -> int:
    """Serves one client; 0 when it left in order, 1 when its messages could not be read."""
    protocol_in, protocol_out = _take_stdio()
    problem = asyncio.run(_serve(protocol_in, protocol_out))
    if problem is not None:
        print(f"opstep: {problem}", file=sys.stderr)
        return 1
    return 0


def _take_stdio() -> tuple[IO[bytes], IO[bytes]]:
    """Keeps the protocol's streams to itself: a stray print or a child must not get between."""
    protocol_in = os.fdopen(os.dup(0), "rb", buffering=0)
    protocol_out = os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return protocol_in, protocol_out


async def _serve(protocol_in: IO[bytes], protocol_out: IO[bytes]) -> str | None:
    loop = asyncio.get_running_loop()
    debugger = Debugger()
    try:
        output_transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, protocol_out)
        session = Session(output_transport, debugger)
        input_transport, _ = await loop.connect_read_pipe(lambda: _Input(session), protocol_in)
    except ValueError:
        return "the adapter's stdin and stdout must be pipes: an editor starts it"
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # The same as a client that vanished.
            loop.add_signal_handler(number, session.leave)
        problem = await session.serve()
    finally:
        with contextlib.suppress(Exception):
            await debugger.close()
        output_transport.close()
        input_transport.close()
    await _flush(output_transport)
    return problem


class _Input(asyncio.Protocol):
    """Hands on what comes at once: a reading task would be a turn of the loop late."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def data_received(self, data: bytes) -> None:
        self._session.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._session.end()


async def _flush(transport: asyncio.WriteTransport) -> None:
    """The last response goes out before the process ends; a client that does not read loses it."""
    for _ in range(100):
        if transport.get_write_buffer_size() == 0:
            return
        await asyncio.sleep(0.01)
