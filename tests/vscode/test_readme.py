"""The extension's own page in VS Code, with its pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.patience import until

if TYPE_CHECKING:
    from workbench import Workbench


def shown(workbench: Workbench, file: str) -> bool:
    # It has a set of sources, one for each density of screens.
    script = "images => images.map(image => [image.currentSrc, image.naturalWidth])"
    found = workbench.page.locator("img").evaluate_all(script)
    return any(file in source and width > 0 for source, width in found)


def test_the_page_and_the_walkthrough_with_its_pictures(workbench: Workbench) -> None:
    """Pages show pictures from https only; a walkthrough those that come with the extension."""
    page = workbench.page
    workbench.press("Control+Shift+x")
    page.locator('.extensions-list .monaco-list-row[aria-label^="opstep"]').first.click()
    webview = page.frame_locator("iframe.webview.ready").frame_locator("#active-frame")
    webview.locator("p", has_text="Pictures of all views").wait_for()
    assert webview.locator("img").count() == 0

    workbench.run_command("Welcome: Open Walkthrough")
    workbench.pick("Debug the ops of a network")
    steps = page.locator(".gettingStartedDetailsContent .getting-started-step")
    until("the steps", lambda: steps.count() == 5)
    for step, name in enumerate(("", "_tensor", "_ops", "_graph", "_colours")):
        steps.nth(step).click()
        until(f"picture {name}", lambda name=name: shown(workbench, f"vscode{name}.png"))
