"""Names mean what the shown line means, and steps go by calls: compiled, imperative and converted,
through an adapter and at the terminal's prompt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.dap_client import Failure, Session
from harness.markers import line_of
from harness.patience import SECONDS

pytestmark = pytest.mark.e2e

MODES = ["compiled", "imperative", "to_graph"]


def begin(session: Session, script: Path, mode: str, name: str, **more: Any) -> int:
    """Stopped at the marked line, the only breakpoint, which is then taken away."""
    breakpoint = {"line": line_of(script, name), **more}
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
    script = programs / "names" / "shadowed.py"
    with Session() as session:
        thread = begin(session, script, mode, "ten")
        top = session.top(thread)["id"]
        assert number(session, "x", top) == "1"
        assert session.step("next", thread)["line"] == line_of(script, "hundred")
        top = session.top(thread)["id"]
        assert number(session, "x", top) == "11"
        # The caller's own, whose other name is still to come.
        caller = frame_at(session, thread, line_of(script, "call"))
        assert number(session, "x", caller) == "1"
        if mode == "imperative":
            assert "there is no variable 'y' here" in refused(session, "y", caller)
        else:
            assert "not been written yet" in refused(session, "y", caller)
        assert "Python's names here: x" in refused(session, "nothing", top)
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0
        assert session.output == "result [1665.0]\n"


@pytest.mark.parametrize("mode", MODES)
def test_attributes_are_those_of_that_moment(programs: Path, mode: str) -> None:
    script = programs / "names" / "shadowed.py"
    with Session() as session:
        thread = begin(session, script, mode, "fifth")
        top = session.top(thread)["id"]
        assert number(session, "self.x", top) == "333"
        assert number(session, "x", top) == "111"
        caller = frame_at(session, thread, line_of(script, "head"))
        assert number(session, "y", caller) == "111"
        assert number(session, "x", caller) == "1"


@pytest.mark.parametrize("mode", ["compiled", "to_graph"])
def test_after_the_op_its_line_has_assigned(programs: Path, mode: str) -> None:
    script = programs / "names" / "shadowed.py"
    # The constant that the line makes first is smaller.
    stops = [("ten", "x", "11")] + [("fifth", "self.x", "1665")] * (mode == "compiled")
    for name, target, value in stops:
        with Session() as session:
            thread = begin(session, script, mode, name, condition="out.sum() > 10")
            top = session.top(thread)
            assert top["line"] == line_of(script, name) and "has run" in top["name"]
            assert number(session, target, top["id"]) == value
    # What a function assigns last, before it returns, has no op behind it.
    with Session() as session:
        thread = begin(session, script, mode, "hundred", condition="out.sum() > 100")
        top = session.top(thread)["id"]
        assert (number(session, "y", top), number(session, "x", top)) == ("111", "11")


def test_what_holds_no_variable_is_not_taken_for_one(programs: Path) -> None:
    """Where the run was started x is an array; the program has a variable of that name."""
    script = programs / "names" / "shadowed.py"
    with Session() as session:
        thread = begin(session, script, "compiled", "hundred")
        caller = frame_at(session, thread, line_of(script, "run"))
        (python,) = (f["id"] for f in session.stack(thread) if f["name"] == "compiled")
        for frame in (caller, python):
            assert "Python's x holds no variable of this program here" in refused(
                session, "x", frame
            )
            assert number(session, "var('x')", frame) == "1"


@pytest.mark.parametrize("mode", MODES)
def test_names_at_the_prompt(programs: Path, mode: str) -> None:
    script = programs / "names" / "shadowed.py"
    typed = [f"break {line_of(script, 'hundred')}", "run", "print x", "up", "print x", "kill"]
    shown = prompt(script, mode, typed)
    assert "x = float32[1] [11]" in shown and "x = float32[1] [1]" in shown, shown


@pytest.mark.parametrize("mode", MODES)
def test_a_name_that_is_also_a_slot_of_the_op(programs: Path, mode: str) -> None:
    """`out` is -2 in Python and 0 in the op; `step` is 98 in Python, and the run is the first."""
    script = programs / "names" / "hidden_names.py"
    with Session() as session:
        thread = begin(session, script, mode, "relu", condition="out.sum() == 0")
        top = session.top(thread)["id"]
        # The mouse is on Python's name; an expression that is typed means the op's.
        for name, python in (("out", "-2"), ("step", "98")):
            (element,) = {session.evaluate(f"{name}[0]", top, "hover")["result"]}
            assert element.split()[-1] == python, element
        watched = session.evaluate("out[0]", top)["result"]
        assert watched.startswith("0  ('out' is a slot of the op here; Python's out is var("), (
            watched
        )
        answer = session.evaluate("out[0]", top, "repl")["result"]
        assert "'out' is a slot of the op here; Python's out is var(" in answer
        assert "'out'" not in session.evaluate("X[0]", top, "repl")["result"]
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0


@pytest.mark.parametrize("mode", MODES)
def test_hidden_names_at_the_prompt(programs: Path, mode: str) -> None:
    script = programs / "names" / "hidden_names.py"
    stop = f"break {line_of(script, 'relu')} if out.sum() == 0"
    typed = [stop, "run", "print out", "print X", "info locals", "whatis out", "kill"]
    shown = prompt(script, mode, typed).splitlines()
    (value,) = (line for line in shown if line.startswith("out = "))
    assert value == "out = float32[3] [0, 0, 0]"
    notes = [line for line in shown if line.startswith("'out' is a slot of the op here")]
    assert len(notes) == 2, shown
    locals_ = {line.split()[0]: line for line in shown if line.startswith("  ")}
    assert locals_["out"].endswith("[-2, -2, -2]")
    assert locals_["step"].endswith("[98, 98, 98]")
    (type_,) = (line for line in shown if line.startswith("out: "))
    assert type_ == "out: float32[3]"


@pytest.mark.parametrize("mode", ["compiled", "to_graph"])
def test_a_name_means_the_same_to_all_that_take_one(programs: Path, mode: str) -> None:
    """At `hundred`, `x` is what `ten` made; the program has an `x` too, which is fed."""
    script = programs / "names" / "shadowed.py"
    fed = "x" if mode == "compiled" else ""
    with Session() as session:
        thread = begin(session, script, mode, "hundred", condition="X.sum() > 10")
        top = session.top(thread)["id"]
        place = {"name": "x", "frameId": top}
        meant = session.request("dataBreakpointInfo", place)["dataId"]
        assert meant != "x" and number(session, f"var('{meant}')", top) == "11"
        assert session.evaluate("watch x", top, "repl")["result"].startswith(
            f"it stops when an op writes {meant};"
        )
        assert session.request("dataBreakpointInfo", {"name": "X", "frameId": top})["dataId"] == (
            meant
        )
        refused_name = session.request("dataBreakpointInfo", {"name": "z", "frameId": top})
        assert refused_name["dataId"] is None
        assert "there is no variable 'z' here" in refused_name["description"]
        caller = frame_at(session, thread, line_of(script, "call"))
        outer = session.request("dataBreakpointInfo", {"name": "x", "frameId": caller})["dataId"]
        assert outer != meant and number(session, f"var('{outer}')", caller) == "1"
        if fed:
            own = session.request("dataBreakpointInfo", {"name": "var('x')", "frameId": top})
            assert own["dataId"] == fed
    typed = [
        f"break {line_of(script, 'hundred')} if X.sum() > 10",
        "run",
        *(f"{word} x" for word in ("watch", "producers", "consumers", "inspect")),
        "back",
        "graph x",
        "break var:x",
        "watch z",
        "up",
        "watch x",
        "watch var('x')",
        "info watchpoints",
        "kill",
    ]
    shown = prompt(script, mode, typed)
    assert shown.count(f"x is {meant}\n") == 6, shown
    assert "error: there is no variable 'z' here" in shown
    watched = [line.split()[-1] for line in shown.splitlines() if "write of" in line][-4:]
    assert watched == [meant, meant, outer, "x"], shown
    made = next(line for line in shown.splitlines() if line.startswith("looking at op"))
    assert made.endswith(f"shadowed.py:{line_of(script, 'ten')}"), made


@pytest.mark.parametrize("mode", MODES)
def test_no_face_hides_pythons_name_in_silence(programs: Path, mode: str) -> None:
    """`out` is the op's slot, and not written yet; Python's `out` is what the line reads."""
    script = programs / "names" / "hidden_names.py"
    note = "'out' is a slot of the op here; Python's out is var("
    with Session() as session:
        session.start(script, mode, lines={str(script): [{"line": line_of(script, "relu")}]})
        thread = session.stopped("breakpoint")["threadId"]
        top = session.top(thread)["id"]
        for context in ("watch", "repl", "variables"):
            asked = {"expression": "out", "frameId": top, "context": context}
            said = str(session.fails("evaluate", asked))
            assert "not been written yet" in said and note in said
        assert "-2, -2, -2" in session.evaluate("out", top, "hover")["result"]
        assert note in session.evaluate("out.shape", top)["result"]
        rows = list(session.variables(session.scopes(top)["Outputs"]))
        rows += session.variables(session.scopes(top)["Block"])
        assert sum("Python's out" in row for row in rows) == 1, rows
        assert sum(row.startswith("out (") for row in rows) in (1, 2), rows
        assert len(rows) == len(set(rows))
    shown = prompt(
        script,
        mode,
        [
            f"break {line_of(script, 'relu')} if out.sum() == 0",
            f"break {line_of(script, 'relu')} hits 9 log {{out.sum()}}",
            "run",
            "info breakpoints",
            "whatis out",
            "summary out",
            "set out[0] = out[1]",
            "display out",
            "kill",
        ],
    )
    told = "'out' is the op's output here, not the variable of that name in Python"
    assert f"breakpoint 1 at hidden_names.py:{line_of(script, 'relu')}" in shown
    table = shown[shown.index("num ") :]
    assert table.count(told) == 2, shown
    assert table.count(note) == 4, shown


@pytest.mark.parametrize("mode", MODES)
def test_conditions_and_messages_know_the_functions_names(programs: Path, mode: str) -> None:
    """`x` is not what the op reads in imperative mode, and changes from call to call."""
    script = programs / "names" / "condition_names.py"
    line = line_of(script, "relu")
    with Session() as session:
        points = [{"line": line, "condition": "x.sum() > 3", "logMessage": "x {x.sum()}"}]
        session.start(script, mode, lines={str(script): points})
        assert session.ends() == 0
        shown = [m["body"]["output"] for m in session.history if m.get("event") == "output"]
        lines = [each for each in "".join(shown).splitlines() if each.startswith("x ")]
        assert lines == ["x 4", "x 8"], shown
    shown_text = prompt(script, mode, [f"break {line} if x.sum() > 3", "run", "print x", "kill"])
    assert "x = float32[2] [2, 2]" in shown_text, shown_text


@pytest.mark.parametrize("mode", MODES)
def test_attributes_of_layers_from_the_library(programs: Path, mode: str) -> None:
    """Their parameters are made in their first call, by functions of opstep."""
    script = programs / "names" / "library_layers.py"
    names = ("self.fc.w", "self.steps[0].w", "self.steps[1].b", "self.more[0].w", "net.fc.w")
    shapes = ("[2, 3]", "[3, 3]", "[4]", "[4, 2]", "[2, 3]")
    with Session() as session:
        thread = begin(session, script, mode, "tanh")
        top = session.top(thread)["id"]
        for name, shape in zip(names, shapes, strict=True):
            assert session.evaluate(f"{name}.shape", top)["result"] == shape
            assert shape in session.evaluate(name, top)["result"]
        assert "there is no variable" in refused(session, "self.steps[2].w", top)
    shown = prompt(script, mode, [f"break {line_of(script, 'tanh')}", "run", "info locals", "kill"])
    assert "self.more[0].w" in shown and "_opstep" not in shown, shown


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
    script = programs / "names" / "tower.py"
    one, call, last = (line_of(script, name) for name in ("one", "call", "last"))
    with Session() as session:
        thread = begin(session, script, mode, "one", hitCondition="2")
        assert [session.step("next", thread)["line"] for _ in range(3)] == [one, call, last]
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0
        assert session.output == "result [-22.0]\n"


@pytest.mark.parametrize("mode", MODES)
def test_over_into_and_out_of_functions(programs: Path, mode: str) -> None:
    script = programs / "names" / "tower.py"
    first, second, tower, absolute, call, last = (
        line_of(script, name) for name in ("first", "second", "tower", "abs", "call", "last")
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
    script = programs / "names" / "tower.py"
    first, tower, call = (line_of(script, name) for name in ("first", "tower", "call"))
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


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "value"), [("looks", "11"), ("traced", "1120")])
def test_names_of_functions_that_look_at_them_or_are_traced(
    programs: Path, mode: str, name: str, value: str
) -> None:
    """The program has an `x` of its own, which is 1."""
    script = programs / "names" / "seen_names.py"
    with Session() as session:
        thread = begin(session, script, mode, name)
        assert number(session, "x", session.top(thread)["id"]) == value
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0
        assert session.output == "result [33603040.0]\n"


@pytest.mark.parametrize("mode", MODES)
def test_names_of_the_function_around_a_comprehension(programs: Path, mode: str) -> None:
    script = programs / "names" / "seen_names.py"
    with Session() as session:
        thread = begin(session, script, mode, "encloses")
        top = session.top(thread)["id"]
        assert number(session, "x - 336000", top) == number(session, "each - 336000", top) == "30"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["counts", "deleted"])
def test_a_local_name_is_never_the_programs_variable(programs: Path, mode: str, name: str) -> None:
    """It holds a number, or nothing; the program has an `x` behind twenty others."""
    script = programs / "names" / "seen_names.py"
    with Session() as session:
        thread = begin(session, script, mode, name)
        top = session.top(thread)["id"]
        said = refused(session, "x", top)
        if mode == "compiled":
            assert "Python's x holds no variable of this program here; write var('x')" in said
            assert "Python's names here: " in said
            assert number(session, "var('x')", top) == "1"
        for text in ("x[0]", "x.sum()", "abs(x)"):
            refused(session, text, top)


def test_a_name_that_is_assigned_last_is_an_error(programs: Path) -> None:
    script = programs / "names" / "seen_names.py"
    with Session() as session:
        thread = begin(session, script, "compiled", "last")
        top = session.top(thread)["id"]
        assert "Python's x holds no variable of this program here" in refused(session, "x", top)
        assert session.step("next", thread)["line"] == line_of(script, "assigned")
        assert "Python's names here: y" in refused(session, "x", session.top(thread)["id"])


def test_a_dot_in_a_variables_name_where_python_has_an_object(programs: Path) -> None:
    """Attributes that hold variables are known: `head.w` can only be the program's own."""
    script = programs / "names" / "seen_names.py"
    with Session() as session:
        thread = begin(session, script, "compiled", "head")
        top = session.top(thread)["id"]
        values = [session.evaluate(f"{name}.shape", top) for name in ("head.w", "var('head.w')")]
        assert values[0]["result"] == values[1]["result"]
        assert "there is no variable 'head'" in refused(session, "head", top)


