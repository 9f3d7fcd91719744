"""A real VS Code for tests: code-server with one extension installed, on a loopback port."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from waiting import processes

# Settings that keep the workbench still: nothing opens, asks or moves unless the test does it.
USER_SETTINGS = {
    "debug.openDebug": "openOnSessionStart",
    "editor.minimap.enabled": False,
    "editor.stickyScroll.enabled": False,
    "extensions.ignoreRecommendations": True,
    "telemetry.telemetryLevel": "off",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
    "chat.commandCenter.enabled": False,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "git.enabled": False,
}


class CodeServer:
    """Context manager: the server runs inside it, and its whole process group ends with it."""

    def __init__(
        self, installation: Path, home: Path, extension: Path, options: Sequence[str] = ()
    ) -> None:
        self._command = [str(installation / "node"), str(installation / "entry.js")]
        self._options = options
        self._home = home
        self._extension = extension
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, folder: Path) -> str:
        return f"http://127.0.0.1:{self._port}/?folder={folder}"

    @property
    def log(self) -> Path:
        return self._home / "code-server.log"

    def __enter__(self) -> CodeServer:
        settings = self._home / "data" / "User" / "settings.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps(USER_SETTINGS))
        config = self._home / "config.yaml"
        config.write_text(f"bind-addr: 127.0.0.1:{self._port}\nauth: none\ncert: false\n")
        places = [
            f"--config={config}",
            f"--user-data-dir={self._home / 'data'}",
            f"--extensions-dir={self._home / 'extensions'}",
        ]
        # No gallery: nothing is looked up outside this machine.
        environment = os.environ | {"EXTENSIONS_GALLERY": '{"serviceUrl":""}'}
        install = [*self._command, *places, "--install-extension", str(self._extension), "--force"]
        done = subprocess.run(install, env=environment, timeout=60, capture_output=True, text=True)
        assert done.returncode == 0, f"{self._extension} cannot be installed:\n{done.stderr}"
        serve = [
            *self._command,
            *places,
            "--auth=none",
            "--disable-telemetry",
            "--disable-update-check",
            "--disable-workspace-trust",
            "--disable-getting-started-override",
            "--disable-proxy",
            "--ignore-last-opened",
            *self._options,
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                serve, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        try:
            self._wait_until_healthy()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        for sign, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 10)):
            try:
                os.killpg(self._process.pid, sign)
                self._process.wait(patience)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        self._process = None

    def extension_host_memory(self) -> int:
        """What the extension hosts of all its windows hold, in bytes."""
        return self._memory("--type=extensionHost")

    def adapter_memory(self) -> int:
        """What the debug adapters of all its sessions hold, in bytes."""
        return self._memory("opstep_server dap")

    def _memory(self, command: str) -> int:
        found = [pid for pid in processes(command) if self._is_ours(pid)]
        assert found, f"there is no process '{command}'"
        statm = [Path(f"/proc/{pid}/statm").read_text().split() for pid in found]
        return sum(int(resident) for _, resident, *_ in statm) * os.sysconf("SC_PAGE_SIZE")

    def _is_ours(self, pid: int) -> bool:
        assert self._process is not None
        try:
            return os.getpgid(pid) == self._process.pid
        except ProcessLookupError:
            return False

    def _wait_until_healthy(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/healthz", timeout=2):
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"code-server did not come up:\n{self.log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
