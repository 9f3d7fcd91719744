"""`opstep attach --listen`: processes dial the terminal, as they come and go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.certificates import make_certificate
from harness.piped_terminal import Terminal
from harness.processes import OPSTEP, PROGRAMS, SECONDS

pytestmark = pytest.mark.e2e


def start(script: str, server: str, **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, script],
        cwd=PROGRAMS, stdout=subprocess.DEVNULL,
        env={**os.environ, "OPSTEP_SERVER": server, "OPSTEP_WAIT": "100", **env},
    )  # fmt: skip


def test_processes_come_and_go(tmp_path: Path):
    terminal = Terminal("attach", "--listen", f"unix:{tmp_path}/server")
    terminal.expect(r"listening: processes started with OPSTEP_SERVER=unix:\S+ come here")
    terminal.type("where")
    terminal.expect(r"error: no process is here: 'continue' waits for one at unix:")
    terminal.type("run")
    terminal.expect(r"error: no process is here: 'continue' waits for one at unix:")
    terminal.type("catch nan")
    for _ in range(2):
        terminal.type("continue")
        process = start("make_nan.py", f"unix:{tmp_path}/server")
        terminal.expect(rf"process {process.pid} \(make_nan.py\) has come")
        terminal.expect(r"stopped after op #2 log_0 .* run 3: NaN")
        terminal.type("catch off nan")
        terminal.type("continue")
        terminal.expect(rf"process {process.pid} \(make_nan.py\) has ended, or left")
        assert process.wait(SECONDS) == 0
        terminal.type("catch nan")
    terminal.type("quit")
    assert terminal.process.wait(SECONDS) == 2  # Because of 'where'.


def test_two_processes_are_two_threads(tmp_path: Path):
    terminal = Terminal("attach", "--listen", f"unix:{tmp_path}/server")
    terminal.expect(r"listening")
    terminal.type("catch nan")
    terminal.type("continue")
    processes = [start("make_nan.py", f"unix:{tmp_path}/server") for _ in range(2)]
    terminal.expect(r"stopped after op #2 log_0 .*: NaN")
    terminal.expect(r"thread \d \(main\) stopped after op #2 log_0 .*: NaN")
    terminal.type("thread all print step")
    terminal.expect(r"step = 3")
    terminal.expect(r"step = 3")
    terminal.type("detach")
    terminal.expect(r"the processes go on without the debugger")
    assert [process.wait(SECONDS) for process in processes] == [0, 0]
    terminal.type("quit")
    assert terminal.process.wait(SECONDS) == 1


def test_tcp_wants_the_token(tmp_path: Path):
    terminal = Terminal("attach", "--listen", "127.0.0.1:0")
    found = terminal.expect(r"OPSTEP_SERVER=(127\.0\.0\.1:\d+) OPSTEP_TOKEN_FILE=(\S+) come here")
    wrong = tmp_path / "token"
    wrong.write_text("not the token that it wants")
    wrong.chmod(0o600)
    refused = start("make_nan.py", found[1], OPSTEP_TOKEN_FILE=str(wrong), OPSTEP_WAIT="1")
    assert refused.wait(SECONDS) == 0
    terminal.type("catch nan")
    terminal.type("continue")
    process = start("make_nan.py", found[1], OPSTEP_TOKEN_FILE=found[2])
    terminal.expect(rf"process {process.pid} \(make_nan.py\) has come")
    terminal.expect(r"NaN")
    terminal.type("kill")
    terminal.expect(rf"process {process.pid} \(make_nan.py\) has ended, or left")
    assert process.wait(SECONDS) == -15
    terminal.type("quit")
    assert terminal.process.wait(SECONDS) == 1
    assert not os.path.exists(found[2])


def test_beyond_this_machine_it_is_tls(tmp_path: Path):
    cert, key = make_certificate(tmp_path, "server")
    token = tmp_path / "token"
    token.write_text("a-token-that-is-long-enough")
    token.chmod(0o600)
    terminal = Terminal(
        "attach", "--listen", "0.0.0.0:0", "--token-file", str(token), "--tls-cert", str(cert),
        "--tls-key", str(key),
    )  # fmt: skip
    port = terminal.expect(r"OPSTEP_SERVER=0\.0\.0\.0:(\d+)")[1]
    terminal.type("catch nan")
    terminal.type("continue")
    keys = {"OPSTEP_TOKEN_FILE": str(token), "OPSTEP_TLS_CA": str(cert)}
    process = start("make_nan.py", f"localhost:{port}", **keys)
    terminal.expect(r"NaN")
    terminal.type("quit")
    assert terminal.process.wait(SECONDS) == 1
    assert process.wait(SECONDS) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--listen", "0.0.0.0:0"], "0.0.0.0:0 can be reached from other machines"),
        (["--listen", "here"], "'here' is not an address: write unix:/path or host:port"),
        (["--listen", "unix:/tmp/x", "1"], "give a process's id, a server's address or --listen"),
        ([], "attach needs a process id"),
    ],
)
def test_wrong_places(words: list[str], sentence: str):
    result = subprocess.run(
        [*OPSTEP, "attach", *words], capture_output=True, text=True, timeout=SECONDS
    )
    assert (result.stdout, result.returncode) == ("", 2)
    assert result.stderr.startswith(f"opstep: {sentence}")
