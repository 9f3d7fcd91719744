"""Bytes in, messages out; whatever is wrong ends in one clear sentence."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from opstep_server.dap.protocol.framing import (
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


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: 2\r\nContent-Type: application/json",
        b"Content-Type: application/json\r\nContent-Length: 2",
        b"content-length: 2",
        b"CONTENT-LENGTH:2",
        b"content-type:application/json; charset=utf-8\r\ncontent-length:2",
        b"Content-Length : 2 ",
        b"Content-Length:\t2\r\nX-Other: 7",
    ],
)
def test_headers_as_clients_write_them(header: bytes) -> None:
    for piece in (1, 3, 1 << 20):
        assert read_all((header + b"\r\n\r\n{}") * 2, piece=piece) == [{}, {}]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", "must begin with 'Content-Length: '"),
        (b"Content-Le", "ended inside a message's header"),
        (b"Content-Length: 12", "ended inside a message's header"),
        (b"Content-Length: 12\r\n\r\n{}", "after 2 of a message's 12 bytes"),
        (b"Content-Length: -1\r\n\r\n", "not a number of bytes"),
        (b"Content-Length: 1e3\r\n\r\n", "not a number of bytes"),
        (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "names 2 lengths"),
        (b"Content-Type: x\r\n\r\n{}", "names 0 lengths"),
        (b"Content-Lengthy: 2\r\n\r\n{}", "names 0 lengths"),
        (b"Content-Length: %d\r\n\r\n{" % (MAX_MESSAGE_BYTES + 1), "after 1 of a message's"),
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


# ---- messages over the limit ---------------------------------------------------------------------


def large(seq: Any, **more: Any) -> dict[str, Any]:
    arguments = {"data": "A" * 5000, "seq": 99, "command": "x", "deep": [{"]": '\\"}'}]}
    return {"seq": seq, "type": "request", "command": "writeMemory", "arguments": arguments, **more}


def through(limit: int, piece: int, *messages: bytes) -> list[Any]:
    decoder, found = Decoder(limit), []
    data = b"".join(map(framed, messages))
    for start in range(0, len(data), piece):
        found += decoder.feed(data[start : start + piece])
    decoder.end()
    return found


@pytest.mark.parametrize("piece", [1, 7, 1000, 1 << 20])
def test_a_message_over_the_limit_is_refused_by_itself(piece: int) -> None:
    last = dict(reversed(large(8).items()))
    bodies = [json.dumps(large(7)).encode(), json.dumps(last).encode(), b'{"seq": 9}']
    first, second, third = through(2000, piece, *bodies)
    assert (first.seq, first.command) == (7, "writeMemory")
    assert f"a message of {len(bodies[0])} bytes is over the limit of 2000 bytes" in str(first)
    assert (second.seq, second.command) == (8, "writeMemory")
    assert third == {"seq": 9}


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 3000,
        b"]" * 3000,
        b'"' + b"x" * 3000,
        json.dumps(large("x")).encode(),
        json.dumps(large(7, type="event")).encode(),
        json.dumps([large(7)]).encode(),
        b'{"' + b'a":1,"' * 3000 + b'seq":1}',
        b"\xff" * 3000,
    ],
)
def test_one_that_cannot_be_identified_is_told_as_such(body: bytes) -> None:
    error, after = through(2000, 999, body, b"{}")
    assert isinstance(error, BodyError)
    assert error.seq is None
    assert "over the limit" in str(error)
    assert after == {}


def test_what_is_skipped_is_not_kept() -> None:
    decoder = Decoder(2000)
    total = 64 << 20
    piece = b"x" * (1 << 20)
    tracemalloc.start()
    try:
        assert not list(decoder.feed(b'Content-Length: %d\r\n\r\n{"seq":5,"d":"' % (total + 16)))
        for _ in range(63):
            assert not list(decoder.feed(piece))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    (error,) = decoder.feed(piece + b'"}')
    assert isinstance(error, BodyError)
