"""The extension's tests with the real `vscode` API: they run in the extension host of a window."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from harness.patience import until

if TYPE_CHECKING:
    from code_server import CodeServer
    from playwright.sync_api import Browser


@pytest.mark.both_versions
@pytest.mark.own_window
def test_in_the_extension_host(
    server: CodeServer, browser: Browser, folder: Path, extension: Path, host_tests: Path
) -> None:
    from workbench import open_page

    code = (folder / "loop.py").read_text().split("exe = ")[0] + "print(main)\n"
    listing = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    (folder / "newton.opstep").write_bytes(listing.stdout)

    ended: list[int] = []
    said: list[str] = []
    host = server.url(folder).split("/")[2]
    payload = [
        ["extensionDevelopmentPath", f"vscode-remote://{host}{extension.parent}"],
        ["extensionTestsPath", f"vscode-remote://{host}{host_tests}"],
    ]
    functions = {
        "codeAutomationExit": lambda code, *_: ended.append(code),
        "codeAutomationLog": lambda kind, words: said.append(f"{kind}: {words}"),
    }
    url = f"{server.url(folder)}&payload={quote(json.dumps(payload))}"
    with open_page(browser, url, functions) as page:

        def over() -> bool:
            page.wait_for_timeout(100)  # Calls out of the page arrive while Playwright waits.
            return bool(ended)

        until("the end of the tests", over)
    assert ended == [0], "\n".join(line for line in said if "passed:" in line or "error" in line)
