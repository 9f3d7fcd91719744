"""Addresses, tokens, and what may be listened at."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from opstep_server import access
from opstep_server.debugger import DebuggerError


@pytest.mark.parametrize(
    ("text", "shown", "loopback"),
    [
        ("unix:/run/x", "unix:/run/x", True),
        ("127.0.0.1:7001", "127.0.0.1:7001", True),
        ("127.9.9.9:1", "127.9.9.9:1", True),
        ("localhost:0", "localhost:0", True),
        ("[::1]:7001", "[::1]:7001", True),
        ("0.0.0.0:7001", "0.0.0.0:7001", False),
        ("[::]:7001", "[::]:7001", False),
        ("localhost.example.org:7001", "localhost.example.org:7001", False),
        ("127.0.0.1.example.org:7001", "127.0.0.1.example.org:7001", False),
    ],
)
def test_addresses(text: str, shown: str, loopback: bool) -> None:
    address = access.parse_address(text)
    assert (str(address), address.loopback) == (shown, loopback)


@pytest.mark.parametrize(
    "text", ["", "unix:", ":7001", "host", "host:", "host:x", "host:70000", "::1:7001", "host:-1"]
)
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(DebuggerError, match=r"address|names no"):
        access.parse_address(text)


def test_a_path_that_no_socket_can_have_is_said() -> None:
    with pytest.raises(DebuggerError, match="at most 107 bytes"):
        access.parse_address("unix:/" + "x" * 200)


def test_a_token_is_made_for_this_machine_only() -> None:
    endpoint = access.listen_endpoint("127.0.0.1:0")
    try:
        assert stat.S_IMODE(os.stat(endpoint.token_file).st_mode) == 0o600
        assert len(endpoint.token) > 30 and endpoint.token not in repr(endpoint)
        assert asyncio.run(endpoint.admits(endpoint.token))
        for wrong in (None, 7, "", "x", endpoint.token + "x", "ä", "\ud800"):
            assert not asyncio.run(endpoint.admits(wrong))
    finally:
        os.unlink(endpoint.token_file)
    with pytest.raises(DebuggerError, match="can be reached from other machines"):
        access.listen_endpoint("0.0.0.0:0")


def test_after_wrong_tokens_a_right_one_waits_as_long_as_a_wrong_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Time is held: a wait is over when the test says so."""
    waits: list[tuple[float, asyncio.Event]] = []

    async def sleep(seconds: float) -> None:
        waits.append((seconds, over := asyncio.Event()))
        await over.wait()

    async def settled() -> None:
        for _ in range(5):
            await at_once(0)

    at_once = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", sleep)
    token = "a-token-that-is-long-enough"
    endpoint = access.Endpoint(access.Address(host="127.0.0.1"), token=token)

    async def run() -> None:
        assert await endpoint.admits(token) and not waits  # Nobody has guessed yet.
        longest = 0.0
        for count in range(20):
            guess = asyncio.create_task(endpoint.admits("wrong"))
            right = asyncio.create_task(endpoint.admits(token))
            await settled()
            if count:
                (first, one), (second, other) = waits[-2:]
                assert first == second > 0 and not guess.done() and not right.done()
                longest = max(longest, first)
                one.set()
                other.set()
            else:
                waits[-1][1].set()
            assert not await guess and await right
        assert longest == access.LONGEST_DELAY <= 5
        # However many guess at the same time: no more than these are answered in that time.
        waits.clear()
        crowd = [asyncio.create_task(endpoint.admits("wrong")) for _ in range(500)]
        await settled()
        assert len(waits) == access.MOST_AT_ONCE and not any(each.done() for each in crowd)
        # Those that leave keep nobody waiting.
        for each in crowd:
            each.cancel()
        await asyncio.wait(crowd)
        late = asyncio.create_task(endpoint.admits(token))
        await settled()
        waits[-1][1].set()
        assert await late

    asyncio.run(run())


@pytest.mark.parametrize("given", ["token", "certificate"])
def test_beyond_this_machine_half_is_not_enough(tmp_path: Path, given: str) -> None:
    file = tmp_path / "file"
    file.write_text("a-token-that-is-long-enough")
    file.chmod(0o600)
    with pytest.raises(DebuggerError, match="can be reached from other machines"):
        if given == "token":
            access.listen_endpoint("0.0.0.0:0", str(file))
        else:
            access.listen_endpoint("0.0.0.0:0", None, str(file), str(file))


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("a-token-that-is-long-enough", 0o640, "can be read by others"),
        ("a-token-that-is-long-enough", 0o604, "can be read by others"),
        ("tiny-secret", 0o600, "shorter than 16"),
        ("two words that are long", 0o600, "one word"),
        ("a-token-with-an-ümlaut", 0o600, "one word"),
        ("a-token-with-a-\x07-bell", 0o600, "one word"),
    ],
)
def test_token_files_that_are_refused(tmp_path: Path, text: str, mode: int, why: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(DebuggerError, match=why) as caught:
        access.read_token(str(file))
    assert text not in str(caught.value)


def test_a_token_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(DebuggerError, match="No such file"):
        access.read_token(str(tmp_path / "nothing"))
    with pytest.raises(DebuggerError, match="Is a directory"):
        access.read_token(str(tmp_path))
