"""A real VS Code for tests: code-server with one extension installed, on a loopback port."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from harness import patience
from harness.processes import processes

# Settings that keep the workbench still: nothing opens, asks or moves unless the test does it.
USER_SETTINGS = {
    "debug.openDebug": "openOnSessionStart",
    "debug.internalConsoleOptions": "neverOpen",
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

# Keys for what a test does to the window as a whole. Unlike VS Code's own keys none of them
# toggles, so that it does not matter what the window shows.
SHOW_CONSOLE = "Control+Alt+Shift+F1"
SHOW_EXPLORER = "Control+Alt+Shift+F2"
REFRESH_EXPLORER = "Control+Alt+Shift+F4"
CLEAR_WINDOW = "Control+Alt+Shift+F3"
KEY_BINDINGS = {
    SHOW_CONSOLE: ["workbench.debug.action.focusRepl"],
    SHOW_EXPLORER: ["workbench.view.explorer"],
    REFRESH_EXPLORER: ["workbench.files.action.refreshFilesExplorer"],
    CLEAR_WINDOW: [
        "workbench.debug.viewlet.action.removeAllBreakpoints",
        "workbench.action.closeAllEditors",
        "workbench.action.closePanel",
        "notifications.clearAll",
        "workbench.view.debug",  # the last one, and the one that can be seen: then all is done
    ],
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
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""

    def url(self, folder: Path) -> str:
        return f"{self._address}/?folder={folder}"

    @property
    def log(self) -> Path:
        return self._home / "code-server.log"

    def __enter__(self) -> CodeServer:
        settings = self._home / "data" / "User" / "settings.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps(USER_SETTINGS))
        bindings = [
            {
                "key": key.lower().replace("control", "ctrl"),
                "command": "runCommands",
                "args": {"commands": commands},
            }
            for key, commands in KEY_BINDINGS.items()
        ]
        settings.with_name("keybindings.json").write_text(json.dumps(bindings))
        config = self._home / "config.yaml"
        # Port 0: the system chooses a free one, and the log names it.
        config.write_text("bind-addr: 127.0.0.1:0\nauth: none\ncert: false\n")
        places = [
            f"--config={config}",
            f"--user-data-dir={self._home / 'data'}",
            f"--extensions-dir={self._home / 'extensions'}",
        ]
        # No gallery: nothing is looked up outside this machine.
        environment = os.environ | {"EXTENSIONS_GALLERY": '{"serviceUrl":""}'}
        install = [*self._command, *places, "--install-extension", str(self._extension), "--force"]
        done = subprocess.run(
            install, env=environment, timeout=patience.SECONDS, capture_output=True, text=True
        )
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
            self._address = self._wait_until_it_listens()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        for sign, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, patience.SECONDS)):
            try:
                os.killpg(self._process.pid, sign)
                self._process.wait(seconds)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        self._process = None

    def extension_host_memory(self) -> int:
        """The memory of the extension hosts of all its windows, in bytes."""
        return self._memory("--type=extensionHost")

    def adapter_memory(self) -> int:
        """The memory of the debug adapters of all its sessions, in bytes."""
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

    def _wait_until_it_listens(self) -> str:
        assert self._process is not None
        deadline = time.monotonic() + patience.SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            line = re.search(r"server listening on (http://[\d.:]+)", self.log.read_text())
            if line:
                return line[1]
            time.sleep(0.1)
        raise RuntimeError(f"code-server did not come up:\n{self.log.read_text()[-2000:]}")