def test_names_at_gradients_in_imperative_mode(programs: Path) -> None:
    """They are on lines of a function that has returned, whose `x` is not known any more; where
    backward() was called, `x` is another value, and the gradients' program has a third one."""
    script = programs / "names" / "seen_names.py"
    with Session() as session:
        session.start(script, "gradients", functions=[{"name": "grad:*"}])
        lines: set[int] = set()
        while len(lines) < 2:
            thread = session.stopped("function breakpoint")["threadId"]
            frames = session.stack(thread)
            lines.add(frames[0]["line"])
            said = refused(session, "x", frames[0]["id"])
            assert "what Python's x held here is not known; write var('x')" in said
            refused(session, "grad(x)", frames[0]["id"])
            caller = next(f for f in frames if f["name"].startswith("run "))
            assert caller["line"] == line_of(script, "backward")
            # The frame that made the op is called so as well, further in.
            python = next(f for f in reversed(frames) if f["name"] == "gradients")
            for frame in (caller, python):
                assert number(session, "x", frame["id"]) == "-81"
            if len(lines) == 2:
                session.request("setFunctionBreakpoints", {"breakpoints": []})
            session.request("continue", {"threadId": thread})
        # The gradient of the result itself is that of the line that asked for it.
        assert lines == {line_of(script, "backward"), line_of(script, "square")}
        assert session.ends() == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "count"), [("either", 6), ("some", 6), ("both", 3)])
