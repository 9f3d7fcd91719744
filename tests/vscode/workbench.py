"""The parts of the VS Code window that a person debugging looks at and clicks on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import (
    Browser,
    Locator,
    Page,
    TimeoutError as PlaywrightTimeout,
    expect,
    sync_playwright,
)
from waiting import until

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def open_browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def open_page(
    browser: Browser, url: str, functions: Mapping[str, Callable[..., object]] | None = None
) -> Iterator[Page]:
    """A page that shares nothing with earlier ones; it may call the functions."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(30_000)
    for name, function in (functions or {}).items():
        page.expose_function(name, function)
    page.goto(url)
    try:
        yield page
    finally:
        # Left like this the window says goodbye, and its extension host ends at once.
        page.goto("about:blank")
        context.close()


def _expand(row: Locator) -> None:
    if row.get_attribute("aria-expanded") == "false":
        row.click()
    expect(row).to_have_attribute("aria-expanded", "true")


class Workbench:
    def __init__(self, page: Page) -> None:
        self.page = page
        page.locator(".monaco-workbench .explorer-folders-view").wait_for(timeout=60_000)

    def reload(self) -> None:
        """Load the window anew; its editors come back, its session does not."""
        self.press("F1")
        box = self.page.locator(".quick-input-widget input").first
        box.fill(">Developer: Reload Window")
        row = self.page.locator(".quick-input-widget .monaco-list-row")
        # By a command, not by the browser: only so what is open is written down before.
        with self.page.expect_navigation():
            row.filter(has_text="Reload Window").first.click()
        self.page.locator(".monaco-workbench .part.editor .tab").first.wait_for(timeout=60_000)

    # --- editor ---------------------------------------------------------------------------------

    def open(self, name: str) -> Editor:
        explorer = self.page.locator('.activitybar .action-item:has([aria-label^="Explorer"])')
        if "checked" not in (explorer.get_attribute("class") or ""):
            explorer.click()
        row = f'.explorer-folders-view .monaco-list-row[aria-label^="{name}"]'
        self.page.locator(row).dblclick()
        if name.endswith(".py"):
            self.expect_extension()
        return Editor(self, name)

    def expect_extension(self) -> None:
        """Until a Python file in the editor has opstep's button, keys and commands are lost."""
        self.page.locator(".editor-actions .codicon-debug-alt").first.wait_for()

    def open_listing(self, name: str) -> Editor:
        """The listing of a program, from the sources that the adapter names."""
        self.run_command("Debug: Focus on Loaded Scripts View")
        row = self.page.locator(".debug-loaded-scripts .monaco-list-row").filter(has_text=name)
        tab = self.page.locator(f'.tabs-container .tab[data-resource-name="{name}"]')

        def opened() -> bool:
            row.click()  # While the list is still being filled, a click is lost.
            self.page.wait_for_timeout(1_000)
            return tab.is_visible()

        until(f"{name} to open", opened)
        # Seen once: "The editor could not be opened due to an unexpected error". Why is not known.
        again = self.page.locator(".editor-instance, .monaco-editor-pane-placeholder").locator(
            "text=Try Again"
        )
        if again.first.is_visible():
            again.first.click()
        return Editor(self, name)

    def widen_side_bar(self, to: int) -> None:
        """Room for tensors: drag the edge between side bar and editor."""
        side_bar = self.page.locator(".part.sidebar").bounding_box()
        assert side_bar
        y = side_bar["y"] + side_bar["height"] / 2
        self.page.mouse.move(side_bar["x"] + side_bar["width"], y)
        self.page.mouse.down()
        self.page.mouse.move(side_bar["x"] + to, y, steps=5)
        self.page.mouse.up()

    def run_command(self, title: str) -> None:
        """Choose a command by its title in the palette."""
        box = self.page.locator(".quick-input-widget input").first
        row = self.page.locator(".quick-input-widget .monaco-list-row").filter(has_text=title).first

        def listed() -> bool:
            self.press("F1")
            box.wait_for()
            box.fill(f">{title}")
            try:
                row.wait_for(timeout=5_000)
            except PlaywrightTimeout:
                self.press(
                    "Escape"
                )  # A command may come to the window after the palette was opened.
                return False
            return True

        until(f"the command {title}", listed)
        self.pick(title)

    def pick(self, text: str) -> None:
        """Choose the row with this text in the list that VS Code shows on top."""
        rows = self.page.locator(".quick-input-widget .monaco-list-row")
        row = rows.filter(has_text=text).first
        row.click()
        expect(row).to_be_hidden()

    # --- the session ----------------------------------------------------------------------------

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)

    def toolbar(self, action: str) -> Locator:
        return self.page.locator(f".debug-toolbar .codicon-debug-{action}").first

    def expect_session(self, running: bool) -> None:
        end = self._end_button()
        if running:
            expect(end).to_be_visible(timeout=60_000)
        else:
            expect(end).to_be_hidden(timeout=20_000)

    def _end_button(self) -> Locator:
        """What was launched is stopped, what was attached to is left."""
        return self.toolbar("stop").or_(self.toolbar("disconnect")).first

    def end_session(self) -> None:
        """Stop what a test left running, so that no script outlives its window."""
        if self._end_button().is_visible():
            self._end_button().click()
            self.expect_session(running=False)

    def call_stack(self) -> list[str]:
        return self.page.locator(".debug-call-stack .monaco-list-row").all_inner_texts()

    def scope(self, name: str) -> Locator:
        return self.page.locator(f'.debug-variables .monaco-list-row[aria-label^="Scope {name}"]')

    def expand_scope(self, name: str) -> None:
        scope = self.scope(name)
        expect(scope).to_be_visible()
        _expand(scope)

    def expand_variable(self, name: str) -> None:
        rows = self.page.locator(".debug-variables .monaco-list-row")
        _expand(rows.filter(has=self.page.locator(".expression .name", has_text=name)).first)

    def variables(self) -> dict[str, str]:
        """Name and value of each row that is in view."""
        rows = self.page.locator(".debug-variables .monaco-list-row .expression:has(.value)")
        pairs = rows.evaluate_all(
            "rows => rows.map(row => [row.querySelector('.name').innerText,"
            " row.querySelector('.value').innerText])"
        )
        return {re.sub(r"\s*[:=]\s*$", "", name).strip(): value.strip() for name, value in pairs}

    def evaluate(self, expression: str) -> str:
        """Type into the Debug Console and return the answer."""
        answers = self.page.locator(".repl .repl-tree .monaco-list-row .evaluation-result")
        before = answers.count()
        prompt = self.page.locator(".repl-input-wrapper .monaco-editor")
        if not prompt.is_visible():
            self.press("Control+Shift+Y")
        prompt.click()
        self.page.keyboard.insert_text(expression)
        expect(prompt).to_contain_text(expression.split()[0])
        self.press("Enter")
        expect(answers).to_have_count(before + 1)
        return answers.last.inner_text().strip()

    def console(self) -> list[str]:
        """What is in view of the Debug Console."""
        if not self.page.locator(".repl").is_visible():
            self.press("Control+Shift+Y")
        return self.page.locator(".repl .repl-tree .monaco-list-row").all_inner_texts()

    def set_exception_filter(self, label: str, on: bool) -> None:
        """Tick or clear a filter in the Breakpoints view."""
        row = self.page.locator(f'.debug-breakpoints .monaco-list-row[aria-label^="{label}"]')
        row.wait_for()
        if row.get_attribute("aria-checked") != str(on).lower():
            row.locator("input[type=checkbox], .monaco-checkbox").click()
        expect(row).to_have_attribute("aria-checked", str(on).lower())

    def notifications(self) -> list[str]:
        """All that was told and not cleared; a window that just opened keeps it behind the bell.

        That a slow machine still starts extensions is VS Code's own business.
        """
        items = self.page.locator(".notification-list-item")
        bell = self.page.locator(".statusbar-item .codicon-bell-dot")
        if items.count() == 0 and bell.count() > 0:
            bell.click()
        return [text for text in items.all_inner_texts() if "Activating Extensions" not in text]

    @staticmethod
    def describe(page: Page) -> str:
        """What a person would see now, for the message of a failed test."""
        places = {
            "notifications": ".notifications-toasts .notification-list-item",
            "dialogs": ".monaco-dialog-box",
            "call stack": ".debug-call-stack .monaco-list-row",
            "variables": ".debug-variables .monaco-list-row",
            "breakpoints": ".debug-breakpoints .monaco-list-row",
            "console": ".repl .repl-tree .monaco-list-row",
        }
        return "\n".join(
            f"{name}: {page.locator(place).all_inner_texts()}" for name, place in places.items()
        )

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)


