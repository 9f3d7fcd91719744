"""A tensor of 1 GB in the tensor view: only figures and slices leave the process that has it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_tensor_view import stop_at

from harness.patience import until

if TYPE_CHECKING:
    from code_server import CodeServer
    from workbench import Workbench

pytestmark = pytest.mark.slow

MEGABYTE = 1 << 20
SIDE = 1 << 14  # 1 GB of float32
SCRIPT = f"""
import numpy as np
import opstep
from opstep import layers

x = layers.data("x", shape=[{SIDE}, {SIDE}])
y = layers.reduce_sum(x)
values = np.arange({SIDE}, dtype=np.float32)[:, None] + np.zeros({SIDE}, np.float32)
values[-1, -1] = {2 * SIDE}
opstep.Executor().run(feed={{"x": values}}, fetch_list=[y])
"""


def test_a_gigabyte(server: CodeServer, workbench: Workbench, folder: Path) -> None:
    from tensor_view import TensorView

    script = folder / "large.py"
    script.write_text(SCRIPT)
    stop_at(workbench, script, "layers.reduce_sum(x)")
    before = server.extension_host_memory(), server.adapter_memory()
    took: dict[str, float] = {}
    clock = time.monotonic()

    def lap(name: str) -> None:
        nonlocal clock
        took[name] = time.monotonic() - clock
        clock = time.monotonic()

    view = TensorView.open_as_typed(workbench, "x")
    until("the heat map", view.shape)
    lap("heat map")
    until("the histogram", lambda: view.frame.locator(".histogram rect").count() == 40)
    lap("histogram")
    figures = view.statistics()
    assert (figures["min"], figures["max"]) == ("0", str(2 * SIDE))
    assert f"float32[{SIDE}, {SIDE}]" in view.frame.locator(".type").inner_text()

    # The heat map is of the whole plane, from dark to light downwards.
    pixels = view.pixels()
    greens = [row[0][1] for row in pixels]
    assert greens == sorted(greens) and greens[0] < greens[-1]

    # Far away in the table, and in between.
    view.tab("Values")
    assert float(view.value(0, 0)) == 0
    clock = time.monotonic()
    view.frame.locator(".table").press("Control+End")
    assert float(view.value(SIDE - 1, SIDE - 1)) == 2 * SIDE
    lap("the last value")
    assert float(view.value(SIDE - 1, SIDE - 2)) == SIDE - 1
    for _ in range(20):
        view.frame.locator(".table").press("PageUp")
    view.frame.locator(".table .cell").first.wait_for()
    until(
        "the values there", lambda: "…" not in view.frame.locator(".table .cell").all_inner_texts()
    )
    lap("20 pages up")

    now = server.extension_host_memory(), server.adapter_memory()
    grown = [(after - first) / MEGABYTE for after, first in zip(now, before, strict=True)]
    times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in took.items())
    print(f"{times}; extension host {grown[0]:+.0f} MB, adapter {grown[1]:+.0f} MB")
    assert grown[0] < 64 and grown[1] < 64, grown
    assert workbench.notifications() == []
