"""`opstep dap --listen` and `opstep serve`: adapters that outlive their clients."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from dataclasses import replace

from opstep_server.access import Endpoint, listen_endpoint, user_folder
from opstep_server.dap.server.socket_server import SocketServer
from opstep_server.debugger import Debugger
from opstep_server.guests import Guests
from opstep_server.hub import Hub


async def dap(
    address: str,
    token_file: str | None,
    cert: str | None,
    key: str | None,
    save_folder: str | None = None,
) -> None:
    """Every client has a debugger of its own."""
    endpoint = listen_endpoint(address, token_file, cert, key)
    clients = SocketServer(endpoint, Debugger, save_folder or "")
    _say("clients connect to", await clients.start(), endpoint)
    try:
        await _until_signal()
    finally:
        await clients.close()


async def serve(
    executors: str | None,
    clients: str | None,
    token_file: str | None,
    cert: str | None,
    key: str | None,
    save_folder: str | None = None,
) -> None:
    """Executors dial in and clients come and go; all of them share one hub."""
    inside = listen_endpoint(executors or f"unix:{user_folder()}/server", token_file, cert, key)
    outside = listen_endpoint(
        clients or f"unix:{user_folder()}/dap", token_file or inside.token_file or None, cert, key
    )
    outside = replace(outside, gate=inside.gate)
    hub = Hub()
    hub.server.on_visit = Guests(hub).visit
    faces = SocketServer(outside, lambda: Debugger(hub), save_folder or "")
    try:
        _say("executors dial", await hub.server.open(inside), inside)
        _say("clients connect to", await faces.start(), outside)
        await _until_signal()
    finally:
        await faces.close()
        await hub.close()


def _say(what: str, address: str, endpoint: Endpoint) -> None:
    token = f" with the token in {endpoint.token_file}" if endpoint.token_file else ""
    with contextlib.suppress(OSError):
        print(f"{what} {address}{token}", file=sys.stderr, flush=True)


async def _until_signal() -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()
