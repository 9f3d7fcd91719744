"""One page over HTTP, for programs that fetch it now and then."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable

from opstep_server.access import Address
from opstep_server.taps.sinks.base import SinkError

# Limits; a client beyond them is disconnected.
_SECONDS = 10.0
_REQUEST = 16 << 10
_CLIENTS = 32
_PLAIN = "text/plain; charset=utf-8"


class HttpPage:
    """Has one thread, which serves all clients and runs `render`; `close` ends it."""

    def __init__(self, address: Address, path: str, kind: str, render: Callable[[], bytes]) -> None:
        self._path = path
        self._kind = kind
        self._render = render
        self._socket = _listening(address)
        self.port: int = self._socket.getsockname()[1]
        self._clients = 0
        self._body, self._made = b"", 0.0
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"page {path}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._socket.close()
            self._loop.close()

    async def _serve(self) -> None:
        self._turn = asyncio.Lock()
        server = await asyncio.start_server(self._client, sock=self._socket, limit=_REQUEST)
        await self._end.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        try:
            if self._clients <= _CLIENTS:
                await asyncio.wait_for(self._answer(reader, writer), _SECONDS)
        except (OSError, EOFError, asyncio.TimeoutError):
            pass
        finally:
            self._clients -= 1
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            status, kind, body = await self._page(request.split(b"\r\n")[0])
            head = request.startswith(b"HEAD ")
        except asyncio.LimitOverrunError:
            status, kind, body, head = "431 Request Header Fields Too Large", _PLAIN, b"", False
        lines = [
            f"HTTP/1.1 {status}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        if status.startswith("405"):
            lines.append("Allow: GET, HEAD")
        # All of it is sent when drain returns.
        writer.transport.set_write_buffer_limits(high=0)
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if head else body))
        await writer.drain()
        # A client that is disconnected with unread bytes may lose the answer.
        writer.write_eof()
        await reader.read(_REQUEST)

    async def _page(self, line: bytes) -> tuple[str, str, bytes]:
        words = line.decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "400 Bad Request", _PLAIN, b"this is not an HTTP request\n"
        if words[0] not in ("GET", "HEAD"):
            return "405 Method Not Allowed", _PLAIN, b"this page can only be read\n"
        if words[1].partition("?")[0] != self._path:
            return "404 Not Found", _PLAIN, f"the page is {self._path}\n".encode()
        asked = time.monotonic()
        async with self._turn:
            # A page made meanwhile will do, so that many clients wait no longer than one.
            if self._made < asked:
                self._made = time.monotonic()
                self._body = self._render()
                # Many clients use at most half of a thread.
                await asyncio.sleep(time.monotonic() - self._made)
            return "200 OK", self._kind, self._body


def _listening(address: Address) -> socket.socket:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, _, _, _, where = found[0]
        return socket.create_server((where[0], where[1]), family=family, backlog=_CLIENTS)
    except OSError as error:
        why = str(error.strerror).partition(" (")[0]
        raise SinkError(
            f"nothing can listen at {address} ({why}): choose another with 'listen'"
        ) from None