class Editor:
    def __init__(self, workbench: Workbench, name: str) -> None:
        self.workbench = workbench
        self.page = page = workbench.page
        self.root = page.locator(
            f'.editor-instance .monaco-editor[data-uri$="/{name}"], '
            f'.editor-instance .monaco-editor[data-uri^="debug:{name}"]'
        )
        self.root.wait_for()

    def reveal(self, line: int) -> None:
        self.root.locator(".view-lines").click()
        self.page.keyboard.press("Control+g")
        box = self.page.locator(".quick-input-widget input").first
        box.wait_for()
        box.fill(f":{line}")
        box.press("Enter")
        self._line_number(line).wait_for()

    def line_of(self, text: str) -> int | None:
        """The number of the first line in view that has the text."""
        lines = self.root.locator(".view-lines .view-line").filter(has_text=text)
        box = lines.first.bounding_box() if lines.count() else None
        for number in self.root.locator(".margin-view-overlays .line-numbers").all():
            beside = number.bounding_box()
            if box and beside and abs(box["y"] - beside["y"]) < 6:
                return int(number.inner_text())
        return None

    def click_gutter(self, line: int) -> None:
        """Set a breakpoint the way a person does: hover, see the hint, click."""
        self.reveal(line)
        x, y = self._gutter(line)
        hint = self.root.locator(".glyph-margin-widgets .codicon-debug-hint").first
        for attempt in range(5):
            self.page.mouse.move(x + 300, y + 40 + attempt)
            self.page.mouse.move(x, y)
            try:
                hint.wait_for(timeout=5_000)
                break
            except PlaywrightTimeout:
                continue  # The editor was not listening yet; a click now would be lost.
        else:
            raise AssertionError(f"no breakpoint hint at line {line}")
        self.page.mouse.click(x, y)
        until(f"a breakpoint at line {line}", lambda: line in self.breakpoints())

    def clear_gutter(self, line: int) -> None:
        """Take the breakpoint of a line away by a click on it."""
        self.reveal(line)
        self.page.mouse.click(*self._gutter(line))
        until(f"no breakpoint at line {line}", lambda: line not in self.breakpoints())

    def exception(self) -> str:
        """What is told below the line where the run stopped for what happened there."""
        return "\n".join(self.root.locator(".exception-widget").all_inner_texts())

    def add(self, kind: str, line: int, text: str) -> None:
        """A conditional breakpoint or a log point, by its command and the box that it opens."""
        self.reveal(line)
        self.workbench.run_command(f"Debug: Add {kind}...")
        box = self.root.locator(".breakpoint-widget .inputContainer .monaco-editor")
        box.wait_for()

        def typed() -> bool:
            box.click()  # Until it has the focus, what is typed is lost.
            self.page.keyboard.insert_text(text)
            self.page.wait_for_timeout(200)
            return text.split()[0] in box.inner_text()

        until("the text to be taken", typed)
        self.page.keyboard.press("Enter")
        expect(box).to_be_hidden()

    def breakpoints(self) -> list[int]:
        """Lines in view with a breakpoint that VS Code shows as verified."""
        return self._lines_of(".glyph-margin-widgets .codicon-debug-breakpoint")

    def stopped_lines(self) -> list[int]:
        """Lines in view that are marked as the place where the run stands."""
        return self._lines_of(".view-overlays .debug-top-stack-frame-line")

    def _line_number(self, line: int) -> Locator:
        numbers = self.root.locator(".margin-view-overlays .line-numbers")
        return numbers.filter(has_text=re.compile(rf"^\s*{line}\s*$"))

    def _gutter(self, line: int) -> tuple[float, float]:
        margin = self.root.locator(".margin .glyph-margin").bounding_box()
        number = self._line_number(line).bounding_box()
        assert margin and number
        return margin["x"] + margin["width"] / 2, number["y"] + number["height"] / 2

    def _lines_of(self, selector: str) -> list[int]:
        """The line numbers at whose height the matching elements are."""
        lines: list[int] = self.root.evaluate(
            """(root, selector) => {
                const middle = element => {
                    const box = element.getBoundingClientRect();
                    return box.top + box.height / 2;
                };
                const numbers = [...root.querySelectorAll('.margin-view-overlays .line-numbers')];
                return [...root.querySelectorAll(selector)].map(element => {
                    const y = middle(element);
                    const at = numbers.find(number => Math.abs(middle(number) - y) < 6);
                    return at ? Number(at.innerText) : -1;
                });
            }""",
            selector,
        )
        return lines
