"""A person debugs the digits example in a real VS Code: click, F5, look, step, continue, stop."""

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
    from workbench import Workbench

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "ide_plugins" / "vscode"
PICTURES = ROOT / "build" / "vscode"
SCRIPT = "digits_mlp.py"


@pytest.fixture(scope="module")
def installation() -> Path:
    """A code-server and a browser, installed by setup.sh (at once when they are there already)."""
    environment = os.environ | {"OPSTEP_PYTHON": sys.executable}
    subprocess.run([Path(__file__).with_name("setup.sh")], env=environment, check=True, timeout=600)
    cache = Path(os.environ.get("OPSTEP_CACHE") or Path.home() / ".cache" / "opstep")
    return cache / "vscode" / "current"


@pytest.fixture(scope="module")
def extension() -> Path:
    """The packaged extension, made anew when a source is newer."""
    vsix = PLUGIN / "opstep.vsix"
    names = ["package.json", "package-lock.json", "README.md", "tsconfig.json", ".vscodeignore"]
    folders = [PLUGIN / name for name in ("src", "syntaxes", "media")]
    sources = [PLUGIN / name for name in names]
    sources += [path for folder in folders for path in folder.rglob("*")]
    newest = max(path.stat().st_mtime for path in sources)
    if not vsix.exists() or vsix.stat().st_mtime < newest:
        subprocess.run([ROOT / "tools" / "vsix.sh"], check=True, timeout=300)
    return vsix


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
    installation: Path, extension: Path, folder: Path, tmp_path: Path
) -> Iterator[Workbench]:
    # Imported late: only setup.sh makes sure that the browser driver is there.
    from code_server import CodeServer
    from workbench import Workbench, open_browser

    chromium = shutil.which("chromium")
    assert chromium, "chromium is missing: run tests/vscode/setup.sh"
    home = tmp_path / "code-server"
    home.mkdir()
    with (
        CodeServer(installation, home, extension) as server,
        open_browser(server.url(folder), chromium) as page,
    ):
        window = Workbench(page)
        try:
            yield window
        finally:
            # pytest shows this only when the test failed; the picture is always the last state.
            window.screenshot(PICTURES / "last.png")
            print(window.describe())


def processes(*words: str) -> list[str]:
    """Command lines of the running processes that have all these words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(word in command for word in words):
            found.append(command.strip())
    return found


@pytest.mark.vscode
@pytest.mark.timeout(400)
def test_debug_the_digits_example(workbench: Workbench, folder: Path) -> None:
    from workbench import until

    source = (folder / SCRIPT).read_text().splitlines()
    line = next(at for at, text in enumerate(source, 1) if "layers.fc(" in text)

    # Click beside the layer's line and start, with no launch.json anywhere.
    editor = workbench.open(SCRIPT)
    workbench.widen_side_bar(480)
    editor.click_gutter(line)
    workbench.press("F5")
    until(f"a stop at line {line}", lambda: editor.stopped_lines() == [line], 60)
    until("the breakpoint to be verified", lambda: editor.breakpoints() == [line], 10)
    assert not list(folder.rglob("launch.json"))

    # The op is on top of the stack, then the run, then the script's own frame that called it.
    def script_below_the_op() -> list[str] | None:
        frames = workbench.call_stack()
        return frames if any(SCRIPT in frame for frame in frames[1:]) else None

    stack = until("the call stack down to the script", script_below_the_op)
    assert "fc_0" in stack[0] and f"{line}:" in stack[0], stack
    assert any(frame.startswith("run ") for frame in stack), stack

    # Its tensors are in Variables.
    workbench.expand_scope("Inputs")
    tensors = until(
        "tensors in Variables",
        lambda: {n: v for n, v in workbench.variables().items() if v.startswith("float32[")},
    )
    for scope in ("Outputs", "Attributes"):
        assert workbench.scope(scope).is_visible(), scope

    # The Debug Console answers.
    assert workbench.evaluate("1 + 2") == "3"
    assert "64" in workbench.evaluate("x.shape")
    assert "float32[32, 32]" in workbench.evaluate("x @ fc_0.w")
    workbench.screenshot(PICTURES / "stopped.png")

    # A tensor opens into its rows.
    workbench.expand_variable(next(iter(tensors)))
    until("its rows", lambda: [name for name in workbench.variables() if name.startswith("[0")])

    # F10 goes to another line; continuing comes back to the breakpoint.
    editor.root.locator(".view-lines").click()
    workbench.press("F10")
    (other,) = until("a step to another line", lambda: set(editor.stopped_lines()) - {line})
    assert other > line
    workbench.press("F5")
    until(f"the next stop at line {line}", lambda: editor.stopped_lines() == [line])

    # Stop ends the session, the adapter and the script.
    assert processes(str(folder / SCRIPT))
    workbench.toolbar("stop").click()
    workbench.expect_session(running=False)
    until("the script's end", lambda: not processes(str(folder / SCRIPT)), 10)
    assert editor.stopped_lines() == []
    assert workbench.notifications() == []