def test_executions_of_a_line_that_alternates(
    programs: Path, mode: str, name: str, count: int
) -> None:
    script = programs / "names" / "call_choices.py"
    line = line_of(script, name)
    with Session() as session:
        point = {"line": line, "logMessage": "executed"}
        session.start(script, mode, lines={str(script): [point]})
        assert session.ends() == 0
        shown = [m["body"]["output"] for m in session.history if m.get("event") == "output"]
        assert "".join(shown).count("executed") == count


def run_to(session: Session, script: Path, thread: int, *lines: int) -> None:
    """As an editor does it, or a person: one more breakpoint, and on."""
    points = [{"line": line} for line in lines]
    source = {"path": str(script)}
    session.request("setBreakpoints", {"source": source, "breakpoints": points})
    session.request("continue", {"threadId": thread})


def said(session: Session) -> str:
    """What the adapter itself has written so far."""
    outputs = [m["body"] for m in session.history if m.get("event") == "output"]
    return "".join(body["output"] for body in outputs if body["category"] == "console")


@pytest.mark.parametrize("mode", MODES)
def test_run_to_cursor_goes_to_an_op_that_is_made_later(programs: Path, mode: str) -> None:
    script = programs / "names" / "tower.py"
    with Session() as session:
        thread = begin(session, script, mode, "one")
        last = line_of(script, "last")
        run_to(session, script, thread, last)
        session.stopped("breakpoint")
        assert session.top(thread)["line"] == last
        # Where all ops were made before the run, there is nothing to report.
        told = f"no op was made on tower.py:{last} yet: the run goes on until one is\n"
        assert (told in said(session)) == (mode == "imperative"), said(session)
        run_to(session, script, thread)
        assert session.ends() == 0
        assert "nothing stopped" not in said(session)


