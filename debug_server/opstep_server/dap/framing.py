"""Messages on a byte stream: `Content-Length: N`, an empty line, N bytes of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

Json = dict[str, Any]

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
# A header that is longer than this is no header of ours.
MAX_HEADER_BYTES = 1024
_FIRST, _LAST = b"Content-Length: ", b"\r\n\r\n"
_WHOLE = re.compile(rb"Content-Length: (\d{1,12})\r\n\r\n")
# Messages are trees of our own making: looking for circles would take longer than writing them.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


_decode = json.JSONDecoder().decode


class FramingError(Exception):
    """The stream cannot be read any further: where the next message begins is unknown."""


class BodyError(Exception):
    """One message is no JSON object; the stream goes on behind it."""


class ByteSink(Protocol):
    def write(self, data: bytes, /) -> None: ...


class Decoder:
    """Bytes in, in any pieces; messages out."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._limit = limit
        self._buffer = bytearray()
        # Of the body that is being received; None while a header is.
        self._length: int | None = None

    def feed(self, data: bytes) -> Iterator[Json | BodyError]:
        """What the bytes complete; raises FramingError behind the last good message."""
        first = self._length is None and not self._buffer
        if first and (whole := _WHOLE.match(data)):
            # What nearly always comes: one message, all of it, with nothing but its length.
            body = data[whole.end() :]
            if len(body) == int(whole[1]) <= self._limit:
                yield _message(body)
                return
        self._buffer += data
        while self._buffer:
            if self._length is None:
                self._length = self._header()
            if self._length is None or len(self._buffer) < self._length:
                return
            body = bytes(self._buffer[: self._length])
            del self._buffer[: self._length]
            self._length = None
            yield _message(body)

    def end(self) -> None:
        """The stream ended; raises FramingError when that was inside a message."""
        if self._length is not None:
            raise FramingError(
                f"the stream ended after {len(self._buffer)} of a message's {self._length} bytes"
            )
        if self._buffer:
            raise FramingError("the stream ended inside a message's header")

    def _header(self) -> int | None:
        """The length that it names, taken off the buffer; None when more of it must come."""
        # The first bytes are looked at alone: a browser's or shell's greeting is refused at once,
        # without waiting for the end of a line that may never come.
        if not self._buffer.startswith(_FIRST):
            first = bytes(self._buffer[: len(_FIRST)])
            if _FIRST.startswith(first):
                return None
            raise FramingError(f"a message must begin with 'Content-Length: ', not with {first!r}")
        end = self._buffer.find(_LAST)
        if end < 0:
            if len(self._buffer) > MAX_HEADER_BYTES:
                raise FramingError("a message's header does not end")
            return None
        if end > MAX_HEADER_BYTES:
            raise FramingError(f"a message's header is longer than {MAX_HEADER_BYTES} bytes")
        # Other header fields, such as Content-Type, are allowed and mean nothing.
        digits = bytes(self._buffer[len(_FIRST) : end]).split(b"\r\n", 1)[0]
        del self._buffer[: end + len(_LAST)]
        if not digits.isdigit() or len(digits) > 12:
            raise FramingError(f"Content-Length is {digits[:40]!r}, which is no number of bytes")
        length = int(digits)
        if length > self._limit:
            raise FramingError(
                f"a message of {length} bytes is over the limit of {self._limit} bytes"
            )
        return length


def _message(body: bytes) -> Json | BodyError:
    try:
        message = _decode(body.decode())
    except (ValueError, RecursionError) as error:
        return BodyError(f"a message is not JSON: {error}")
    return message if isinstance(message, dict) else BodyError("a message is not a JSON object")


def frame(message: Json) -> bytes:
    body = _encode(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
