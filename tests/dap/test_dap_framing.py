"""Bytes in, messages out; whatever is wrong ends in one clear sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opstep_server.dap.framing import (
    MAX_MESSAGE_BYTES,
    BodyError,
    Decoder,
    FramingError,
    frame,
)


def read_all(data: bytes, *, close: bool = True, piece: int = 1 << 20) -> list[Any]:
    decoder, messages = Decoder(), []
    for start in range(0, len(data), piece):
        messages += decoder.feed(data[start : start + piece])
    if close:
        decoder.end()
    return messages


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def test_what_is_written_is_read() -> None:
    message = {"seq": 1, "text": "→ ü \N{GRINNING FACE}"}
    for piece in (1, 7, 1 << 20):
        assert read_all(frame(message) * 2, piece=piece) == [message, message]


def test_other_header_fields_are_allowed() -> None:
    data = b"Content-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"
    assert read_all(data) == [{}]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", "must begin with 'Content-Length: '"),
        (b"Content-Le", "ended inside a message's header"),
        (b"Content-Length: 12", "ended inside a message's header"),
        (b"Content-Length: 12\r\n\r\n{}", "after 2 of a message's 12 bytes"),
        (b"Content-Length: -1\r\n\r\n", "no number of bytes"),
        (b"Content-Length: 1e3\r\n\r\n", "no number of bytes"),
        (b"Content-Length: %d\r\n\r\n" % (MAX_MESSAGE_BYTES + 1), "over the limit"),
        (b"Content-Length: 2\r\nX: " + b"y" * 2000 + b"\r\n\r\n{}", "longer than 1024 bytes"),
        (b"Content-Length: 2" + b"y" * 200_000, "does not end"),
        (framed(b"{}") + b"\r\n{}" + b" " * 20, "must begin with 'Content-Length: '"),
    ],
)
def test_broken_framing_is_an_error(data: bytes, sentence: str) -> None:
    with pytest.raises(FramingError, match=sentence):
        read_all(data)


def test_a_wrong_beginning_is_refused_before_the_line_ends() -> None:
    with pytest.raises(FramingError, match="must begin with"):
        read_all(b"GET /index.html HTTP", close=False)


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff\xfe", b"1", b"[" * 100_000, b""])
def test_a_wrong_body_costs_only_itself(body: bytes) -> None:
    error, message = read_all(framed(body) + framed(json.dumps({"seq": 2}).encode()))
    assert isinstance(error, BodyError)
    assert message == {"seq": 2}