@pytest.mark.parametrize("mode", ["compiled", "imperative"])
def test_run_to_cursor_on_a_line_that_makes_no_op_is_reported(programs: Path, mode: str) -> None:
    """The line has code, which may make an op: only the program's end tells that it does not."""
    script = programs / "names" / "tower.py"
    line = line_of(script, "print")
    with Session() as session:
        thread = begin(session, script, mode, "one")
        run_to(session, script, thread, line)
        assert session.ends() == 0
        text = said(session)
        assert f"no op was made on tower.py:{line} yet" in text
        assert f"nothing stopped at tower.py:{line}: no op was made on that line\n" in text


def test_run_to_cursor_in_a_program_that_is_built_later(programs: Path) -> None:
    script = programs / "names" / "two_builds.py"
    with Session() as session:
        session.start(script, lines={str(script): [{"line": line_of(script, "first")}]})
        thread = session.stopped("breakpoint")["threadId"]
        second = line_of(script, "second")
        run_to(session, script, thread, second)
        session.stopped("breakpoint")
        assert session.top(thread)["line"] == second
        assert f"no op was made on two_builds.py:{second} yet (nearest lines" in said(session)
        # An op is made on that line, but its program never runs.
        unused = line_of(script, "unused")
        run_to(session, script, thread, unused)
        assert session.ends() == 0
        assert f"nothing stopped at two_builds.py:{unused}: no op was made" in said(session)


