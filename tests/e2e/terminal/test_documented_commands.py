"""Every command in the documents is run for real; names in them are those of a prepared folder.

A command of a new kind fails `kind` until it is said here how it is run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.documented_commands import commands, make_folder, typed
from harness.patience import SECONDS
from opstep_server import doorbell

pytestmark = pytest.mark.e2e

ALL = commands()
BIN = Path(sys.executable).parent


def kind(command: str) -> str:
    """How it is run: up to its end, with an end typed to it, at a terminal, or interrupted."""
    words = [word for word in shlex.split(command) if not re.fullmatch(r"[A-Z_]+=.*", word)]
    if words[0] == "python":
        return "ends"
    name = words[1]
    if name in ("run", "show", "records", "ps"):
        return "ends"
    if name in ("debug", "attach"):
        return "ends" if "--batch" in words else "typed"
    if name in ("serve", "collect"):
        return "interrupted"
    if name == "log":
        if words[2] == "report" or "--once" in words or "--list" in words or "--remove" in words:
            return "ends"
        return "shown" if words[2] == "view" else "logs"
    raise AssertionError(f"nobody knows how to run 'opstep {name}'")


@dataclass
class Place:
    folder: Path
    pid: int
    ports: dict[str, int]

    def __call__(self, command: str) -> str:
        """With what there is for what the documents say."""
        command = command.replace("4711", str(self.pid))
        command = re.sub(r"/tmp/|/run/user/1000/opstep/", f"{self.folder}/", command)
        for number, port in self.ports.items():
            command = re.sub(rf"[\d.]+:{number}", f"127.0.0.1:{port}", command)
        return command if shutil.which("dot") else command.replace("dot -Tsvg", "cat")

    @property
    def env(self) -> dict[str, str]:
        path = f"{BIN}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "XDG_STATE_HOME": str(self.folder), "TERM": "xterm"}

    def start(self, command: str, **how: int) -> subprocess.Popen[str]:
        # exec, so that a signal comes to the command and not to the shell.
        line = self(command)
        simple = "|" not in line and "=" not in line.split()[0]
        return subprocess.Popen(
            ["bash", "-c", f"set -o pipefail; {'exec ' if simple else ''}{line}"],
            cwd=self.folder, env=self.env, text=True,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
               **how},
        )  # fmt: skip

    def run(self, command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        with self.start(command, stdin=subprocess.PIPE) as process:
            out, err = process.communicate(stdin, timeout=SECONDS)
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextlib.contextmanager
def training(folder: Path, **env: str) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "train.py", "--forever"],
        cwd=folder, env={**os.environ, **env}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process.pid
        process.communicate("", timeout=SECONDS)
    assert process.returncode == 0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("documented")
    make_folder(folder)
    with training(folder) as pid:
        place = Place(folder, pid, {"7001": free_port(), "7002": free_port()})
        # What 'opstep log view' and 'report' show.
        logged = place.run("opstep run --taps all.toml train.py")
        assert logged.returncode == 0, logged.stderr
        yield place


@pytest.fixture(scope="module")
def server(place: Place) -> Iterator[None]:
    """At the address that the documents use, with a process."""
    serving = place.start("opstep serve --listen unix:/tmp/server --dap unix:/tmp/dap")
    with serving:
        wait_for(serving, 2)
        with training(place.folder, OPSTEP_SERVER=f"unix:{place.folder}/server"):
            yield
        serving.send_signal(signal.SIGINT)
        serving.communicate(timeout=SECONDS)


def wait_for(process: subprocess.Popen[str], lines: int) -> str:
    """What it says first on its standard error."""
    assert process.stderr is not None
    return "".join(process.stderr.readline() for _ in range(lines))


def of(*kinds: str) -> pytest.MarkDecorator:
    chosen = [pytest.param(text, id=f"{at} {text}") for at, text in ALL if kind(text) in kinds]
    return pytest.mark.parametrize("command", chosen)


def test_there_are_commands_in_the_documents():
    assert len(ALL) > 40
    assert all(kind(text) for _, text in ALL)
    assert {place.partition(":")[0] for place, _ in ALL} >= {"README.md", "docs/cli.md"}


@of("ends")
def test_it_ends_well(command: str, place: Place):
    if "--remove" in command:
        pytest.skip("with what it removes, in test_taps_are_set_and_removed")
    if "OPSTEP_SERVER" in command:
        with place.start("opstep collect --taps taps.toml --listen unix:/tmp/taps") as collect:
            wait_for(collect, 1)
            result = place.run(command)
            collect.send_signal(signal.SIGINT)
            collect.communicate(timeout=SECONDS)
    else:
        result = place.run(command)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "rror" not in result.stderr, result.stderr


@of("typed")
@pytest.mark.usefixtures("server")
def test_its_prompt_answers(command: str, place: Place):
    begin = "run\n" if " debug " in command else ""
    result = place.run(command, f"{begin}help where\nquit\n")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "show the stack" in result.stdout
    assert "rror" not in result.stderr, result.stderr


@of("interrupted")
def test_it_serves_until_ctrl_c(command: str, place: Place):
    with place.start(command) as process:
        said = wait_for(process, 1)
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=SECONDS)[1]
    assert process.returncode in (0, 130, -signal.SIGINT), said + rest
    assert "Traceback" not in said + rest, said + rest
    assert re.search(r"unix:|127\.0\.0\.1:", said), said


@of("shown")
def test_it_shows_itself_at_a_terminal(command: str, place: Place):
    ours, theirs = pty.openpty()
    process = place.start(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    until = time.monotonic() + SECONDS
    try:
        while b"fc_0" not in seen and b"conv" not in seen and time.monotonic() < until:
            assert select.select([ours], [], [], SECONDS)[0], seen
            seen += os.read(ours, 65536)
        os.write(ours, b"q")
        with contextlib.suppress(OSError):  # Its end closes the terminal.
            while os.read(ours, 65536):
                pass
        assert process.wait(SECONDS) == 0, seen
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def taps(place: Place, command: str) -> int:
    """How many there are where the command sets its own."""
    listed = place.run(f"opstep log {command.split()[2]} --list").stdout
    return listed.count("(opstep log)")


def has_server(pid: int) -> bool:
    """Asked at its doorbell, which leaves it alone."""
    return any(each.pid == pid and each.server for each in asyncio.run(doorbell.running()))


@pytest.mark.usefixtures("server")
def test_taps_are_set_and_removed(place: Place):
    """As several people would; each says how many records it had."""
    logs = [text for _, text in ALL if kind(text) == "logs"]
    assert any("isnan(out).any()" in text for text in logs)
    with training(place.folder) as pid:
        _set_and_remove(replace(place, pid=pid), logs)


def _set_and_remove(place: Place, logs: list[str]) -> None:
    running: list[subprocess.Popen[str]] = []
    for text in logs:
        # The first one serves the process to the others, also to those that only list.
        first = "4711" in text and not has_server(place.pid)
        before = 0 if first else taps(place, text)
        running.append(place.start(text))
        until = time.monotonic() + SECONDS
        while (not has_server(place.pid)) if first else taps(place, text) <= before:
            for other, process in zip(logs, running, strict=False):
                assert process.poll() is None, (other, process.communicate())
            assert time.monotonic() < until, text
    for _, text in ALL:
        if "--remove" in text:
            removed = place.run(text)
            assert removed.returncode == 0 and "removed" in removed.stdout, removed.stderr
    for text, process in reversed(list(zip(logs, running, strict=True))):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
        if process.returncode == -signal.SIGINT and "was removed" in err:
            continue  # It was ending by itself, which on a busy machine takes a while.
        assert process.returncode == 0, (text, err)
        assert "there is no" not in err and "cannot" not in err, (text, err)
        assert "produced" in out + err, (text, out, err)


def test_what_is_typed_at_the_prompt(place: Place):
    options = [word for _, text in typed() for word in ("-ex", text)]
    words = shlex.join(["opstep", "debug", "--batch", *options, "-ex", "run", "train.py"])
    result = place.run(words)
    assert result.returncode == 0, result.stdout
