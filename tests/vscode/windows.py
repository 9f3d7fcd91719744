"""Windows of VS Code on workspaces with the examples; one of them is shared by many tests."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from contextlib import ExitStack
from pathlib import Path

from code_server import CodeServer
from playwright.sync_api import Browser, Error as PlaywrightError
from workbench import Workbench, open_page

from harness.patience import until
from harness.processes import processes

EXAMPLES = Path(__file__).parents[2] / "examples"


class Window:
    """A workspace folder, and a window on it once a test asks for that."""

    def __init__(self, browser: Browser, server: CodeServer, folder: Path) -> None:
        self.folder = folder
        self.workbench: Workbench | None = None
        self._browser = browser
        self._server = server
        self._page = ExitStack()
        shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("__pycache__"))
        # Says which Python to use. There is no launch.json.
        settings = folder / ".vscode" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"opstep.python": sys.executable}))
        self._files = self._read_files()

    def open(self) -> Workbench:
        """The window, opened at the first call: by then a test has written its settings."""
        if self.workbench is None:
            page = self._page.enter_context(open_page(self._browser, self._server.url(self.folder)))
            self.workbench = Workbench(page)
        return self.workbench

    def close(self) -> None:
        self.workbench = None
        self._page.close()

    def reset(self) -> None:
        """Make the window and the folder what they were when the window was opened.

        Raises AssertionError or Playwright's Error if that is not possible.
        """
        workbench = self.open()
        workbench.reset()
        until("the end of the scripts", lambda: not processes(f"{self.folder}/"))
        self._remove_new_files()
        names = {path.name for path in self.folder.iterdir()}
        until("the files in the explorer", lambda: workbench.files() == names)

    def _read_files(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

    def _remove_new_files(self) -> None:
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path.is_file() and path not in self._files:
                path.unlink()
            elif path.is_dir() and not any(path in file.parents for file in self._files):
                shutil.rmtree(path)
        # An editor may still hold the other text: a test that changes a file needs its own window.
        files = self._read_files()
        changed = {path.name for path, text in self._files.items() if files.get(path) != text}
        assert not changed, f"files were changed: {changed}"


class SharedWindow:
    """One window for many tests. Each of them gets it as if it were new."""

    def __init__(self, browser: Browser, server: CodeServer, folder: Path) -> None:
        self._browser = browser
        self._server = server
        self._folder = folder
        self._number = 0
        self._window: Window | None = None

    def take(self) -> Window:
        """The window of the last test after a reset, or a new one."""
        if self._window:
            try:
                self._window.reset()
                return self._window
            except (AssertionError, PlaywrightError) as problem:
                warnings.warn(f"a new window, because the reset failed: {problem}", stacklevel=1)
                self.close()
        self._number += 1
        folder = self._folder / f"workspace-{self._number}"
        self._window = Window(self._browser, self._server, folder)
        self._window.open()
        return self._window

    def close(self) -> None:
        """The next test gets a new window."""
        window, self._window = self._window, None
        if window:
            window.close()
