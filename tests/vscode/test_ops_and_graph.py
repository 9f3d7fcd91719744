"""Stepping by ops in a real VS Code, and the views that show them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.markers import line_with
from harness.patience import until

if TYPE_CHECKING:
    from workbench import Editor, Workbench

PICTURES = Path(__file__).parents[2] / "build" / "vscode"


def stop_at(workbench: Workbench, path: Path, text: str) -> Editor:
    """Opens the file, sets a breakpoint on the line with the text, and runs to it."""
    editor = workbench.open(path.name)
    line = line_with(path, text)
    editor.click_gutter(line)
    workbench.press("F5")
    until(f"a stop at line {line}", lambda: editor.stopped_lines() == [line])
    return editor


def step(workbench: Workbench, key: str, op: str) -> None:
    from views import current_op

    workbench.press(key)
    until(f"{key} to go to {op}", lambda: current_op(workbench) == op)


@pytest.mark.both_versions
def test_step_by_ops(workbench: Workbench, folder: Path) -> None:
    from views import current_op, inline_value, status

    editor = stop_at(workbench, folder / "digits_mlp.py", "hidden = layers.fc(")
    until("the op", lambda: current_op(workbench) == "fc_0.matmul")
    until("the run in the status bar", lambda: status(workbench) == "digits · run 1")
    for op in ("fc_0.add", "fc_0.relu", "fc_1.matmul"):
        step(workbench, "Control+F10", op)

    # Names show what their lines have made; those below have made nothing yet.
    value = until("a value behind the line", lambda: inline_value(editor, "hidden ="))
    assert value.startswith("hidden: float32[32, 32] mean 0."), value
    assert inline_value(editor, "accuracy =") == ""
    assert inline_value(editor, "minimize(loss)") == ""

    # A button for each, beside those of the editor.
    bar = workbench.page.locator(".debug-toolbar")
    for title in ("Step Op Into", "Step Op Out", "Run to Next Iteration"):
        bar.locator(f'.action-label[aria-label^="{title}"]').wait_for()
    bar.locator('.action-label[aria-label^="Step Op ("]').click()
    until("the button to step", lambda: current_op(workbench) == "fc_1.add")

    # Outside of blocks an iteration is a run.
    workbench.press("Alt+Shift+F10")
    until("the next run", lambda: status(workbench).startswith("digits · run 2"))
    assert workbench.notifications() == []


def test_step_through_a_loop(workbench: Workbench, folder: Path) -> None:
    from views import Graph, current_op, status

    stop_at(workbench, folder / "loop.py", "with loop.block():")
    until("the loop", lambda: current_op(workbench) == "while_0")
    workbench.press("Alt+F11")
    until("the body", lambda: status(workbench) == "newton · run 1 · iteration 0")
    first = until("its first op", lambda: {current_op(workbench)} - {"", "while_0"}).pop()
    workbench.press("Alt+Shift+F10")
    until("the next iteration", lambda: status(workbench) == "newton · run 1 · iteration 1")
    until("its first op again", lambda: current_op(workbench) == first)

    # In the graph the loop's ops are inside of it, until it is folded.
    workbench.run_command("opstep: Show Graph")
    graph = Graph(workbench)
    graph.expect_current(first)
    loop, inner = graph.op("while_0").bounding_box(), graph.op(first).bounding_box()
    assert loop and inner
    assert loop["x"] < inner["x"] and inner["x"] + inner["width"] < loop["x"] + loop["width"]
    assert loop["y"] < inner["y"] and inner["y"] + inner["height"] < loop["y"] + loop["height"]
    workbench.screenshot(PICTURES / "graph-loop.png")
    graph.frame.locator("#fit").click()
    graph.op("while_0").locator(".fold").click()
    until("the body to be folded away", lambda: first not in graph.names())
    graph.op("while_0").locator(".fold").click()
    graph.expect_current(first)

    # Behind the loop there is no other op: the step ends after it, with the run.
    workbench.press("Alt+Shift+F11")
    until("the end of the run", lambda: status(workbench) == "newton · run 1")
    until("the loop again", lambda: current_op(workbench) == "while_0")
    workbench.press("F5")
    workbench.expect_session(running=False)
    until("the status bar to be empty", lambda: status(workbench) == "")


@pytest.mark.both_versions
def test_ops_view(workbench: Workbench, folder: Path) -> None:
    from views import Ops, current_op

    path = folder / "digits_mlp.py"
    stop_at(workbench, path, "hidden = layers.fc(")
    line = line_with(path, "hidden = layers.fc(")
    ops = Ops(workbench)
    until("the current op", lambda: [row for row in ops.rows() if row.endswith("current op")])
    place = f"digits_mlp.py:{line}"
    assert any(
        row.startswith(f"fc_0.matmul, matmul, {place}") and "current op" in row
        for row in ops.rows()
    ), ops.rows()

    # A click on an op's button sets a breakpoint, which stops.
    ops.toggle_breakpoint("fc_0.relu")
    until(
        "the mark", lambda: ops.row("fc_0.relu").get_attribute("aria-label").endswith("breakpoint")
    )
    workbench.screenshot(PICTURES / "ops.png")
    workbench.press("F5")
    until("a stop at the op", lambda: current_op(workbench) == "fc_0.relu")
    until(
        "the view to follow",
        lambda: "current op" in ops.row("fc_0.relu").get_attribute("aria-label"),
    )
    ops.toggle_breakpoint("fc_0.relu")
    until(
        "the mark to go",
        lambda: ", breakpoint" not in ops.row("fc_0.relu").get_attribute("aria-label"),
    )

    # A click on an op shows its line; its other button the listing.
    ops.row("fc_1.matmul").click()
    position = workbench.page.locator(".statusbar-item", has_text="Ln ")
    until("the line", lambda: f"Ln {line_with(path, 'logits = ')}," in position.inner_text())
    workbench.expect_listings()
    ops.row("fc_0.relu").hover()
    ops.row("fc_0.relu").locator('.action-label[aria-label^="Go to Listing"]').click()
    listing = workbench.page.locator('.editor-instance .monaco-editor[data-uri^="debug:"]')
    listing.locator(".view-line", has_text="fc_0.relu").first.wait_for()
    assert workbench.notifications() == []


@pytest.mark.both_versions
def test_graph_view(workbench: Workbench, folder: Path) -> None:
    from views import Graph, current_op

    stop_at(workbench, folder / "digits_mlp.py", "hidden = layers.fc(")
    workbench.run_command("opstep: Show Graph")
    graph = Graph(workbench)
    graph.expect_current("fc_0.matmul")
    assert "fc_0.matmul" in graph.details()
    until("marks of the line's breakpoint", lambda: "fc_0.add" in graph.names("shared"))

    # It follows the steps, and shows what has been made.
    for op in ("fc_0.add", "fc_0.relu", "fc_1.matmul"):
        step(workbench, "Control+F10", op)
        graph.expect_current(op)
    until("the values", lambda: "fc_0.relu" in graph.names("made"))
    assert "fc_1.add" not in graph.names("made")
    value = graph.op("fc_0.relu").locator(".value").text_content()
    assert value and value.startswith("float32[32, 32] mean 0."), value
    workbench.screenshot(PICTURES / "graph.png")

    # A click beside an op's name sets a breakpoint that then stops.
    graph.toggle_breakpoint("fc_1.add")
    until("the mark", lambda: "fc_1.add" in graph.names("own"))
    workbench.press("F5")
    until("the stop", lambda: current_op(workbench) == "fc_1.add")
    graph.expect_current("fc_1.add")
    graph.toggle_breakpoint("fc_1.add")
    until("the mark to go", lambda: "fc_1.add" not in graph.names("own"))

    # By name, and by keys from there.
    graph.frame.locator("#find").fill("accuracy")
    until("what is found", lambda: graph.names("selected") == ["accuracy_0"])
    assert graph.details().startswith("accuracy_0")
    graph.frame.locator("#find").press("Escape")
    graph.frame.locator("#graph").press("ArrowUp")
    until("a neighbour", lambda: graph.names("selected") not in ([], ["accuracy_0"]))
    graph.frame.locator("#graph").press("b")
    (chosen,) = graph.names("selected")
    until("its breakpoint", lambda: chosen in graph.names("own"))

    # The end of the session leaves the picture, and says so.
    workbench.toolbar("stop").click()
    workbench.expect_session(running=False)
    standing = graph.frame.locator("#standing")
    until("the end", lambda: standing.inner_text() == "the session has ended")
    until("no current op", lambda: graph.names("current") == [])
    assert workbench.notifications() == []


def test_nan_in_the_graph(workbench: Workbench, folder: Path) -> None:
    from views import Graph, current_op

    editor = stop_at(workbench, folder / "find_the_nan.py", "hidden = layers.fc(")
    editor.clear_gutter(line_with(folder / "find_the_nan.py", "hidden = layers.fc("))
    workbench.set_exception_filter("NaN", True)
    workbench.run_command("opstep: Show Graph")
    graph = Graph(workbench)
    workbench.press("F5")
    until("the NaN", lambda: current_op(workbench).startswith("log"))
    log = current_op(workbench)
    graph.expect_current(log)
    until("its colour", lambda: graph.names("bad") == [log])
    assert "NaN" in graph.details()
    workbench.screenshot(PICTURES / "graph-nan.png")


GROWING = """
import pathlib
import time
import numpy as np
import opstep
from opstep import layers