def test_run_to_cursor_on_a_line_without_code_is_refused(programs: Path) -> None:
    script = programs / "names" / "tower.py"
    with Session() as session:
        thread = begin(session, script, "compiled", "one")
        # The file's docstring, and an empty line.
        for line in (1, 2):
            with pytest.raises(Failure, match=f"cannot run to tower.py:{line}: that line has no"):
                run_to(session, script, thread, line)
        # The thread stands where it was, and goes on to a line that has ops.
        assert session.top(thread)["line"] == line_of(script, "one")
        last = line_of(script, "last")
        run_to(session, script, thread, last)
        session.stopped("breakpoint")
        assert session.top(thread)["line"] == last
        # Who means it continues once more; looking around in between changes nothing.
        points = [{"line": last}, {"line": 1}]
        source = {"path": str(script)}
        session.request("setBreakpoints", {"source": source, "breakpoints": points})
        session.stack(thread)
        session.fails("continue", {"threadId": thread})
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0


def test_a_breakpoint_with_a_condition_is_not_run_to_cursor(programs: Path) -> None:
    script = programs / "names" / "tower.py"
    source = {"path": str(script)}
    with Session() as session:
        thread = begin(session, script, "compiled", "one")
        points = [{"line": 1, "condition": "step == 1"}]
        session.request("setBreakpoints", {"source": source, "breakpoints": points})
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0


def test_a_line_that_is_gone_again_is_not_run_to(programs: Path) -> None:
    script = programs / "names" / "tower.py"
    source = {"path": str(script)}
    with Session() as session:
        thread = begin(session, script, "compiled", "one")
        for lines in ([{"line": 1}], []):
            session.request("setBreakpoints", {"source": source, "breakpoints": lines})
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0
        assert "tower.py" not in said(session)
