"""A person debugs the digits example in a real VS Code: click, F5, look, step, continue, stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.patience import until
from harness.processes import processes

if TYPE_CHECKING:
    from workbench import Workbench

SCRIPT = "digits_mlp.py"


@pytest.mark.both_versions
@pytest.mark.own_window
def test_debug_the_digits_example(workbench: Workbench, folder: Path) -> None:
    source = (folder / SCRIPT).read_text().splitlines()
    line = next(at for at, text in enumerate(source, 1) if "layers.fc(" in text)

    # Click beside the layer's line and start, with no launch.json anywhere.
    editor = workbench.open(SCRIPT)
    workbench.widen_side_bar(480)
    editor.click_gutter(line)
    workbench.press("F5")
    until(f"a stop at line {line}", lambda: editor.stopped_lines() == [line])
    until("the breakpoint to be verified", lambda: editor.breakpoints() == [line])
    assert not list(folder.rglob("launch.json"))

    # The op is on top of the stack, then the run, then the script's own frame that called it.
    def script_below_the_op() -> list[str] | None:
        frames = workbench.call_stack()
        return frames if any(SCRIPT in frame for frame in frames[1:]) else None

    stack = until("the call stack down to the script", script_below_the_op)
    assert "fc_0" in stack[0] and f"{line}:" in stack[0], stack
    assert any(frame.startswith("run ") for frame in stack), stack

    # Its tensors are in Variables.
    workbench.expand_scope("Inputs")
    tensors = until(
        "tensors in Variables",
        lambda: {n: v for n, v in workbench.variables().items() if v.startswith("float32[")},
    )
    for scope in ("Outputs", "Attributes"):
        workbench.scope(scope).wait_for()

    # The Debug Console answers.
    assert workbench.evaluate("1 + 2") == "3"
    assert "64" in workbench.evaluate("x.shape")
    assert "float32[32, 32]" in workbench.evaluate("x @ fc_0.w")

    # A tensor opens into its rows.
    workbench.expand_variable(next(iter(tensors)))
    until("its rows", lambda: [name for name in workbench.variables() if name.startswith("[0")])

    # F10 goes to another line; continuing comes back to the breakpoint.
    editor.root.locator(".view-lines").click()
    workbench.press("F10")
    (other,) = until("a step to another line", lambda: set(editor.stopped_lines()) - {line})
    assert other > line
    workbench.press("F5")
    until(f"the next stop at line {line}", lambda: editor.stopped_lines() == [line])

    # Restart begins again, in another process; the breakpoint is still there.
    (before,) = processes(str(folder / SCRIPT))
    workbench.toolbar("restart").click()
    until("another process", lambda: set(processes(str(folder / SCRIPT))) - {before})
    until(f"a stop at line {line}", lambda: editor.stopped_lines() == [line])
    assert workbench.evaluate("step") == "1"

    # Stop ends the session, the adapter and the script.
    workbench.toolbar("stop").click()
    workbench.expect_session(running=False)
    until("the script's end", lambda: not processes(str(folder / SCRIPT)))
    until("no stopped line", lambda: editor.stopped_lines() == [])
    assert workbench.notifications() == []
