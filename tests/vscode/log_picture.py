"""The picture of a tap log's page, taken in a real browser: `make pictures-vscode`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness import ROOT
from harness.log_folder import network

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_log_page(browser: Browser, tmp_path: Path) -> None:
    network(tmp_path / "logs")
    words = ["log", "report", "logs", "--html", "page.html"]
    command = [sys.executable, "-m", "opstep_server", *words]
    subprocess.run(command, check=True, timeout=100, cwd=tmp_path)
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_selector(".card canvas")
        page.locator("h1").evaluate("e => { e.textContent = 'Tap log /home/me/logs'; }")
        page.locator("#order").select_option("NaN and Inf first")
        page.wait_for_timeout(500)
        page.screenshot(path=ROOT / "docs" / "log_report.png")
