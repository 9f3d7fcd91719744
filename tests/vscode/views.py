"""The views that the extension adds: ops, the graph, values behind lines, the status bar."""

from __future__ import annotations

import re

from playwright.sync_api import FrameLocator, Locator, expect
from workbench import Editor, Workbench

from harness.patience import until


def current_op(workbench: Workbench) -> str:
    """The op on top of the call stack; empty while that has no ops yet."""
    stack = workbench.call_stack()
    match = re.match(r"(\S+) \(", stack[0]) if stack else None
    return match[1] if match else ""


def status(workbench: Workbench) -> str:
    """What the status bar says of the run."""
    item = workbench.page.locator('.statusbar-item[id="opstep.opstep.opstep.place"]')
    return "".join(item.all_inner_texts()).replace("\xa0", " ").strip()


def inline_value(editor: Editor, text: str) -> str:
    """What is shown behind the line in view that has the text."""
    line = editor.root.locator(".view-lines .view-line").filter(has_text=text).first
    shown: str = line.inner_text().replace("\xa0", " ")
    match = re.search(r"([\w.]+: )?(float|int|bool)\w*\[.*$", shown)
    return match[0] if match else ""


class Ops:
    """The Ops view in the side bar."""

    def __init__(self, workbench: Workbench) -> None:
        self.page = workbench.page
        header = self.page.locator('.pane-header[aria-label^="Ops"]')
        if header.get_attribute("aria-expanded") == "false":
            header.click()
        expect(header).to_have_attribute("aria-expanded", "true")
        self.root = self.page.locator('.pane:has(> .pane-header[aria-label^="Ops"])')

    def rows(self) -> list[str]:
        """The label of each row in view."""
        rows = self.root.locator(".monaco-list-row")
        labels: list[str] = rows.evaluate_all("rows => rows.map(r => r.ariaLabel)")
        return labels

    def row(self, op: str) -> Locator:
        """The row of the op, scrolled to: rows out of view are not in the page."""
        row = self.root.locator(f'.monaco-list-row[aria-label^="{op},"]')
        down = 44

        def found() -> bool:
            nonlocal down
            if row.count():
                return True
            if self._is_at_end(down):
                down = -down
            self.root.locator(".monaco-list").hover()
            self.page.mouse.wheel(0, down)
            return False

        until(f"a row of {op}", found)
        return row

    def _is_at_end(self, down: int) -> bool:
        """Whether the list cannot be scrolled any further in this direction."""
        at_end: bool = self.root.locator(".monaco-list .scrollbar.vertical").evaluate(
            """(bar, down) => {
                const [all, part] = [bar, bar.querySelector('.slider')].map(
                    element => element.getBoundingClientRect());
                return down > 0 ? part.bottom > all.bottom - 1 : part.top < all.top + 1;
            }""",
            down,
        )
        return at_end

    def toggle_breakpoint(self, op: str) -> None:
        row = self.row(op)
        row.hover()
        row.locator('.action-label[aria-label^="Toggle Breakpoint on Op"]').click()


class Graph:
    """The graph view, which must be open."""

    def __init__(self, workbench: Workbench) -> None:
        self.workbench = workbench
        self.frame = Graph.frame_of(workbench)
        self.frame.locator("#graph .op").first.wait_for()

    @staticmethod
    def frame_of(workbench: Workbench) -> FrameLocator:
        outer = workbench.page.frame_locator("iframe.webview.ready")
        return outer.frame_locator("#active-frame")

    def op(self, name: str) -> Locator:
        return self.frame.locator(f'#graph .op[aria-label^="{name},"]')

    def names(self, kind: str = "op") -> list[str]:
        """The ops in view that are dressed like that."""
        boxes = self.frame.locator(f"#graph .op.{kind} > .name")
        return boxes.all_text_contents()

    def expect_current(self, name: str) -> None:
        until(f"{name} to be highlighted", lambda: self.names("current") == [name])
        expect(self.op(name)).to_be_in_viewport()

    def toggle_breakpoint(self, name: str) -> None:
        self.op(name).locator(".gutter").click()

    def value(self, name: str) -> str:
        """What the op's box says of its value."""
        return self.op(name).locator(".value").text_content() or ""

    def fill(self, name: str) -> str:
        """The colour of the op's box."""
        box = self.op(name).locator("rect").first
        colour: str = box.evaluate("box => getComputedStyle(box).fill")
        return colour

    def details(self) -> str:
        return self.frame.locator("#details").inner_text()
