"""Requests from the adapter to the client, each awaiting its response."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from opstep_server.dap.protocol.framing import Json
from opstep_server.dap.protocol.outbox import Outbox
from opstep_server.dap.protocol.request_arguments import RequestError


class ReverseRequests:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._waiting: dict[int, asyncio.Future[Json]] = {}

    async def ask(self, command: str, arguments: Mapping[str, object]) -> Json:
        """Returns the body of the response; RequestError with the client's reason when it fails."""
        seq = self._outbox.request(command, arguments)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[seq] = answer
        try:
            response = await answer
        finally:
            del self._waiting[seq]
        if response.get("success") is not True:
            raise RequestError(_reason(response))
        body = response.get("body")
        return body if isinstance(body, dict) else {}

    def answered(self, response: Json) -> None:
        """Takes a response from the client; ignores one that nobody waits for."""
        seq = response.get("request_seq")
        answer = self._waiting.get(seq) if isinstance(seq, int) else None
        if answer is not None and not answer.done():
            answer.set_result(response)


def _reason(response: Json) -> str:
    body = response.get("body")
    error = body.get("error") if isinstance(body, dict) else None
    detail = error.get("format") if isinstance(error, dict) else None
    for text in (detail, response.get("message")):
        if isinstance(text, str) and text:
            return text
    return "it gave no reason"
