"""The adapter at a socket, in this process: what is set on the connection, who gets in."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from pathlib import Path

import pytest

from harness.patience import SECONDS
from opstep_server.access import Address, Endpoint
from opstep_server.dap.server import socket_server
from opstep_server.dap.server.socket_server import SocketServer
from opstep_server.debugger import Debugger, DebuggerError

TOKEN = "a-token-that-is-long-enough"


def initialize(**arguments: object) -> bytes:
    request = {"seq": 1, "type": "request", "command": "initialize", "arguments": arguments}
    body = json.dumps(request).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


async def read_one(reader: asyncio.StreamReader) -> dict[str, object]:
    header = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
    length = int(header.removeprefix(b"Content-Length: "))
    return json.loads(await reader.readexactly(length))  # type: ignore[no-any-return]


def test_tcp_answers_are_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[asyncio.Transport] = []
    session = socket_server.AdapterSession

    def spy(transport: asyncio.Transport, *rest: object) -> object:
        made.append(transport)
        return session(transport, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(socket_server, "AdapterSession", spy)

    async def run() -> None:
        server = SocketServer(Endpoint(Address(host="127.0.0.1"), token=TOKEN), Debugger)
        host, port = (await server.start()).split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(initialize(opstepToken=TOKEN))
        assert (await read_one(reader))["success"] is True
        accepted = made[0].get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()
        await server.close()

    asyncio.run(run())


def test_whoever_does_not_show_the_token_in_time_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_server, "TOKEN_SECONDS", 0.2)

    async def run() -> None:
        server = SocketServer(Endpoint(Address(host="127.0.0.1"), token=TOKEN), Debugger)
        host, port = (await server.start()).split(":")
        for said in (b"", b"Content-Length: 10", initialize(opstepToken=TOKEN)[:-1]):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(said)
            assert await asyncio.wait_for(reader.read(), SECONDS) == b""
            writer.close()
        await server.close()

    asyncio.run(run())


def test_a_unix_socket_is_its_owners_and_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "dap"

    async def run() -> None:
        for _ in range(2):  # The second time in the place of what a killed server left.
            server = SocketServer(Endpoint(Address(path=str(path))), Debugger)
            await server.start()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(initialize())
            assert (await read_one(reader))["command"] == "initialize"
            await server.close()
            assert not path.exists()
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(str(path))

    asyncio.run(run())


def test_a_place_that_is_taken_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")

    async def run() -> None:
        server = SocketServer(Endpoint(Address(path=str(tmp_path / "file"))), Debugger)
        with pytest.raises(DebuggerError, match="cannot listen at"):
            await server.start()

    asyncio.run(run())
    assert (tmp_path / "file").read_text() == "mine"
