"""Messages on a byte stream: `Content-Length: N`, an empty line, N bytes of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

from opstep_server.dap.protocol.request_outline import RequestOutline

Json = dict[str, Any]

# Room to write back the result of one `readMemory`: 64 MiB in base64, and its message.
MAX_MESSAGE_BYTES = 88 << 20
# A longer header is not one of the protocol.
MAX_HEADER_BYTES = 1024
_LAST = b"\r\n\r\n"
_WHOLE = re.compile(rb"Content-Length: (\d{1,12})\r\n\r\n")
# A browser can be made to send messages after an HTTP header, so our header must come first.
_NAMES = (b"content-length", b"content-type")
# Our messages have no cycles, and a check would take longer than the encoding.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


_decode = json.JSONDecoder().decode


class FramingError(Exception):
    """The stream cannot be read any further: the start of the next message is unknown."""


class BodyError(Exception):
    """One message cannot be read; the stream goes on after it."""

    def __init__(self, sentence: str, seq: int | None = None, command: str = "") -> None:
        super().__init__(sentence)
        # Of the request, if known.
        self.seq = seq
        self.command = command


class ByteSink(Protocol):
    def write(self, data: bytes, /) -> None: ...


class Decoder:
    """Bytes in, in any pieces; messages out."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self.limit = limit
        self._buffer = bytearray()
        # The length of the body that is being received; None during a header.
        self._length: int | None = None
        # The outline of a message over the limit, which is not kept, and its bytes still to come.
        self._outline: RequestOutline | None = None
        self._left = 0

    def feed(self, data: bytes) -> Iterator[Json | BodyError]:
        """The messages that the bytes complete; raises FramingError after the last good one."""
        first = self._length is None and not self._buffer
        if first and (whole := _WHOLE.match(data)):
            # The usual case: exactly one whole message, whose header has only the length.
            body = data[whole.end() :]
            if len(body) == int(whole[1]) <= self.limit:
                yield _message(body)
                return
        self._buffer += data
        while self._buffer:
            if self._length is None:
                self._length = self._header()
                if self._length is not None and self._length > self.limit:
                    self._outline, self._left = RequestOutline(), self._length
            if self._length is None or not self._whole():
                return
            if self._outline is not None:
                refused = self._refused(self._outline, self._length)
                self._outline = self._length = None
                yield refused
                continue
            body = bytes(self._buffer[: self._length])
            del self._buffer[: self._length]
            self._length = None
            yield _message(body)

    def end(self) -> None:
        """The stream ended; raises FramingError when that was inside a message."""
        if self._length is not None:
            came = len(self._buffer) if self._outline is None else self._length - self._left
            raise FramingError(f"the stream ended after {came} of a message's {self._length} bytes")
        if self._buffer:
            raise FramingError("the stream ended inside a message's header")

    def _whole(self) -> bool:
        """All of the body has come."""
        assert self._length is not None
        if self._outline is None:
            return len(self._buffer) >= self._length
        skipped = bytes(self._buffer[: self._left])
        del self._buffer[: len(skipped)]
        self._left -= len(skipped)
        self._outline.feed(skipped)
        return self._left == 0

    def _refused(self, outline: RequestOutline, length: int) -> BodyError:
        sentence = f"a message of {length} bytes is over the limit of {self.limit} bytes"
        request = outline.read()
        seq, command = request.get("seq"), request.get("command")
        if request.get("type") == "request" and type(seq) is int and isinstance(command, str):
            return BodyError(f"{sentence}: send less at once", seq, command)
        return BodyError(sentence)

    def _header(self) -> int | None:
        """Takes the header off the buffer and returns its length; None when it is incomplete."""
        # The first bytes are checked alone: a greeting from a browser or shell is refused at once,
        # without waiting for the end of a line that may never come.
        first = bytes(self._buffer[: max(map(len, _NAMES))])
        name, colon, _ = first.lower().partition(b":")
        if not any(
            name.rstrip(b" \t") == known if colon else known.startswith(name) for known in _NAMES
        ):
            raise FramingError(f"a message must begin with 'Content-Length: ', not with {first!r}")
        end = self._buffer.find(_LAST)
        if end < 0:
            if len(self._buffer) > MAX_HEADER_BYTES:
                raise FramingError("a message's header does not end")
            return None
        if end > MAX_HEADER_BYTES:
            raise FramingError(f"a message's header is longer than {MAX_HEADER_BYTES} bytes")
        header = bytes(self._buffer[:end])
        del self._buffer[: end + len(_LAST)]
        return _length(header)


def _length(header: bytes) -> int:
    """The length; other fields, such as Content-Type, are allowed and ignored."""
    named: list[bytes] = []
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip(b" \t").lower() == b"content-length":
            named.append(value.strip(b" \t"))
    if len(named) != 1:
        raise FramingError(f"a message's header names {len(named)} lengths: it needs one")
    if not named[0].isdigit() or len(named[0]) > 12:
        raise FramingError(f"Content-Length is {named[0][:40]!r}, which is not a number of bytes")
    return int(named[0])


def _message(body: bytes) -> Json | BodyError:
    try:
        message = _decode(body.decode())
    except (ValueError, RecursionError) as error:
        return BodyError(f"a message is not JSON: {error}")
    return message if isinstance(message, dict) else BodyError("a message is not a JSON object")


def frame(message: Json) -> bytes:
    body = _encode(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
