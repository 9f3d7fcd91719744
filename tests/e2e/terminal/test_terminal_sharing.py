"""`opstep attach ADDRESS`: terminals that share the processes of an `opstep serve`."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from harness.certificates import make_certificate
from harness.piped_terminal import Terminal
from harness.processes import OPSTEP, SECONDS, Script, Server

pytestmark = pytest.mark.e2e

TANH = r"stopped at op #2 tanh_0 .* breakpoint"


def serve(folder: Path, *words: str) -> Server:
    return Server("serve", *words, XDG_RUNTIME_DIR=str(folder))


def leave(terminal: Terminal, code: int = 0) -> None:
    terminal.type("quit")
    assert terminal.process.wait(SECONDS) == code


def test_a_terminal_debugs_what_the_server_has(tmp_path: Path):
    with serve(tmp_path) as server:
        early = Script(tmp_path, OPSTEP_SERVER=server.executors)
        with early.ready() as script:
            terminal = Terminal("attach", server.executors)
            terminal.expect(r"sharing the processes of the debug server at unix:")
            terminal.expect(rf"process {script.pid} \(.*forever.py .*\) has come")
            terminal.type("info programs")
            terminal.expect(rf"main .* process {script.pid}")
            terminal.type("tbreak tanh")
            terminal.expect(r"breakpoint 1$")
            terminal.type("break sum log sum is {out.sum():.1f}")
            terminal.type("stepi")
            terminal.expect(r"stopped at op #3 .*: step")
            terminal.type("finish run")
            terminal.expect(r"stopped after op #\d .*: step")
            terminal.type("print y.shape")
            terminal.expect(r"y.shape = \[4\]")
            terminal.type("where")
            terminal.expect(r"^\* 0 ")
            terminal.type("advance tanh")
            terminal.expect(r"stopped at op #2 tanh_0 .*: step")
            terminal.type("detach")
            terminal.expect(r"has ended, or left")
            leave(terminal)
            assert script.process.poll() is None


def test_each_has_breakpoints_of_its_own_and_sees_the_others_stops(tmp_path: Path):
    with serve(tmp_path) as server, Script(tmp_path, OPSTEP_SERVER=server.executors).ready():
        one, two = (Terminal("attach", server.executors) for _ in range(2))
        for terminal in (one, two):
            terminal.expect(r"has come")
        two.type("info breakpoints")
        two.expect(r"no breakpoints")
        # It runs, so this stops it: nothing else is typed, which might let it go on again.
        one.type("break tanh")
        one.expect(TANH + " 1$")
        two.expect(TANH + " of another client$")
        two.type("print step > 0")
        two.expect(r"step > 0 = True")
        two.type("continue")
        one.expect(r"thread 1 \(main\) goes on: another client of the server let it")
        one.expect(TANH + " 1$")
        two.expect(TANH + " of another client$")
        # What one had set goes with it, and the stop is the other's now.
        leave(one)
        two.type("stepi")
        two.expect(r"stopped at op #3 .*: step")
        two.type("catch nan")
        two.expect(r"catching")
        leave(two)


def test_processes_come_and_go_and_then_the_server(tmp_path: Path):
    server = serve(tmp_path)
    with server:
        terminal = Terminal("attach", server.executors)
        terminal.expect(r"sharing")
        terminal.type("where")
        terminal.expect(r"error: no process is here: 'continue' waits for one at unix:")
        terminal.type("break tanh")
        terminal.type("continue")
        with Script(tmp_path, OPSTEP_SERVER=server.executors, OPSTEP_WAIT="100") as script:
            terminal.expect(rf"process {script.pid} .*has come")
            terminal.expect(TANH + " 1$")
            terminal.type("kill")
            terminal.expect(rf"process {script.pid} .*has ended, or left")
            assert script.process.wait(SECONDS) == -15
    terminal.expect(r"the debug server at unix:\S+ is gone: 'quit' leaves the debugger")
    terminal.type("continue")
    terminal.expect(r"error: the debug server at unix:\S+ is gone")
    leave(terminal, 2)


def test_with_token_and_tls(tmp_path: Path):
    cert, key = make_certificate(tmp_path, "server")
    token, wrong = tmp_path / "token", tmp_path / "wrong"
    for path, text in ((token, "a-token-that-is-long-enough"), (wrong, "another-one-that-is-long")):
        path.write_text(text)
        path.chmod(0o600)
    words = ["--listen", "0.0.0.0:0", "--dap", "0.0.0.0:0", "--token-file", str(token)]
    with serve(tmp_path, *words, "--tls-cert", str(cert), "--tls-key", str(key)) as server:
        place = f"localhost:{server.executors.rpartition(':')[2]}"
        refused = attach(place, "--tls-ca", str(cert), "--token-file", str(wrong))
        assert "no debug server to share at localhost:" in refused
        assert "the token is missing or wrong" in refused
        terminal = Terminal("attach", place, "--tls-ca", str(cert), "--token-file", str(token))
        terminal.expect(r"sharing")
        env = {"OPSTEP_SERVER": place, "OPSTEP_TOKEN_FILE": str(token), "OPSTEP_TLS_CA": str(cert)}
        with Script(tmp_path, OPSTEP_WAIT="100", **env):
            terminal.expect(r"has come")
            terminal.type("pause")
            terminal.expect(r"stopped at op .*: pause")
            leave(terminal)


def attach(*words: str) -> str:
    result = subprocess.run(
        [*OPSTEP, "attach", *words], capture_output=True, text=True, timeout=SECONDS
    )
    assert (result.stdout, result.returncode) == ("", 2)
    return result.stderr


def test_a_terminal_shares_what_it_is_attached_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with Script(tmp_path).ready() as script:
        one = Terminal("attach", str(script.pid))
        one.expect(rf"attached to process {script.pid} ")
        words = [*OPSTEP, "log", str(script.pid), "tanh", "--count", "3"]
        logged = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
        assert logged.returncode == 0, logged.stderr
        assert len(logged.stdout.splitlines()) == 3
        two = Terminal("attach", str(script.pid))
        two.expect(rf"attached to process {script.pid} ")
        one.type("break tanh")
        one.expect(TANH + " 1$")
        two.expect(TANH + " of another client$")
        two.type("print step > 0")
        two.expect(r"step > 0 = True")
        # A stop of the second's is not taken for one of the first's own.
        one.type("delete")
        one.type("continue")
        two.type("break reduce_sum")
        two.expect(r"stopped at op #3 .* breakpoint 1$")
        one.expect(r"stopped at op #3 .* breakpoint of another client$")
        one.type("info threads")
        one.expect(r"stopped at op #3 .* breakpoint of another client$")
        one.type("break tanh")
        one.type("continue")
        one.expect(TANH + r" \d$")
        two.expect(TANH + " of another client$")
        # The second one leaves, and the first has what it had.
        leave(two)
        one.type("stepi")
        one.expect(r"stopped at op #3 .*: step")
        leave(one)
        assert "done" in script.finish()


MOVED = r"the debugger that had process \d+ has left: (this one|another one .*) has it now"


def test_when_the_first_terminal_leaves_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with Script(tmp_path).ready() as script:
        one = Terminal("attach", str(script.pid))
        one.expect(rf"attached to process {script.pid} ")
        others = [Terminal("attach", str(script.pid)) for _ in range(2)]
        two, three = others
        for each in others:
            each.expect(rf"attached to process {script.pid} ")
        two.type("break tanh")
        two.expect(TANH + " 1$")
        three.expect(TANH + " of another client$")
        leave(one)
        # The stop went with the first; its breakpoint makes the next one.
        two.expect(MOVED)
        three.expect(MOVED)
        two.expect(TANH + " 1$")
        three.expect(TANH + " of another client$")
        three.type("print step > 0")
        three.expect(r"step > 0 = True")
        two.type("delete 1")
        two.expect(r"deleted")
        three.type("break reduce_sum")
        three.expect(r"breakpoint 1 at")
        three.type("continue")
        three.expect(r"stopped at op #3 .* breakpoint 1$")
        leave(two)
        three.expect(MOVED)
        leave(three)
        assert "done" in script.finish()


@pytest.mark.parametrize("ending", ["leaves", "is killed"])
def test_a_log_goes_on_when_the_first_debugger_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with Script(tmp_path).ready() as script:
        one = Terminal("attach", str(script.pid))
        one.expect(rf"attached to process {script.pid} ")
        words = [*OPSTEP, "log", str(script.pid), "tanh", "--stats", "--count", "3000"]
        said = tmp_path / "stderr"
        with (
            said.open("w") as stderr,
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=stderr, text=True) as log,
        ):
            assert log.stdout is not None
            lines = [log.stdout.readline() for _ in range(10)]
            if ending == "leaves":
                leave(one)
            else:
                one.process.kill()
            lines += log.stdout.readlines()
            log.wait(SECONDS)
        errors = said.read_text()
        assert f"the debugger that had process {script.pid} has left: this one has it" in errors
        assert "has ended, or left" not in errors and log.returncode == 0
        head, counts = errors.splitlines()[-2:]
        counted = dict(zip(head.split()[1:], counts.split()[1:], strict=True))
        if ending == "leaves":
            # Both parts are counted together, and none of the records is left on the way.
            assert counted["produced"] == counted["delivered"] == "3,000"
            assert len(lines) == 3000 and "waiting" not in counted
        assert "done" in script.finish()


def test_a_terminal_goes_on_when_the_log_that_was_first_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with Script(tmp_path).ready() as script:
        words = [*OPSTEP, "log", str(script.pid), "tanh"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as log:
            assert log.stdout is not None and log.stdout.readline()
            two = Terminal("attach", str(script.pid))
            two.expect(rf"attached to process {script.pid} ")
            log.send_signal(signal.SIGINT)
            log.communicate(timeout=SECONDS)
        two.expect(MOVED)
        two.type("break tanh")
        two.expect(TANH + " 1$")
        # And the end of the process is an end.
        two.type("kill")
        two.expect(rf"process {script.pid} has ended")
        leave(two)


def test_guests_are_told_that_the_process_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with Script(tmp_path).ready() as script:
        one = Terminal("attach", str(script.pid))
        one.expect(rf"attached to process {script.pid} ")
        two = Terminal("attach", str(script.pid))
        two.expect(rf"attached to process {script.pid} ")
        script.process.kill()
        two.expect(rf"process {script.pid} has ended")
        leave(two)
        one.type("quit")
        one.process.wait(SECONDS)


def test_nobody_there(tmp_path: Path):
    assert "no debug server to share at unix:" in attach(f"unix:{tmp_path}/nowhere")
    assert "192.0.2.1:7 is on another machine: give --token-file and --tls-ca" in attach(
        "192.0.2.1:7"
    )
    assert "'train.py' is not an address: write unix:/path or host:port" in attach("train.py")
