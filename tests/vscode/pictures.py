"""The README's pictures of VS Code, taken in a real one: `make pictures-vscode`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_ops_and_graph import stop_at

from harness.patience import until

if TYPE_CHECKING:
    from workbench import Workbench

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = "digits_mlp.py"

pytestmark = pytest.mark.own_window  # A picture shows no traces of an earlier one.


def taken(workbench: Workbench, name: str) -> None:
    if workbench.page.locator(".part.panel").is_visible():
        workbench.press("Control+j")
    workbench.page.mouse.move(2, 2)
    workbench.page.wait_for_timeout(1_000)  # Hovers and badges fade.
    workbench.screenshot(DOCS / f"{name}.png")


@pytest.fixture(autouse=True)
def small(workbench: Workbench) -> None:
    workbench.page.set_viewport_size({"width": 1280, "height": 800})


def test_stopped(workbench: Workbench, folder: Path) -> None:
    stop_at(workbench, folder / SCRIPT, "layers.fc(x")
    workbench.widen_side_bar(480)
    workbench.expand_scope("Inputs")
    until("tensors", lambda: any("float32[" in v for v in workbench.variables().values()))
    taken(workbench, "vscode")


def test_tensor(workbench: Workbench, folder: Path) -> None:
    from tensor_view import TensorView

    stop_at(workbench, folder / SCRIPT, "layers.fc(hidden")
    workbench.expand_scope("Inputs")
    view = TensorView.open_as_typed(workbench, "hidden")
    until("the heat map", view.shape)
    taken(workbench, "vscode_tensor")


def test_graph(workbench: Workbench, folder: Path) -> None:
    from views import Graph

    stop_at(workbench, folder / SCRIPT, "layers.fc(hidden")
    workbench.run_command("opstep: Show Graph")
    graph = Graph(workbench)
    graph.expect_current("fc_1.matmul")
    taken(workbench, "vscode_graph")
    graph.frame.locator("#colour").select_option("l2")
    graph.frame.locator("#legend", has_text="no statistics yet").wait_for()
    workbench.press("F5")
    until("the colours", lambda: "fc_0.matmul" in graph.names("tinted"))
    taken(workbench, "vscode_colours")


def test_ops(workbench: Workbench, folder: Path) -> None:
    from views import Ops

    stop_at(workbench, folder / SCRIPT, "layers.fc(hidden")
    # Room for the ops: the other views of the side bar are folded.
    for name in ("Variables", "Watch", "Call Stack", "Breakpoints"):
        header = workbench.page.locator(f'.pane-header[aria-label^="{name}"]')
        if header.get_attribute("aria-expanded") == "true":
            header.click()
    ops = Ops(workbench)
    ops.toggle_breakpoint("fc_1.add")
    workbench.widen_side_bar(480)
    taken(workbench, "vscode_ops")
