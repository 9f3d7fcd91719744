"""Real processes for tests of attaching: scripts, servers, and clients at a socket."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from harness import PROGRAMS, TESTS, dap_client
from harness.patience import SECONDS, wait_until as wait_until

OPSTEP = (sys.executable, "-m", "opstep_server")


def run_file(path: str, *words: str, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """Runs a test's own file as a script: what crashes there is only that process."""
    return subprocess.run(
        [sys.executable, path, *words],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=seconds,
    )


class Script:
    """A script that the test started without a debugger; it ends when the file `until` exists."""

    def __init__(self, folder: Path, *args: str, script: Path | None = None, **env: str) -> None:
        self.until = folder / f"until-{time.monotonic_ns()}"
        command = [sys.executable, str(script or PROGRAMS / "forever.py")]
        self.process = subprocess.Popen(
            [*command, "--until", str(self.until), *args],
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._output = ""

    @property
    def pid(self) -> int:
        return self.process.pid

    def prints(self, text: str) -> str:
        """Waits for a line with the text."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._output += line
            if text in line:
                return line
        raise AssertionError(f"never printed {text!r}: {self._output}")

    def ready(self) -> Script:
        """Waits for the end of its first run, when it has a doorbell."""
        self.prints("first run")
        return self

    def finish(self) -> str:
        """Everything it printed, after a successful end."""
        self.until.touch()
        output, _ = self.process.communicate(timeout=SECONDS)
        assert self.process.returncode == 0, self._output + output
        return self._output + output

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: Any) -> None:
        # Its children too, which hold the pipe.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.communicate()


class Server:
    """`opstep serve` or `opstep dap --listen`."""

    def __init__(self, *words: str, **env: str) -> None:
        self.process = subprocess.Popen(
            [*OPSTEP, *words],
            env={**os.environ, **env},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = ""
        assert self.process.stderr is not None
        wanted = ["clients connect to"] + (["executors dial"] if words[0] == "serve" else [])
        while not all(what in self.said for what in wanted):
            line = self.process.stderr.readline()
            assert line, f"ended at once: {self.said}"
            self.said += line
        # Reads the rest, or the process would block when the pipe is full.
        self._drain = threading.Thread(target=self._read, daemon=True)
        self._drain.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    @property
    def clients(self) -> str:
        return self._find(r"clients connect to (\S+)")

    @property
    def executors(self) -> str:
        return self._find(r"executors dial (\S+)")

    @property
    def token_file(self) -> str:
        return self._find(r"token in (\S+)")

    @property
    def token(self) -> str:
        return Path(self.token_file).read_text().strip()

    def _find(self, pattern: str) -> str:
        found = re.search(pattern, self.said)
        assert found, self.said
        return found[1]

    def connect(self) -> socket.socket:
        return connect(self.clients)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        code = self.process.wait(SECONDS)
        self._drain.join(SECONDS)
        if kind is None:
            assert code in (0, -signal.SIGKILL), self.said
            assert "Traceback" not in self.said, self.said


def connect(address: str) -> socket.socket:
    if address.startswith("unix:"):
        client = socket.socket(socket.AF_UNIX)
        client.connect(address.removeprefix("unix:"))
    else:
        host, _, port = address.rpartition(":")
        client = socket.create_connection((host, int(port)))
    client.settimeout(SECONDS)
    return client


class _Connection:
    """A socket in place of the harness's adapter process."""

    def __init__(self, client: socket.socket) -> None:
        self.socket = client
        self.stdin = client.makefile("wb")
        self.stdout = client.makefile("rb")
        self.stderr = io.BytesIO()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, seconds: float | None = None) -> int:
        self.returncode = 0
        return 0

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class Client(dap_client.Session):
    """The strict client, at a socket."""

    def __init__(self, address: str, token: str | None = None) -> None:
        super().__init__()
        self._address = address
        self._token = token

    def __enter__(self) -> Client:
        self.process: Any = _Connection(connect(self._address))
        self._stderr = b""
        self._threads = [threading.Thread(target=self._read, daemon=True)]
        self._threads[0].start()
        return self

    def vanish(self) -> None:
        super().vanish()
        self.process.kill()
        self._open.clear()

    def initialize(self, **more: Any) -> dap_client.Json:
        if self._token is not None:
            more["opstepToken"] = self._token
        return super().initialize(**more)


def attach(
    session: dap_client.Session,
    arguments: dap_client.Json,
    *,
    functions: list[dap_client.Json] | None = None,
    filters: list[str] | None = None,
) -> list[dap_client.Json]:
    """From `initialize` to the attach's response, as VS Code does it; returns the breakpoints."""
    session.initialize()
    attached = session.send("attach", arguments)
    body = session.request("setFunctionBreakpoints", {"breakpoints": functions or []})
    session.request("setExceptionBreakpoints", {"filters": filters or []})
    session.request("configurationDone")
    session.response(attached)
    return list(body["breakpoints"])


def processes(*words: str) -> list[int]:
    """The running processes whose command line has all these words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(word in command for word in words):
            found.append(int(path.parent.name))
    return found
