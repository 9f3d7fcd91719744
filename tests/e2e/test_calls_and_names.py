"""Names mean what the shown line means, and steps go by calls: compiled, imperative and converted,
through an adapter and at the terminal's prompt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from harness import Session, marker
from patience import SECONDS

pytestmark = pytest.mark.e2e

MODES = ["compiled", "imperative", "to_graph"]


def begin(session: Session, script: Path, mode: str, name: str, **more: Any) -> int:
    """Stopped at the marked line, the only breakpoint, which is then taken away."""
    breakpoint = {"line": marker(script, name), **more}
    session.start(script, mode, lines={str(script): [breakpoint]})
    thread: int = session.stopped("breakpoint")["threadId"]
    session.request("setBreakpoints", {"source": {"path": str(script)}, "breakpoints": []})
    return thread


def frame_at(session: Session, thread: int, line: int) -> int:
    """The frame that stands on the line."""
    frames = session.stack(thread)
    return next(frame["id"] for frame in frames if frame.get("line") == line)


def number(session: Session, text: str, frame: int) -> str:
    return str(session.evaluate(text, frame)["result"]).rpartition(" ")[2].strip("[]")


def refused(session: Session, text: str, frame: int) -> str:
    return str(session.fails("evaluate", {"expression": text, "frameId": frame}))


@pytest.mark.parametrize("mode", MODES)
def test_a_name_is_that_of_the_function_that_made_the_op(programs: Path, mode: str) -> None:
    script = programs / "shadowed.py"
    with Session() as session:
        thread = begin(session, script, mode, "ten")
        top = session.top(thread)["id"]
        assert number(session, "x", top) == "1"
        assert session.step("next", thread)["line"] == marker(script, "hundred")
        top = session.top(thread)["id"]
        assert number(session, "x", top) == "11"
        # The caller's own, whose other name is still to come.
        caller = frame_at(session, thread, marker(script, "call"))
        assert number(session, "x", caller) == "1"
        if mode == "imperative":
            assert "there is no variable 'y' here" in refused(session, "y", caller)
        else:
            assert "not been written yet" in refused(session, "y", caller)
        names = "x" if mode == "imperative" else "head.x, x"
        assert f"Python's names here: {names}" in refused(session, "nothing", top)
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0
        assert session.output == "result [1665.0]\n"


@pytest.mark.parametrize("mode", MODES)
def test_attributes_are_those_of_that_moment(programs: Path, mode: str) -> None:
    script = programs / "shadowed.py"
    with Session() as session:
        thread = begin(session, script, mode, "fifth")
        top = session.top(thread)["id"]
        assert number(session, "self.x", top) == "333"
        assert number(session, "x", top) == "111"
        caller = frame_at(session, thread, marker(script, "head"))
        assert number(session, "y", caller) == "111"
        assert number(session, "x", caller) == "1"


@pytest.mark.parametrize("mode", ["compiled", "to_graph"])
def test_after_the_op_its_line_has_assigned(programs: Path, mode: str) -> None:
    script = programs / "shadowed.py"
    # The constant that the line makes first is smaller.
    stops = [("ten", "x", "11")] + [("fifth", "self.x", "1665")] * (mode == "compiled")
    for name, target, value in stops:
        with Session() as session:
            thread = begin(session, script, mode, name, condition="out.sum() > 10")
            top = session.top(thread)
            assert top["line"] == marker(script, name) and "has run" in top["name"]
            assert number(session, target, top["id"]) == value
    # What a function assigns last, before it returns, has no op behind it.
    with Session() as session:
        thread = begin(session, script, mode, "hundred", condition="out.sum() > 100")
        top = session.top(thread)["id"]
        assert (number(session, "y", top), number(session, "x", top)) == ("111", "11")


def test_what_holds_no_variable_is_not_taken_for_one(programs: Path) -> None:
    """Where the run was started x is an array; the program has a variable of that name."""
    script = programs / "shadowed.py"
    with Session() as session:
        thread = begin(session, script, "compiled", "hundred")
        caller = frame_at(session, thread, marker(script, "run"))
        (python,) = (f["id"] for f in session.stack(thread) if f["name"] == "compiled")
        for frame in (caller, python):
            assert "Python's x is no variable here" in refused(session, "x", frame)
            assert number(session, "var('x')", frame) == "1"


@pytest.mark.parametrize("mode", MODES)
def test_names_at_the_prompt(programs: Path, mode: str) -> None:
    script = programs / "shadowed.py"
    typed = [f"break {marker(script, 'hundred')}", "run", "print x", "up", "print x", "kill"]
    shown = prompt(script, mode, typed)
    assert "x = float32[1] [11]" in shown and "x = float32[1] [1]" in shown, shown


def prompt(script: Path, mode: str, typed: list[str]) -> str:
    if mode == "imperative":  # Between are the run and Python's frame of the same function.
        typed = ["up 3" if line == "up" else line for line in typed]
    done = subprocess.run(
        [sys.executable, "-m", "opstep_server", "debug", script.name, mode],
        cwd=script.parent,
        input="".join(f"{line}\n" for line in typed),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("mode", MODES)
def test_each_execution_of_a_line_is_a_visit(programs: Path, mode: str) -> None:
    script = programs / "tower.py"
    one, call, last = (marker(script, name) for name in ("one", "call", "last"))
    with Session() as session:
        thread = begin(session, script, mode, "one", hitCondition="2")
        assert [session.step("next", thread)["line"] for _ in range(3)] == [one, call, last]
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0
        assert session.output == "result [-22.0]\n"


@pytest.mark.parametrize("mode", MODES)
def test_over_into_and_out_of_functions(programs: Path, mode: str) -> None:
    script = programs / "tower.py"
    first, second, tower, absolute, call, last = (
        marker(script, name) for name in ("first", "second", "tower", "abs", "call", "last")
    )
    with Session() as session:
        thread = begin(session, script, mode, "call")
        assert session.top(thread)["line"] == call
        # Into tower and block, whose lines are executed three times.
        assert session.step("stepIn", thread)["line"] == tower
        assert session.step("stepIn", thread)["line"] == first
        lines = dict.fromkeys(frame["line"] for frame in session.stack(thread) if frame["line"])
        assert list(lines)[:3] == [first, tower, call]
        assert session.step("next", thread)["line"] == second
        assert session.step("next", thread)["line"] == tower
        assert session.step("stepIn", thread)["line"] == first
        assert session.step("stepOut", thread)["line"] == tower
        # Python is past that line when the next op comes; a program stands behind its last op.
        if mode != "imperative":
            assert session.step("next", thread)["line"] == tower
        assert session.step("next", thread)["line"] == absolute
        assert session.step("stepOut", thread)["line"] == (last if mode == "imperative" else call)
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0


@pytest.mark.parametrize("mode", MODES)
def test_steps_at_the_prompt(programs: Path, mode: str) -> None:
    script = programs / "tower.py"
    first, tower, call = (marker(script, name) for name in ("first", "tower", "call"))
    typed = [
        f"break {first}",
        "condition 1 X.sum() > 3",
        "run",
        "where",
        "delete",
        "finish",
        "kill",
    ]
    shown = prompt(script, mode, typed)
    stops = [line for line in shown.splitlines() if line.startswith("stopped")]
    assert f"tower.py:{first}," in stops[0] and f"tower.py:{tower}," in stops[1], shown
    kinds = (
        ("python tower", "python model")
        if mode == "imperative"
        else ("made in tower", "made in model")
    )
    for kind, line in zip(kinds, (tower, call), strict=True):
        assert f"{kind}, tower.py:{line}" in shown, shown


def test_run_to_cursor_on_a_line_without_ops_is_refused(programs: Path) -> None:
    """As an editor does it: one more breakpoint, and on."""
    script = programs / "tower.py"
    with Session() as session:
        thread = begin(session, script, "compiled", "one")
        source = {"path": str(script)}
        session.request("setBreakpoints", {"source": source, "breakpoints": [{"line": 1}]})
        failure = session.fails("continue", {"threadId": thread})
        assert "cannot run to tower.py:1: that line makes no op (nearest lines" in str(failure)
        session.request("setBreakpoints", {"source": source, "breakpoints": []})
        # The thread stands where it was, and goes on to a line that has ops.
        assert session.top(thread)["line"] == marker(script, "one")
        last = marker(script, "last")
        session.request("setBreakpoints", {"source": source, "breakpoints": [{"line": last}]})
        session.request("continue", {"threadId": thread})
        session.stopped("breakpoint")
        assert session.top(thread)["line"] == last
        # Who means it continues once more.
        lines = [{"line": last}, {"line": 1}]
        session.request("setBreakpoints", {"source": source, "breakpoints": lines})
        session.fails("continue", {"threadId": thread})
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0