main = opstep.Program("growing")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[4])
    root = layers.sqrt(x)
    total = layers.reduce_sum(root)

exe = opstep.Executor()
negative = pathlib.Path(__file__).with_name("negative")
for n in range(100_000):
    # The root of one element is NaN once the test has made this file.
    fed = np.array([n, 4, 9, -1 if negative.exists() else 1], np.float32)
    exe.run(main, feed={"x": fed}, fetch_list=[total])
    time.sleep(0.02)
"""


def test_colours_by_taps(workbench: Workbench, folder: Path) -> None:
    from views import Graph, current_op

    path = folder / "growing.py"
    path.write_text(GROWING)
    editor = stop_at(workbench, path, "root = ")
    workbench.run_command("opstep: Show Graph")
    graph = Graph(workbench)
    graph.expect_current("sqrt_0")
    assert graph.names("tinted") == []
    plain = graph.fill("reduce_sum_0")

    # By keys; it begins where the run stands.
    graph.frame.locator("#graph").press("c")
    graph.frame.locator("#colour").press("l")
    assert graph.frame.locator("#colour").input_value() == "l2"
    legend = graph.frame.locator("#legend")
    until("the legend", lambda: "no statistics yet" in legend.inner_text())
    step(workbench, "Control+F10", "reduce_sum_0")
    until("the colour of what has run", lambda: graph.names("tinted") == ["sqrt_0"])
    assert graph.value("sqrt_0") == "l2 3.74"
    assert graph.fill("sqrt_0") != plain

    # While it runs.
    editor.clear_gutter(line_with(path, "root = "))
    workbench.press("F5")
    until("all colours", lambda: {"sqrt_0", "reduce_sum_0"} <= set(graph.names("tinted")))
    before = graph.value("sqrt_0")
    until("newer ones", lambda: graph.value("sqrt_0") != before)
    assert legend.locator(".bar i").count() == 8
    graph.frame.locator("#colour").select_option("mean")
    until("the other figure", lambda: graph.value("sqrt_0").startswith("mean "))
    assert legend.locator(".bar i").count() == 16

    # Values that are not finite stand out, whichever figure is chosen for the colours.
    (folder / "negative").touch()
    until("the NaN", lambda: {"sqrt_0", "reduce_sum_0"} <= set(graph.names("bad")))
    graph.frame.locator("#colour").select_option("bad")
    until("the other colours to go", lambda: graph.names("tinted") == [])
    assert graph.value("sqrt_0").startswith("1 NaN")
    assert "1 NaN, 0 Inf, 0 % zeros" in graph.op("sqrt_0").locator("title").text_content()
    assert graph.fill("sqrt_0") != plain
    workbench.screenshot(PICTURES / "graph-colours.png")

    # Without colours nothing is tapped.
    graph.frame.locator("#colour").select_option("")
    until("the colours to go", lambda: graph.names("bad") == [])
    assert not legend.is_visible()
    assert current_op(workbench) == ""
    assert workbench.notifications() == []
