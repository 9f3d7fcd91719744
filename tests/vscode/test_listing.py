"""The listing of a program: the text that the executor knows, with breakpoints of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from waiting import line_with, until

if TYPE_CHECKING:
    from workbench import Workbench


def test_a_breakpoint_in_a_listing_stops(workbench: Workbench, folder: Path) -> None:
    script = folder / "digits_mlp.py"
    first, wanted = line_with(script, "layers.fc(x"), line_with(script, "layers.accuracy(")
    source = workbench.open(script.name)
    source.click_gutter(first)
    workbench.press("F5")
    until(f"a stop at line {first}", lambda: source.stopped_lines() == [first], 60)

    listing = workbench.open_listing("digits.opstep")
    number = until("the line of an op", lambda: listing.line_of("accuracy("))
    listing.click_gutter(number)
    workbench.press("F5")
    # The op's own Python line is where the run stands: the listing is only where it was asked for.
    until(f"a stop at line {wanted}", lambda: source.stopped_lines() == [wanted])
    assert "accuracy" in workbench.call_stack()[0]
