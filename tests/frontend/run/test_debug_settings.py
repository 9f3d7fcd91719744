"""What `opstep.debug.connect` refuses, in one sentence, before it dials."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import opstep
from opstep import debug
from opstep.debug import connection

VARIABLES = ("SERVER", "TOKEN_FILE", "TLS_CA", "POLICY", "ON_DISCONNECT", "MAX_PAUSE")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(f"OPSTEP_{name}", raising=False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "give an address or set OPSTEP_SERVER"),
        ({"address": "garbage"}, "'garbage' is not a debug server's address"),
        ({"address": "localhost:"}, "give unix:/path or host:port"),
        ({"address": "unix:/x", "policy": "all"}, "'full', 'observe' or 'log-only', not 'all'"),
        ({"address": "unix:/x", "on_disconnect": "stop"}, "'continue' or 'wait', not 'stop'"),
        ({"address": "unix:/x", "wait": -1}, "0 seconds or more"),
        ({"address": "unix:/x", "wait": math.nan}, "0 seconds or more"),
        ({"address": "unix:/x", "max_pause": 0}, "more than 0 seconds"),
        ({"address": "unix:/x", "max_pause": math.nan}, "more than 0 seconds"),
        ({"address": "10.0.0.1:1"}, "10.0.0.1:1 is on another machine"),
        ({"address": "localhost.evil.org:1"}, "is on another machine"),
        ({"address": "127.0.0.1:1", "token_file": "/nothing"}, "No such file"),
        ({"address": "127.0.0.1:1", "tls_ca": "/nothing"}, "No such file"),
        ({"address": "127.0.0.1:1", "token_file": "/tmp"}, "Is a directory"),
    ],
)
def test_wrong_settings_are_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(opstep.Error, match=sentence) as caught:
        debug.connect(**arguments)
    assert "\n" not in str(caught.value)
    assert not debug.attached()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_token_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-that-is-long-enough")
    file.chmod(mode)
    with pytest.raises(opstep.Error, match="can be read by others: chmod 600 it"):
        debug.connect("127.0.0.1:1", token_file=str(file))


@pytest.mark.parametrize("text", ["", "two words", "ümlaut", "bell\x07"])
def test_a_token_is_one_word(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(opstep.Error, match="not one word"):
        debug.connect("127.0.0.1:1", token_file=str(file))


def test_certificates_are_pem(tmp_path: Path) -> None:
    file = tmp_path / "cert"
    file.write_text("nothing of that kind")
    with pytest.raises(opstep.Error, match="it is not PEM"):
        debug.connect("127.0.0.1:1", tls_ca=str(file))


def test_waiting_needs_a_way_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPSTEP_DOORBELL", "0")
    monkeypatch.setattr(connection, "_doorbell_is_open", False)
    with pytest.raises(opstep.Error, match="nobody could attach"):
        debug.wait_for_client(0.1)
