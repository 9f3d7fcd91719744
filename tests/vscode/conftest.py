"""VS Code for the tests: two versions of it, and windows on workspaces with the examples.

- Every test runs in the newest VS Code. A test marked `both_versions` also runs in the oldest one
  that the extension supports. These are a few tests that together use each part of VS Code's API.
- Tests share one window, which is reset before each of them. A test marked `own_window` gets a new
  window on a new folder, for example because it reloads the window or writes settings.
- The view Ops stays unfolded in the shared window once a test has unfolded it.
- After a failed test the shared window is closed, and the next test gets a new one.
- With `-n 2` each process has its own servers, browser and shared window.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from code_server import CodeServer
    from playwright.sync_api import Browser
    from windows import SharedWindow, Window
    from workbench import Workbench
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "ide_plugins" / "vscode"
PICTURES = ROOT / "build" / "vscode"
REPORT = pytest.StashKey[pytest.TestReport]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "both_versions: runs in the oldest VS Code too")
    config.addinivalue_line("markers", "own_window: gets a new window on a new folder")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        both = metafunc.definition.get_closest_marker("both_versions")
        versions = ["newest", "oldest"] if both else ["newest"]
        metafunc.parametrize("server", versions, indirect=True, scope="session")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer | None) -> LoadScopeScheduling:
    """One of the processes of `-n 2` runs all tests in the oldest VS Code, and starts with them."""
    from xdist.scheduler import LoadScopeScheduling

    class OldestTogether(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "oldest" if "[oldest" in nodeid else nodeid

    return OldestTogether(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[pytest.TestReport]:
    report: pytest.TestReport = yield
    if report.when != "teardown":
        item.stash[REPORT] = report
    return report


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Keeps the processes of `-n 2` from building the same file at the same time."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with (PICTURES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_newer(target: Path, sources: Iterable[Path]) -> bool:
    """Whether the file was built after the last change of a source."""
    if not target.exists():
        return False
    return target.stat().st_mtime > max(path.stat().st_mtime for path in sources)


@pytest.fixture(scope="session")
def installations() -> Path:
    """Each code-server and a browser, installed by setup.sh unless they are there already."""
    environment = os.environ | {"OPSTEP_PYTHON": sys.executable}
    subprocess.run([Path(__file__).with_name("setup.sh")], env=environment, check=True)
    return Path(os.environ.get("OPSTEP_CACHE") or Path.home() / ".cache" / "opstep") / "vscode"


@pytest.fixture(scope="session")
def extension() -> Path:
    """The packaged extension, built again when a source is newer."""
    vsix = PLUGIN / "opstep.vsix"
    names = ["package.json", "package-lock.json", "README.md", "tsconfig.json", ".vscodeignore"]
    folders = [PLUGIN / name for name in ("src", "syntaxes", "media", "tools")]
    sources = [PLUGIN / name for name in names]
    sources += [path for folder in folders for path in folder.rglob("*")]
    with one_at_a_time():
        if not is_newer(vsix, sources):
            subprocess.run([ROOT / "tools" / "vsix.sh"], check=True)
    return vsix


@pytest.fixture(scope="session")
def host_tests(extension: Path) -> Path:
    """The tests for the extension host, as a file that VS Code loads."""
    bundle = PLUGIN / "dist" / "host" / "index.js"
    command = ["npm", "--prefix", str(PLUGIN), "run", "--silent", "bundle-host-tests"]
    with one_at_a_time():
        if not is_newer(bundle, [*(PLUGIN / "test" / "host").iterdir(), extension]):
            subprocess.run(command, check=True)
    return bundle


@pytest.fixture(scope="session")
def browser(installations: Path) -> Iterator[Browser]:
    # Imported late, here and below: only setup.sh makes sure that the browser driver is there.
    from workbench import open_browser

    chromium = shutil.which("chromium")
    assert chromium, "chromium is missing: run tests/vscode/setup.sh"
    with open_browser(chromium) as browser:
        yield browser


@pytest.fixture(scope="session")
def server(
    request: pytest.FixtureRequest,
    installations: Path,
    extension: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CodeServer]:
    """VS Code with the extension installed: the newest, or the oldest that is supported."""
    from code_server import CodeServer

    home = tmp_path_factory.mktemp(f"code-server-{request.param}")
    # Lets a page run tests in the extension host; the oldest has no such option and needs none.
    options = {"newest": ["--vscode-option", "enable-smoke-test-driver"]}.get(request.param, [])
    with CodeServer(installations / request.param, home, extension, options) as server:
        yield server


@pytest.fixture(scope="session")
def shared_window(
    server: CodeServer, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedWindow]:
    from windows import SharedWindow

    window = SharedWindow(browser, server, tmp_path_factory.mktemp("shared"))
    yield window
    window.close()


@pytest.fixture
def window(
    request: pytest.FixtureRequest,
    server: CodeServer,
    browser: Browser,
    shared_window: SharedWindow,
    tmp_path: Path,
) -> Iterator[Window]:
    """The test's window: the shared one after a reset, or a new one that is not open yet."""
    from windows import Window

    own = request.node.get_closest_marker("own_window")
    window = Window(browser, server, tmp_path / "workspace") if own else shared_window.take()
    usable = False
    try:
        yield window
        workbench = window.workbench
        report = request.node.stash.get(REPORT, None)
        failed = report is None or report.failed
        if workbench and failed:
            workbench.screenshot(PICTURES / f"{request.node.name}.png")
            print(workbench.describe(workbench.page))  # pytest shows this with the failure
        if workbench:
            workbench.end_session()
        usable = not failed and not own
    finally:
        if not usable:
            (window if own else shared_window).close()


@pytest.fixture
def folder(window: Window) -> Path:
    """The window's folder: a copy of the examples, with settings and without launch.json."""
    return window.folder


@pytest.fixture
def workbench(window: Window) -> Workbench:
    return window.open()
