"""The parts of the VS Code window that a person debugging looks at and clicks on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from code_server import CLEAR_WINDOW, REFRESH_EXPLORER, SHOW_CONSOLE, SHOW_EXPLORER
from playwright.sync_api import (
    Browser,
    FloatRect,
    Locator,
    Page,
    TimeoutError as PlaywrightTimeout,
    expect,
    sync_playwright,
)

from harness import patience
from harness.patience import until

PATIENCE_MS = patience.SECONDS * 1000
expect.set_options(timeout=PATIENCE_MS)

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
    page.set_default_timeout(PATIENCE_MS)
    try:
        for name, function in (functions or {}).items():
            page.expose_function(name, function)
        page.goto(url)
        yield page
    finally:
        try:
            # Left like this the window says goodbye, and its extension host ends at once.
            page.goto("about:blank")
        finally:
            context.close()


def _expand(row: Locator) -> None:
    if row.get_attribute("aria-expanded") == "false":
        row.click()
    expect(row).to_have_attribute("aria-expanded", "true")


class Workbench:
    def __init__(self, page: Page) -> None:
        self.page = page
        self._filters: dict[str, bool] = {}
        page.locator(".monaco-workbench .explorer-folders-view").wait_for()
        self._side_bar_width = self._side_bar()["width"]

    def reload(self) -> None:
        """Load the window again; its editors come back, its session does not."""
        # By a command, not by the browser: only the command saves first which editors are open.
        self._list_command("Developer: Reload Window")
        with self.page.expect_navigation():
            self._row("Developer: Reload Window").click()
        self.page.locator(".monaco-workbench .part.editor .tab").first.wait_for()

    def reset(self) -> None:
        """No session, breakpoint, editor, panel, message or menu; filters and sizes as at first."""
        self.end_session()
        self.press("Escape")
        # Keys would go to the page inside a tab if that has the focus.
        self.page.evaluate("document.activeElement?.blur()")
        self.press(CLEAR_WINDOW)
        self.page.locator(".part.sidebar .debug-viewlet").wait_for()
        for left in (
            ".quick-input-widget",
            ".context-view .monaco-menu",
            ".monaco-dialog-box",
            ".part.editor .tab",
            ".part.panel",
            ".notification-list-item",
            ".statusbar-item .codicon-bell-dot",
        ):
            expect(self.page.locator(f"{left} >> visible=true")).to_have_count(0)
        for label, on in list(self._filters.items()):
            self.set_exception_filter(label, on)
        self._filters.clear()
        breakpoints = self.page.locator(".debug-breakpoints .monaco-list-row")
        expect(breakpoints.and_(self.page.locator(":not(:has(.exception))"))).to_have_count(0)
        self.widen_side_bar(round(self._side_bar_width))
        self.page.context.clear_permissions()
        self.show_explorer()

    def show_explorer(self) -> None:
        self.press(SHOW_EXPLORER)
        self.page.locator(".explorer-folders-view").wait_for()

    def files(self) -> set[str]:
        """The names in the explorer."""
        rows = self.page.locator(".explorer-folders-view .monaco-list-row .label-name")
        return set(rows.all_inner_texts())

    # --- editor ---------------------------------------------------------------------------------

    def open(self, name: str) -> Editor:
        self.show_explorer()
        label = f'.explorer-folders-view .monaco-list-row[aria-label^="{name}"]'
        row = self.page.locator(label)

        def listed() -> bool:
            try:
                row.wait_for(timeout=5_000)
            except PlaywrightTimeout:
                # VS Code misses a file that was written while the window was opening.
                self.press(REFRESH_EXPLORER)
                return False
            return True

        until(f"{name} in the explorer", listed)
        row.dblclick()
        if name.endswith(".py"):
            self.expect_extension()
        return Editor(self, name)

    def expect_extension(self) -> None:
        """Until a Python file in the editor has opstep's button, keys and commands are lost."""
        self.page.locator(".editor-actions .codicon-debug-alt").first.wait_for()

    def expect_listings(self) -> None:
        """Until the window can show texts that come from the debug adapter.

        VS Code loads that part last, when a new window has nothing else to do. A listing that is
        opened before fails with "Unable to resolve resource debug:…".
        """
        loaded = "code/didCreateWorkbenchContributions/4"  # LifecyclePhase.Eventually
        self.page.wait_for_function("mark => performance.getEntriesByName(mark).length", arg=loaded)

    def open_listing(self, name: str) -> Editor:
        """The listing of a program, from the sources that the adapter names."""
        self.expect_listings()
        self.run_command("Debug: Focus on Loaded Scripts View")
        row = self.page.locator(".debug-loaded-scripts .monaco-list-row").filter(has_text=name)
        tab = self.page.locator(f'.tabs-container .tab[data-resource-name="{name}"]')

        def clicked() -> bool:
            # A click is lost while the list is being filled.
            if row.get_attribute("aria-selected") != "true":
                row.click()
                self.page.wait_for_timeout(1_000)
            return row.get_attribute("aria-selected") == "true"

        until(f"{name} to be selected", clicked)
        tab.wait_for()
        return Editor(self, name)

    def widen_side_bar(self, to: int) -> None:
        """Room for tensors: drag the edge between side bar and editor."""

        def dragged() -> bool:
            side_bar = self._side_bar()
            if abs(side_bar["width"] - to) <= 2:
                return True
            # The newest VS Code has a gap there, and a handle in the middle of the edge.
            edge = side_bar["x"] + side_bar["width"]
            x = min(self._vertical_edges(), key=lambda x: abs(x - edge))
            y = side_bar["y"] + side_bar["height"] / 4
            self.page.mouse.move(x, y)
            self.page.mouse.down()
            self.page.mouse.move(x + to - side_bar["width"], y, steps=5)
            self.page.mouse.up()
            return False

        until(f"a side bar of {to} pixels", dragged)

    def _vertical_edges(self) -> list[float]:
        """The middle of each edge that can be dragged to the left and right."""
        edges = self.page.locator(".monaco-sash.vertical:not(.disabled) >> visible=true")
        boxes = [edge.bounding_box() for edge in edges.all()]
        return [box["x"] + box["width"] / 2 for box in boxes if box]

    def _side_bar(self) -> FloatRect:
        box = self.page.locator(".part.sidebar").bounding_box()
        assert box
        return box

    def run_command(self, title: str) -> None:
        """Choose a command by its title in the palette."""
        self._list_command(title)
        self.pick(title)

    def _list_command(self, title: str) -> None:
        box = self.page.locator(".quick-input-widget input").first

        def listed() -> bool:
            self.press("F1")
            box.wait_for()
            box.fill(f">{title}")
            try:
                self._row(title).wait_for(timeout=5_000)
            except PlaywrightTimeout:
                # An open palette does not get the commands of an extension that starts later.
                self.press("Escape")
                return False
            return True

        until(f"the command {title}", listed)

    def pick(self, text: str) -> None:
        """Choose the row with this text in the list that VS Code shows on top."""
        self._row(text).click()
        expect(self._row(text)).to_be_hidden()

    def _row(self, text: str) -> Locator:
        rows = self.page.locator(".quick-input-widget .monaco-list-row")
        return rows.filter(has_text=text).first

    # --- the session ----------------------------------------------------------------------------

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)

    def toolbar(self, action: str) -> Locator:
        return self.page.locator(f".debug-toolbar .codicon-debug-{action}").first

    def expect_session(self, running: bool) -> None:
        end = self._end_button()
        if running:
            expect(end).to_be_visible()
        else:
            expect(end).to_be_hidden()

    def _end_button(self) -> Locator:
        """What was launched is stopped, what was attached to is left."""
        return self.toolbar("stop").or_(self.toolbar("disconnect")).first

    def end_session(self) -> None:
        """Stop what a test left running, so that no script outlives its window."""
        if self._end_button().is_visible():
            self.press("Escape")  # a menu or a box on top
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
        prompt = self.show_console()
        prompt.click()
        self.page.keyboard.insert_text(expression)
        expect(prompt).to_contain_text(expression.split()[0])
        self.press("Enter")
        expect(answers).to_have_count(before + 1)
        return answers.last.inner_text().strip()

    def show_console(self) -> Locator:
        """The Debug Console's prompt."""
        prompt = self.page.locator(".repl-input-wrapper .monaco-editor")
        if not prompt.is_visible():
            self.press(SHOW_CONSOLE)
            prompt.wait_for()
        return prompt

    def console(self) -> list[str]:
        """The rows of the Debug Console that are in view."""
        self.show_console()
        return self.page.locator(".repl .repl-tree .monaco-list-row").all_inner_texts()

    def set_exception_filter(self, label: str, on: bool) -> None:
        """Tick or clear a filter in the Breakpoints view."""
        row = self.page.locator(f'.debug-breakpoints .monaco-list-row[aria-label^="{label}"]')
        row.wait_for()
        before = row.get_attribute("aria-checked") == "true"
        self._filters.setdefault(label, before)
        if before != on:
            row.locator("input[type=checkbox], .monaco-checkbox").click()
        expect(row).to_have_attribute("aria-checked", str(on).lower())

    def notifications(self) -> list[str]:
        """The messages that were not cleared; a window that just opened keeps them behind the bell.

        VS Code's own message that a slow machine still starts extensions does not count.
        """
        items = self.page.locator(".notification-list-item")
        bell = self.page.locator(".statusbar-item .codicon-bell-dot")
        if items.count() == 0 and bell.count() > 0:
            bell.click()
        return [text for text in items.all_inner_texts() if "Activating Extensions" not in text]

    @staticmethod
    def describe(page: Page) -> str:
        """The texts that a person would see now, for the message of a failed test."""
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
        expect(box).to_be_hidden()
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

        def hinted() -> bool:
            self.page.mouse.move(x + 300, y + 40)
            self.page.mouse.move(x, y)
            try:
                hint.wait_for(timeout=1_000)
            except PlaywrightTimeout:
                return False  # The editor was not listening yet; a click now would be lost.
            return True

        until(f"a breakpoint hint at line {line}", hinted)
        self.page.mouse.click(x, y)
        until(f"a breakpoint at line {line}", lambda: line in self.breakpoints())

    def clear_gutter(self, line: int) -> None:
        """Remove the breakpoint of a line by a click on it."""
        self.reveal(line)
        self.page.mouse.click(*self._gutter(line))
        until(f"no breakpoint at line {line}", lambda: line not in self.breakpoints())

    def exception(self) -> str:
        """The report below the line where the run stopped at a fault."""
        return "\n".join(self.root.locator(".exception-widget").all_inner_texts())

    def add(self, kind: str, line: int, text: str) -> None:
        """A conditional breakpoint or a log point, by its command and the box that it opens."""
        self.reveal(line)
        self.workbench.run_command(f"Debug: Add {kind}...")
        box = self.root.locator(".breakpoint-widget .inputContainer .monaco-editor")
        box.wait_for()

        def focused() -> bool:
            box.click()  # Text that is typed before it has the focus is lost.
            return "focused" in (box.get_attribute("class") or "")

        until("the focus", focused)
        self.page.keyboard.insert_text(text)
        expect(box).to_contain_text(text.split()[0])
        self.page.keyboard.press("Enter")
        expect(box).to_be_hidden()

    def breakpoints(self) -> list[int]:
        """Lines in view with a breakpoint that VS Code shows as verified."""
        return self._lines_of(".glyph-margin-widgets .codicon-debug-breakpoint")

    def stopped_lines(self) -> list[int]:
        """Lines in view that are marked as the place where the run stopped."""
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
