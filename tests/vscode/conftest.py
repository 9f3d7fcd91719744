"""One server for each supported VS Code, one window for each test, and a workspace of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from code_server import CodeServer
    from playwright.sync_api import Browser
    from workbench import Workbench

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "ide_plugins" / "vscode"
PICTURES = ROOT / "build" / "vscode"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test may have to install VS Code, and a window takes its time."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def installations() -> Path:
    """Each code-server and a browser, installed by setup.sh (at once when they are there)."""
    environment = os.environ | {"OPSTEP_PYTHON": sys.executable}
    subprocess.run([Path(__file__).with_name("setup.sh")], env=environment, check=True, timeout=600)
    return Path(os.environ.get("OPSTEP_CACHE") or Path.home() / ".cache" / "opstep") / "vscode"


@pytest.fixture(scope="session")
def extension() -> Path:
    """The packaged extension, made anew when a source is newer."""
    vsix = PLUGIN / "opstep.vsix"
    names = ["package.json", "package-lock.json", "README.md", "tsconfig.json", ".vscodeignore"]
    folders = [PLUGIN / name for name in ("src", "syntaxes", "media", "tools")]
    sources = [PLUGIN / name for name in names]
    sources += [path for folder in folders for path in folder.rglob("*")]
    newest = max(path.stat().st_mtime for path in sources)
    if not vsix.exists() or vsix.stat().st_mtime < newest:
        subprocess.run([ROOT / "tools" / "vsix.sh"], check=True, timeout=300)
    return vsix


@pytest.fixture(scope="session")
def browser(installations: Path) -> Iterator[Browser]:
    # Imported late, here and below: only setup.sh makes sure that the browser driver is there.
    from workbench import open_browser

    chromium = shutil.which("chromium")
    assert chromium, "chromium is missing: run tests/vscode/setup.sh"
    with open_browser(chromium) as browser:
        yield browser


@pytest.fixture(scope="session", params=["newest", "oldest"])
def server(
    request: pytest.FixtureRequest,
    installations: Path,
    extension: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CodeServer]:
    """VS Code with the extension installed: the newest, then the oldest that is supported."""
    from code_server import CodeServer

    home = tmp_path_factory.mktemp(f"code-server-{request.param}")
    # Lets a page run tests in the extension host; older ones do so without being asked.
    options = {"newest": ["--vscode-option", "enable-smoke-test-driver"]}.get(request.param, [])
    with CodeServer(installations / request.param, home, extension, options) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with the examples, told which Python to use, without launch.json."""
    folder = tmp_path / "workspace"
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("__pycache__"))
    settings = folder / ".vscode" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"opstep.python": sys.executable}))
    return folder


@pytest.fixture
def workbench(
    request: pytest.FixtureRequest, server: CodeServer, browser: Browser, folder: Path
) -> Iterator[Workbench]:
    """A window of its own on the test's folder."""
    from workbench import Workbench, open_page

    with open_page(browser, server.url(folder)) as page:
        try:
            window = Workbench(page)
            yield window
        finally:
            # pytest shows this only when the test failed; the picture is always the last state.
            picture = PICTURES / f"{request.node.name}.png"
            picture.parent.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=picture)
            print(Workbench.describe(page))
        window.end_session()
