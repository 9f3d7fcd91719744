"""The listing of a program: the executor's own text of it, where breakpoints can be set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.markers import line_with
from harness.patience import until

if TYPE_CHECKING:
    from workbench import Workbench


@pytest.mark.own_window  # unfolds the view of the loaded scripts
def test_a_breakpoint_in_a_listing_stops(workbench: Workbench, folder: Path) -> None:
    from views import current_op

    script = folder / "digits_mlp.py"
    first, wanted = line_with(script, "layers.fc(x"), line_with(script, "layers.accuracy(")
    source = workbench.open(script.name)
    source.click_gutter(first)
    workbench.press("F5")
    until(f"a stop at line {first}", lambda: source.stopped_lines() == [first])

    listing = workbench.open_listing("digits.opstep")
    number = until("the line of an op", lambda: listing.line_of("accuracy("))
    listing.click_gutter(number)
    workbench.press("F5")
    # The run is shown at the op's Python line, not in the listing.
    until(f"a stop at line {wanted}", lambda: source.stopped_lines() == [wanted])
    until("the op", lambda: "accuracy" in current_op(workbench))
