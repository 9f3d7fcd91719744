"""pdb and debugpy at a script in imperative mode: what a person reads there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.markers import line_of
from harness.python_debugger import Debugpy
from harness.terminal import at_terminal

pytestmark = pytest.mark.e2e

SCRIPT = "values_to_look_at.py"


def test_pdb_shows_values_as_numpy_does(programs: Path) -> None:
    line = line_of(programs / SCRIPT, "look")
    command = [sys.executable, "-m", "pdb", SCRIPT]
    with at_terminal(command, (120, 60), programs, NO_COLOR="1", PYTHON_COLORS="0") as there:
        there.expect(r"\(Pdb\) ")
        there.type(f"break {line}\ncontinue\n")
        there.expect(rf"{line}\D.*\n.*doubled = ")
        there.type("args\n")
        there.expect(r"x = Value\(\[\[0\., 1\., 2\.\],\s+\[3\., 4\., 5\.\]\], dtype=float32\)")
        there.expect(r"net = Sequential\(\)")
        there.expect(r"step_0: FC\(w float32\[3, 4\], b float32\[4\]\)")
        there.type("p loss\n")
        there.expect(r"Value\(-?\d+\.\d+, dtype=float32, stop_gradient=False\)")
        there.type("pp net.step_1.b.gradient\n")
        there.expect(r"Value\(\[1\.\], dtype=float32\)")
        # A million elements are a few lines, and the one that is wrong is told of.
        there.type("display huge\n")
        shown = there.expect(r"display huge: [^)]*\(1000, 1000\)[^)]*\)")
        assert shown.count("\n") < 10 and "..." in shown
        assert shown.endswith("dtype=float32, name='huge', 1 nan)")
        there.type("next\nnext\n")
        there.expect(r"looked -?\d")
        there.type("quit\n")
        there.wait()


def test_debugpy_shows_values_and_what_is_in_them(programs: Path) -> None:
    with Debugpy(programs / SCRIPT, line_of(programs / SCRIPT, "look")) as editor:
        there = editor.locals()
        assert there["loss"]["value"].startswith("Value(") and there["loss"]["type"] == "Value"
        assert "\n" not in there["loss"]["value"]
        assert there["huge"]["value"].endswith("name='huge', 1 nan)")
        assert len(there["huge"]["value"]) < 1000
        inside = editor.children(there["x"])
        groups = {"special variables", "function variables"}
        # Nothing that would run an op, and nothing that is not for people.
        assert set(inside) - groups == {
            "dtype", "elements", "gradient", "is_leaf", "name", "ndim", "shape", "size",
            "stop_gradient",
        }  # fmt: skip
        assert inside["shape"]["value"] == "(2, 3)"
        assert inside["elements"]["value"].startswith("array([[0., 1., 2.]")
        net = there["net"]["value"].splitlines()
        assert net == [
            "Sequential()",
            "  step_0: FC(w float32[3, 4], b float32[4])",
            "  step_1: FC(w float32[4, 1], b float32[1])",
        ]
        first = editor.children(editor.children(there["net"])["step_0"])
        gradient = editor.children(first["w"])["gradient"]
        assert gradient["value"].startswith("Value([[")
        editor.next()
        assert editor.locals()["doubled"]["type"] == "Value"
