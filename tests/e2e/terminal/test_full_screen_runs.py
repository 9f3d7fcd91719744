"""The full screen on a real run: a loop's iterations, gradients, a change of a tensor, an error."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from harness.markers import line_of
from harness.terminal import Terminal, terminal


@contextlib.contextmanager
def full(programs: Path, script: str, tmp_path: Path) -> Iterator[Terminal]:
    with terminal(
        script=script,
        options=("--tui",),
        size=(150, 40),
        cwd=programs,
        XDG_STATE_HOME=str(tmp_path),
    ) as t:
        t.shows(r"^\(opstep\)$")
        yield t


def test_a_loop(programs: Path, tmp_path: Path):
    with full(programs, "loop.py", tmp_path) as t:
        t.type("break increment\r")
        t.shows(r"pending")
        t.press("F5")
        increment = line_of(programs / "loop.py", "increment")
        t.shows(rf"▶{increment}  +layers\.increment\(i\)  # @increment")
        t.shows(r"▶\d+ .* fill_0\.out int64\[1\] = increment\(X=fill_0\.out, step=1\)")
        t.shows(r"│  X = fill_0\.out +int64\[1\] \[0\]$")
        t.shows(r"│ main │ run 1 │ while_0 iteration 0 │ breakpoint 1$")
        # The op's mark is in the listing.
        t.shows(r"^●▶\d+ .*increment\(")
        t.press("F5")
        t.shows(r"│  X = fill_0\.out +int64\[1\] \[1\]$")
        t.shows(r"while_0 iteration 1")
        t.press("F8")
        t.shows(r"▶\d+ .* fill_2\.out int64\[\] = fill\(")
        # The frame in view is what the panes are about.
        t.type("up 2\r")
        t.shows(r"│ frame 2 │")
        run = line_of(programs / "loop.py", "run")
        t.shows(rf"▶{run}  .*exe\.run\(main")
        t.type("delete all\rcontinue\r")
        t.shows(r"^result 33$")
        t.shows(r"^the script ended with exit code 0$")


def test_a_nan_is_red_and_the_script_goes_on(programs: Path, tmp_path: Path):
    with full(programs, "make_nan.py", tmp_path) as t:
        t.type("catch nan\r")
        t.press("F5")
        t.shows(r"^ stopped .*NaN: \[log\] made 1 NaN")
        t.shows(r"│  out = log_0\.out +float32\[2\] \[.*nan\]$")
        assert t.style("nan]").fg == "red"
        assert t.style(" stopped │").reverse
        # What was printed before the stop stands before it.
        assert re.search(r"(?s)run 2: .*\nstopped after op", t.text)
        t.press("F5")
        t.shows(r"^run 3: nan$")
