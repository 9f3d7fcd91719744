"""Messages on a byte stream: `Content-Length: N`, an empty line, N bytes of JSON."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol

Json = dict[str, Any]

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
# A header that is longer than this is no header of ours.
MAX_HEADER_BYTES = 1024
_FIRST = b"Content-Length: "
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class FramingError(Exception):
    """The stream cannot be read any further: where the next message begins is unknown."""


class BodyError(Exception):
    """One message is no JSON object; the stream goes on behind it."""


class ByteSink(Protocol):
    def write(self, data: bytes, /) -> None: ...


async def read_message(reader: asyncio.StreamReader) -> Json | None:
    """The next message, or None when the stream ended between two messages."""
    length = await _read_header(reader)
    if length is None:
        return None
    try:
        body = await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        raise FramingError(
            f"the stream ended after {len(error.partial)} of a message's {length} bytes"
        ) from None
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BodyError(f"a message is not JSON: {error}") from None
    if not isinstance(message, dict):
        raise BodyError("a message is not a JSON object")
    return message


async def _read_header(reader: asyncio.StreamReader) -> int | None:
    # The first bytes are looked at alone: a browser's or shell's greeting is refused at once,
    # without waiting for the end of a line that may never come.
    try:
        first = await reader.readexactly(len(_FIRST))
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise FramingError("the stream ended inside a message's header") from None
    if first != _FIRST:
        raise FramingError(f"a message must begin with 'Content-Length: ', not with {first!r}")
    try:
        rest = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        raise FramingError("the stream ended inside a message's header") from None
    except asyncio.LimitOverrunError:
        raise FramingError("a message's header does not end") from None
    if len(rest) > MAX_HEADER_BYTES:
        raise FramingError(f"a message's header is longer than {MAX_HEADER_BYTES} bytes")
    # Other header fields, such as Content-Type, are allowed and mean nothing.
    digits = rest.split(b"\r\n", 1)[0]
    if not digits.isdigit() or len(digits) > 12:
        raise FramingError(f"Content-Length is {digits[:40]!r}, which is no number of bytes")
    length = int(digits)
    if length > MAX_MESSAGE_BYTES:
        raise FramingError(
            f"a message of {length} bytes is over the limit of {MAX_MESSAGE_BYTES} bytes"
        )
    return length


def frame(message: Json) -> bytes:
    body = _encode(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
