"""Breakpoints of every kind that VS Code has a place for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from harness.markers import line_with
from harness.patience import until

if TYPE_CHECKING:
    from workbench import Workbench


def test_a_condition_and_a_log_point(workbench: Workbench, folder: Path) -> None:
    script = folder / "digits_mlp.py"
    layer, second = line_with(script, "layers.fc(x"), line_with(script, "layers.fc(hidden")
    editor = workbench.open(script.name)
    editor.add("Conditional Breakpoint", layer, "step == 7")
    editor.add("Logpoint", second, "mean {mean(out)} in run {step}")
    workbench.press("F5")
    until(f"a stop at line {layer}", lambda: editor.stopped_lines() == [layer])
    assert workbench.evaluate("step") == "7"

    # One line for each of the runs before.
    def runs() -> list[int]:
        text = "\n".join(workbench.console())
        return [int(run) for run in re.findall(r"mean -?[\d.]+ in run (\d+)", text)]

    until("what the log point wrote", lambda: runs() == [1, 2, 3, 4, 5, 6])


def test_the_filter_for_nan(workbench: Workbench, folder: Path) -> None:
    from views import current_op

    script = folder / "find_the_nan.py"
    first, bad = line_with(script, "layers.fc(x"), line_with(script, "surprise = ")
    editor = workbench.open(script.name)
    editor.click_gutter(first)
    workbench.press("F5")
    until(f"a stop at line {first}", lambda: editor.stopped_lines() == [first])
    workbench.set_exception_filter("NaN", True)
    editor.clear_gutter(first)
    workbench.press("F5")
    until(f"a stop at line {bad}", lambda: editor.stopped_lines() == [bad])
    told = until("the report", lambda: editor.exception())
    assert "NaN" in told, told
    until("the op", lambda: "log" in current_op(workbench))
    assert workbench.evaluate("any(isnan(out))") == "True"
