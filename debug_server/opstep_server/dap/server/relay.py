"""The relay: connects a client of this adapter to a running `opstep serve`.

Settings that the client made before are sent again to the server. Breakpoints keep the numbers that
the client knows; numbers that the server gives later are shifted.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from typing import TYPE_CHECKING, Any

from opstep_server.access import parse_address, read_token
from opstep_server.dap.protocol.framing import BodyError, Decoder, FramingError, Json, frame
from opstep_server.dap.protocol.request_arguments import RequestError
from opstep_server.debugger import DebuggerError

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

SECONDS = 10.0
_THEIR_IDS = 1 << 20
_PIECE = 1 << 16
# A server may send larger messages than a client: bytes of tensors, listings.
_MOST_BYTES = 256 << 20


class Relay:
    """One task reads from the server; `AdapterSession.leave` follows its end."""

    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._token: str | None = None
        self._seq = itertools.count(1)
        # Our requests, and the client's numbers of its requests, by ours.
        self._asked: dict[int, asyncio.Future[Json]] = {}
        self._forwarded: dict[int, tuple[int, str]] = {}
        # The client's messages that wait until everything was sent again.
        self._held: list[Json] | None = []
        self._ids: dict[int, int] = {}
        self._task: asyncio.Task[None] | None = None

    async def open(self, address: str, token_file: str | None, tls_ca: str | None) -> None:
        where = parse_address(address)
        self._token = read_token(token_file) if token_file else None
        if not where.loopback and not (token_file and tls_ca):
            raise RequestError(f"{address} is on another machine: give tokenFile and tlsCa")
        try:
            if where.path:
                connecting = asyncio.open_unix_connection(where.path)
            else:
                tls = ssl.create_default_context(cafile=tls_ca) if tls_ca else None
                connecting = asyncio.open_connection(where.host, where.port, ssl=tls)
            self._reader, self._writer = await asyncio.wait_for(connecting, SECONDS)
        except (OSError, asyncio.TimeoutError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "no answer"
            raise DebuggerError(f"no debug server at {address}: {reason}") from error
        self._task = asyncio.create_task(self._read())

    async def begin(self) -> None:
        """Sends the client's settings again; done when the server has attached the client."""
        said = self._session.attach.said
        introduction = next((m for m in said if m["command"] == "initialize"), {})
        arguments = dict(introduction.get("arguments") or {})
        if self._token is not None:
            arguments["opstepToken"] = self._token
        await self._ask("initialize", arguments)
        attached = self._request("attach", {})
        configured = False
        for message in said:
            if message["command"] == "configurationDone":
                configured = True
            elif message.get("seq") in self._session.attach.answers:
                await self._say_again(message)
        if configured:
            await self._ask("configurationDone", {})
        held, self._held = self._held or [], None
        for message in held:
            self.forward(message)
        self._session.attach.forget()
        await self._answer(attached)

    def forward(self, message: Json) -> None:
        """Sends one of the client's messages to the server."""
        if self._held is not None:
            self._held.append(message)
            return
        seq = next(self._seq)
        if message.get("type") == "request" and isinstance(message.get("seq"), int):
            self._forwarded[seq] = message["seq"], str(message.get("command"))
        message = {**message, "seq": seq}
        if message.get("command") == "cancel" and isinstance(message.get("arguments"), dict):
            message["arguments"] = self._cancelled(message["arguments"])
        self._write(message)

    def give_back(self) -> None:
        """There is no server: gives the client's messages to this adapter."""
        self.close()
        for message in self._held or []:
            self._session.accept(message)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _cancelled(self, arguments: Json) -> Json:
        """The arguments of `cancel` with the server's numbers."""
        theirs = arguments.get("requestId")
        ours = next((seq for seq, (client, _) in self._forwarded.items() if client == theirs), 0)
        return {**arguments, "requestId": ours} if theirs is not None else arguments

    # ---- our own requests ------------------------------------------------------------------------

    async def _say_again(self, message: Json) -> None:
        body = await self._ask(message["command"], message.get("arguments"))
        theirs = body.get("breakpoints") or []
        ours = self._session.attach.answers.get(message["seq"], {}).get("breakpoints")
        for before, now in zip(ours if isinstance(ours, list) else [], theirs, strict=False):
            if "id" not in before or "id" not in now:
                continue
            self._ids[now["id"]] = before["id"]
            changed = {**now, "id": before["id"]}
            self._session.outbox.event("breakpoint", {"reason": "changed", "breakpoint": changed})

    async def _ask(self, command: str, arguments: Any) -> Json:
        return await self._answer(self._request(command, arguments))

    def _request(self, command: str, arguments: Any) -> asyncio.Future[Json]:
        seq = next(self._seq)
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[seq] = future
        self._write({"seq": seq, "type": "request", "command": command, "arguments": arguments})
        return future

    async def _answer(self, asked: asyncio.Future[Json]) -> Json:
        response = await asked
        if not response.get("success"):
            error = (response.get("body") or {}).get("error") or {}
            raise RequestError(error.get("format") or response.get("message") or "it was refused")
        body: Json = response.get("body") or {}
        return body

    # ---- messages from the server ----------------------------------------------------------------

    async def _read(self) -> None:
        assert self._reader is not None
        try:
            decoder = Decoder(_MOST_BYTES)
            with contextlib.suppress(FramingError, OSError):
                while data := await self._reader.read(_PIECE):
                    for message in decoder.feed(data):
                        if not isinstance(message, BodyError):
                            self._take(message)
        finally:
            for future in self._asked.values():
                if not future.done():
                    future.set_exception(
                        RequestError("the debug server closed the connection: is the token right?")
                    )
                    future.exception()
            lost = "the debug server closed the connection"
            for seq, command in self._forwarded.values():
                self._session.outbox.failure(seq, command, lost, lost)
            # A failure before the start is reported as the failure of `attach`.
            if self._session.attach.relay is self and self._held is None:
                self._session.attach.relay_ended()

    def _take(self, message: Json) -> None:
        kind = message.get("type")
        if kind == "response":
            future = self._asked.pop(message.get("request_seq", 0), None)
            if future is not None:
                if not future.done():
                    future.set_result(message)
                return
            seq, command = self._forwarded.pop(message.get("request_seq", 0), (0, ""))
            if not command:
                return
            message["request_seq"] = seq
            if command == "disconnect":
                self._session.leave()
        elif kind == "event" and message.get("event") == "initialized":
            return  # We have sent the client the same.
        elif kind == "event" and message.get("event") == "progressStart":
            asked = self._forwarded.get(message["body"].pop("requestId", 0))
            if asked is not None:
                message["body"]["requestId"] = asked[0]
        elif kind not in ("event", "request"):
            return
        self._renumber(message.get("body"))
        self._session.outbox.forward(message)

    def _renumber(self, body: Any) -> None:
        if not isinstance(body, dict):
            return
        breakpoints = [body.get("breakpoint"), *(body.get("breakpoints") or [])]
        for breakpoint in breakpoints:
            if isinstance(breakpoint, dict) and "id" in breakpoint:
                breakpoint["id"] = self._client_id(breakpoint["id"])
        if "hitBreakpointIds" in body:
            body["hitBreakpointIds"] = [self._client_id(id) for id in body["hitBreakpointIds"]]

    def _client_id(self, id: int) -> int:
        return self._ids.get(id, id + _THEIR_IDS)

    def _write(self, message: Json) -> None:
        assert self._writer is not None
        self._writer.write(frame(message))
