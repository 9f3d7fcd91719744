"""A window that is reloaded: its session ends, its views wait for the next one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_ops_and_graph import stop_at

from harness.patience import until

if TYPE_CHECKING:
    from workbench import Workbench

pytestmark = pytest.mark.own_window

SCRIPT = "digits_mlp.py"


def reload(workbench: Workbench) -> None:
    """Until its extensions are there again, with the script in the editor."""
    workbench.reload()
    workbench.page.locator(f'.tab[data-resource-name="{SCRIPT}"]').click()
    workbench.expect_extension()
    workbench.page.locator("iframe.webview.ready").wait_for()


def test_the_graph_after_a_reload(workbench: Workbench, folder: Path) -> None:
    from views import Graph, current_op

    stop_at(workbench, folder / SCRIPT, "hidden = layers.fc(")
    workbench.run_command("opstep: Show Graph")
    graph = Graph(workbench)
    graph.expect_current("fc_0.matmul")
    graph.frame.locator("#colour").select_option("std")
    reload(workbench)

    # The page is empty and says what to do.
    frame = Graph.frame_of(workbench)
    frame.locator("#standing", has_text="start debugging to see a program here").wait_for()
    assert frame.locator("#graph .op").count() == 0
    assert frame.locator("#colour").input_value() == "std"

    # The next session fills it, with the colours that were chosen.
    workbench.press("F5")
    until("the op", lambda: current_op(workbench) == "fc_0.matmul")
    graph.expect_current("fc_0.matmul")
    workbench.press("Control+F10")
    until("the colour", lambda: "fc_0.matmul" in graph.names("tinted"))
    assert workbench.notifications() == []


@pytest.mark.both_versions
def test_a_tensor_after_a_reload(workbench: Workbench, folder: Path) -> None:
    from tensor_view import TensorView

    stop_at(workbench, folder / SCRIPT, "hidden = layers.fc(")
    view = TensorView.open_as_typed(workbench, "x[:8]")
    until("the heat map", lambda: view.shape() == (8, 64))
    reload(workbench)

    view = TensorView(workbench, "x[:8]")
    view.frame.locator("header", has_text="the session has ended").wait_for()
    workbench.press("F5")
    until("the heat map again", lambda: view.shape() == (8, 64))
    assert workbench.notifications() == []
