"""An editor at a script in imperative mode: one program, Python's names, steps by lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.dap_client import Session
from harness.markers import line_of

pytestmark = pytest.mark.e2e

Json = dict[str, Any]


def in_scope(session: Session, frame: int, name: str) -> dict[str, Json]:
    scopes = session.request("scopes", {"frameId": frame})["scopes"]
    (scope,) = [scope for scope in scopes if scope["name"] == name]
    found = session.request("variables", {"variablesReference": scope["variablesReference"]})
    return {variable["name"]: variable for variable in found["variables"]}


def test_an_editor_sees_python_s_values_and_lines(programs: Path) -> None:
    script = programs / "line_by_line.py"
    with Session() as session:
        session.start(script, lines={str(script): [{"line": line_of(script, "step")}]})
        thread = session.stopped()["threadId"]
        frames = session.request("stackTrace", {"threadId": thread})["stackFrames"]
        names = [frame["name"].split(" ")[0] for frame in frames]
        assert names == ["sequential/step_0.w.sgd", "run", "[Python]", "train", "<module>"]
        assert frames[3]["line"] == line_of(script, "step")
        top = frames[0]["id"]
        block = in_scope(session, top, "Block")
        assert {"x", "doubled", "loss"} <= set(block)
        assert in_scope(session, top, "Parameters")["model.step_1.b"]["value"].startswith("float32")
        gradients = in_scope(session, top, "Gradients")
        assert "model.step_0.w.gradient" in gradients
        # What is shown can be opened and asked for.
        rows = session.request(
            "variables", {"variablesReference": block["doubled"]["variablesReference"]}
        )
        assert rows["variables"]
        said = session.request("evaluate", {"expression": "loss > 0", "frameId": top})
        assert said["result"] in ("True", "False")
        modules = session.request("modules", {})["modules"]
        assert sorted(module["name"] for module in modules) == ["backward", "imperative"]
        # Four parameters are one line.
        session.request("next", {"threadId": thread, "granularity": "line"})
        session.stopped()
        frames = session.request("stackTrace", {"threadId": thread})["stackFrames"]
        assert frames[0]["line"] == line_of(script, "doubled")


def test_the_gradient_of_a_loss_is_on_the_line_that_asks_for_it(programs: Path) -> None:
    """Also where another line has asked for the same gradients before."""
    script = programs / "names" / "first_calls.py"
    with Session() as session:
        session.start(script, lines={str(script): [{"line": line_of(script, "loss")}]})
        for name in ("backward", "again"):
            thread = session.stopped("breakpoint")["threadId"]
            # Over the line, whose layers are a call.
            top = session.step("next", thread)
            assert top["name"].startswith("mean.grad_seed")
            assert top["line"] == line_of(script, name)
            session.request("continue", {"threadId": thread})
        assert session.ends() == 0


def test_the_first_call_of_a_layer_is_one_visit_of_its_line(programs: Path) -> None:
    """A step ends at the first value of a parameter, and the layer's own op is no second stop."""
    script = programs / "names" / "first_calls.py"
    line = line_of(script, "part")
    with Session() as session:
        session.start(script, lines={str(script): [{"line": line, "hitCondition": ">= 1"}]})
        thread = session.stopped("breakpoint")["threadId"]
        assert session.top(thread)["name"].startswith("stack/parts_0.matmul")
        for part in (1, 2):
            session.request("next", {"threadId": thread})
            session.stopped("breakpoint")
            top = session.top(thread)
            assert top["line"] == line
            assert top["name"].startswith(f"stack/parts_{part}.w.init")
        assert session.step("next", thread)["line"] == line_of(script, "loss")
        # The parameters have values now.
        source = {"path": str(script)}
        points = [{"line": line, "hitCondition": "2"}]
        session.request("setBreakpoints", {"source": source, "breakpoints": points})
        session.request("continue", {"threadId": thread})
        session.stopped("breakpoint")
        assert session.top(thread)["name"].startswith("stack/parts_1.matmul")
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0


def test_a_hit_condition_counts_a_first_call_once(programs: Path) -> None:
    script = programs / "names" / "first_calls.py"
    line = line_of(script, "part")
    with Session() as session:
        first = [{"name": "stack/parts_1.w.init"}]
        points = [{"line": line, "hitCondition": "3"}]
        session.start(script, lines={str(script): points}, functions=first)
        thread = session.stopped("function breakpoint")["threadId"]
        # Out of the function's second call of a layer, whose line is reached once.
        top = session.step("next", thread, "instruction")
        assert top["name"].startswith("stack/parts_1.b.init")
        session.request("continue", {"threadId": thread})
        session.stopped("breakpoint")
        assert session.top(thread)["name"].startswith("stack/parts_2.matmul")
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0


def test_out_of_a_function_to_the_rest_of_the_line_that_called_it(programs: Path) -> None:
    script = programs / "names" / "first_calls.py"
    with Session() as session:
        session.start(script, lines={str(script): [{"line": line_of(script, "part")}]})
        thread = session.stopped("breakpoint")["threadId"]
        source = {"path": str(script)}
        session.request("setBreakpoints", {"source": source, "breakpoints": []})
        top = session.step("stepOut", thread)
        assert (top["line"], top["name"][:6]) == (line_of(script, "loss"), "mean (")
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0
