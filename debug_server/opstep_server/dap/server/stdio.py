"""The adapter on stdin and stdout: `python -m opstep_server dap`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import IO

from opstep_server.dap.adapter_session import AdapterSession
from opstep_server.debugger import Debugger

_PIECE = 1 << 16


def main() -> int:
    """Serves one client; 0 when it left in order, 1 when its messages could not be read."""
    protocol_in, protocol_out = _take_stdio()
    problem = asyncio.run(_serve(protocol_in, protocol_out))
    if problem is not None:
        print(f"opstep: {problem}", file=sys.stderr)
        return 1
    return 0


def _take_stdio() -> tuple[IO[bytes], IO[bytes]]:
    """Takes the protocol's streams away from stray prints and child processes."""
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
        session = AdapterSession(output_transport, debugger)
        _hand_on(loop, protocol_in.fileno(), session)
    except (ValueError, PermissionError):
        return "the adapter's stdin and stdout must be pipes: an editor starts it"
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # The same as a client that vanished.
            loop.add_signal_handler(number, session.leave)
        problem = await session.serve()
    finally:
        loop.remove_reader(protocol_in.fileno())
        with contextlib.suppress(Exception):
            await debugger.close()
        output_transport.close()
        protocol_in.close()
    await _flush(output_transport)
    return problem


def _hand_on(loop: asyncio.AbstractEventLoop, descriptor: int, session: AdapterSession) -> None:
    """Passes input to the session at once: a reading task would be one turn late."""

    def readable() -> None:
        try:
            data = os.read(descriptor, _PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            session.feed(data)
        else:
            loop.remove_reader(descriptor)
            session.end()

    os.set_blocking(descriptor, False)
    loop.add_reader(descriptor, readable)


async def _flush(transport: asyncio.WriteTransport) -> None:
    """Sends everything before the process ends, unless the client has stopped reading."""
    unread, waited = transport.get_write_buffer_size(), 0
    while unread and waited < 100:
        await asyncio.sleep(0.01)
        left = transport.get_write_buffer_size()
        waited = waited + 1 if left == unread else 0
        unread = left
