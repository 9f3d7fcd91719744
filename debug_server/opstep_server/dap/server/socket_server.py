"""The adapter at a socket: each client has its own session.

At an endpoint that has a token, the first message must be `initialize` with that token as
`opstepToken` among its arguments. Until then nothing is answered and nothing is done: a client that
sends something else is disconnected without a message.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import stat
from collections.abc import Callable

from opstep_server.access import Endpoint
from opstep_server.dap.adapter_session import AdapterSession
from opstep_server.dap.protocol.framing import (
    MAX_MESSAGE_BYTES,
    BodyError,
    Decoder,
    FramingError,
    Json,
)
from opstep_server.dap.server.save_place import SavePlace
from opstep_server.debugger import Debugger, DebuggerError

TOKEN_SECONDS = 10.0
_FLUSH_SECONDS = 1.0
_PIECE = 1 << 16
# Limits for a client that has not sent the token yet.
_LOGIN_BYTES = 1 << 16


class SocketServer:
    """Tasks: one for each client, which ends with it; `close` ends them all."""

    def __init__(
        self, endpoint: Endpoint, make: Callable[[], Debugger], save_folder: str = ""
    ) -> None:
        self._endpoint = endpoint
        # A unix socket is for our own user only.
        folder = os.path.abspath(save_folder) if save_folder else ""
        self._saves = SavePlace(shared=not endpoint.address.path, folder=folder)
        self._make = make
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._sessions: set[AdapterSession] = set()

    async def start(self) -> str:
        """Listens, and returns the address: the port may have been 0."""
        address = self._endpoint.address
        try:
            if address.path:
                bound = _bind(address.path)
                self._server = await asyncio.start_unix_server(self._client, sock=bound)
                return str(address)
            self._server = await asyncio.start_server(
                self._client,
                address.host,
                address.port,
                ssl=self._tls(),
                ssl_handshake_timeout=TOKEN_SECONDS if self._endpoint.key else None,
            )
        except OSError as error:
            raise DebuggerError(f"cannot listen at {address}: {error.strerror or error}") from error
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def close(self) -> None:
        """Ends all sessions as if the clients had vanished."""
        if self._server is not None:
            self._server.close()
        for session in list(self._sessions):
            session.leave()
        if self._clients:
            await asyncio.wait(self._clients, timeout=5.0)
        for task in list(self._clients):
            task.cancel()
        self._endpoint.forget()
        if self._endpoint.address.path:
            with contextlib.suppress(OSError):
                os.unlink(self._endpoint.address.path)

    def _tls(self) -> ssl.SSLContext | None:
        if not self._endpoint.key:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self._endpoint.certificate_file, self._endpoint.key_file)
        except (OSError, ssl.SSLError) as error:
            raise DebuggerError(f"the TLS certificate cannot be used: {error}") from error
        return context

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            decoder = Decoder(_LOGIN_BYTES) if self._endpoint.token else Decoder()
            early = bytearray()
            first = await self._first(reader, decoder, early) if self._endpoint.token else None
            if first is not None or not self._endpoint.token:
                decoder.limit = MAX_MESSAGE_BYTES
                await self._serve(reader, writer, decoder, first, early)
        except (ConnectionError, asyncio.CancelledError):
            pass  # The client is gone, or we are closing.
        finally:
            self._clients.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(writer.wait_closed(), _FLUSH_SECONDS)

    async def _first(
        self, reader: asyncio.StreamReader, decoder: Decoder, early: bytearray
    ) -> Json | None:
        """The client's `initialize`, without its token; None when it is not one of ours.

        `early` gets the bytes that come while the token is checked.
        """
        try:
            message = await asyncio.wait_for(_one(reader, decoder), TOKEN_SECONDS)
        except (FramingError, asyncio.TimeoutError):
            return None
        if message is None or isinstance(message, BodyError):
            return None
        arguments = message.get("arguments")
        if message.get("command") != "initialize" or not isinstance(arguments, dict):
            return None
        admitted = await self._admits(arguments.pop("opstepToken", None), reader, early)
        return message if admitted else None

    async def _admits(self, token: object, reader: asyncio.StreamReader, early: bytearray) -> bool:
        """Whether the token is right. Nobody waits behind a client that has left meanwhile."""
        checking = asyncio.create_task(self._endpoint.admits(token))
        watching = asyncio.create_task(_until_left(reader, early))
        try:
            await asyncio.wait({checking, watching}, return_when=asyncio.FIRST_COMPLETED)
            return checking.done() and checking.result()
        finally:
            checking.cancel()
            watching.cancel()

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        decoder: Decoder,
        first: Json | None,
        early: bytearray,
    ) -> None:
        debugger = self._make()
        session = AdapterSession(writer.transport, debugger, decoder, self._saves)
        self._sessions.add(session)
        if first is not None:
            session.accept(first)
            session.feed(bytes(early))  # And the rest that came with it.
        pump = asyncio.create_task(_pump(reader, session))
        try:
            await session.serve()
        finally:
            pump.cancel()
            self._sessions.discard(session)
            await debugger.close()


async def _one(reader: asyncio.StreamReader, decoder: Decoder) -> Json | BodyError | None:
    """The first message; None when the client leaves before it."""
    while data := await reader.read(_PIECE):
        for message in decoder.feed(data):
            return message
    return None


async def _until_left(reader: asyncio.StreamReader, early: bytearray) -> None:
    """Ends when the client leaves, or sends more than one that waits for its login would."""
    with contextlib.suppress(OSError):
        while len(early) <= _LOGIN_BYTES and (data := await reader.read(_PIECE)):
            early += data


async def _pump(reader: asyncio.StreamReader, session: AdapterSession) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_PIECE):
            session.feed(data)
    session.end()


def _bind(path: str) -> socket.socket:
    """A socket that only we can open, from the start; replaces a dead one."""
    with contextlib.suppress(OSError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)
    bound = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        bound.bind(path)
    except OSError:
        bound.close()
        raise
    finally:
        os.umask(mask)
    return bound
