"""The tensor view's page, as a person sees it: figures, cells, table."""

from __future__ import annotations

from playwright.sync_api import FrameLocator, Locator, expect
from workbench import Workbench

from harness.patience import until

Pixel = tuple[int, int, int]


def answer(workbench: Workbench, text: str) -> None:
    """Type into the box that VS Code shows on top."""
    box = workbench.page.locator(".quick-input-widget input[type=text]").first
    box.wait_for()
    box.fill(text)
    box.press("Enter")
    expect(box).to_be_hidden()


def accept(workbench: Workbench, text: str) -> None:
    """Press OK in the box on top, when it proposes that."""
    box = workbench.page.locator(".quick-input-widget input[type=text]").first
    expect(box).to_have_value(text)
    workbench.page.locator(".quick-input-widget").get_by_role("button", name="OK").click()


class TensorView:
    def __init__(self, workbench: Workbench, expression: str) -> None:
        self._page = workbench.page
        tab = self._page.locator(".tabs-container .tab").filter(has_text=expression)
        expect(tab.first).to_be_visible()
        webview = self._page.locator("iframe.webview.ready >> visible=true").last
        self.frame: FrameLocator = webview.content_frame.frame_locator("#active-frame")
        expect(self.frame.locator("header input")).to_have_value(expression)
        self.canvas = self.frame.locator(".stage > canvas")

    @staticmethod
    def open_from_variables(workbench: Workbench, row: str, expression: str) -> TensorView:
        """By the button that the row has under the mouse."""
        rows = workbench.page.locator(".debug-variables .monaco-list-row")
        name = workbench.page.locator(".expression .name", has_text=row)
        found = rows.filter(has=name).first
        found.hover()
        found.get_by_role("button", name="Show Tensor").click()
        return TensorView(workbench, expression)

    @staticmethod
    def open_as_typed(workbench: Workbench, expression: str) -> TensorView:
        workbench.run_command("opstep: Show Tensor")
        expect(workbench.page.locator(".quick-input-title")).to_have_text("Show a tensor")
        answer(workbench, expression)
        return TensorView(workbench, expression)

    def statistics(self) -> dict[str, str]:
        rows = self.frame.locator(".statistics tr")
        pairs = rows.evaluate_all(
            "rows => rows.map(row => [...row.children].slice(0, 2).map(cell => cell.innerText))"
        )
        return {name: value for name, value in pairs if name}

    def shape(self) -> tuple[int, int] | None:
        """Rows and columns that are drawn."""
        rows, columns = (self.canvas.get_attribute(f"data-{name}") for name in ("rows", "columns"))
        return (int(rows), int(columns)) if rows and columns else None

    def pixels(self) -> list[list[Pixel]]:
        """The colour in the middle of each cell."""
        flat: list[list[int]] = self.canvas.evaluate(
            """canvas => {
                const {rows, columns} = canvas.dataset;
                const context = canvas.getContext('2d');
                const found = [];
                for (let row = 0; row < rows; ++row)
                    for (let column = 0; column < columns; ++column) {
                        const x = Math.floor((column + 0.5) * canvas.width / columns);
                        const y = Math.floor((row + 0.5) * canvas.height / rows);
                        found.push([...context.getImageData(x, y, 1, 1).data].slice(0, 3));
                    }
                return found;
            }"""
        )
        shape = self.shape()
        assert shape
        width = shape[1]
        colours = [(r, g, b) for r, g, b in flat]
        return [colours[at : at + width] for at in range(0, len(colours), width)]

    def tab(self, name: str) -> None:
        tab = self.frame.get_by_role("tab", name=name)
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")

    def cell(self, row: int, column: int) -> Locator:
        return self.frame.locator(f'.table .cell[data-at="{row},{column}"]')

    def value(self, row: int, column: int) -> str:
        """The table's exact text."""
        cell = self.cell(row, column)

        def text() -> str | None:
            shown = cell.inner_text() if cell.count() else "…"
            return shown if shown != "…" else None

        return until(f"the value at {row}, {column}", text)

    def compare_with(self, label: str) -> None:
        self.frame.get_by_label("compare with", exact=True).select_option(label)
