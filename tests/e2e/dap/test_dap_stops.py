"""Real scripts under the real executor, stopped and looked at through the adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.dap_client import Session
from harness.markers import line_of

Json = dict[str, Any]


def at(path: Path, name: str, **more: Any) -> dict[str, list[Json]]:
    return {str(path): [{"line": line_of(path, name), **more}]}


def go_on(session: Session, stop: Json) -> None:
    session.request("continue", {"threadId": stop["threadId"]})


def stopped_in_main(session: Session) -> Json:
    """A layer's line does not mean the ops that initialise its parameters."""
    stop = session.stopped("breakpoint")
    assert session.stack(stop["threadId"])[1]["name"].endswith(" of main")
    return stop


def past_startup(session: Session, reason: str = "breakpoint") -> Json:
    """Patterns, and lines with all that was made there, also take what fills the parameters."""
    stop = session.stopped(reason)
    while (run := session.stack(stop["threadId"])[1]["name"]) == "run 1 of startup":
        go_on(session, stop)
        stop = session.stopped(reason)
    assert run.endswith(" of main")
    return stop


def test_without_breakpoints_the_script_just_runs(programs: Path) -> None:
    with Session() as session:
        session.start(programs / "mlp.py", "--steps", "3")
        assert session.ends() == 0
        assert session.output.count("loss ") == 3
        assert session.count("stopped") == 0


def test_a_line_breakpoint_stops_once_in_each_run(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        (answer,) = session.start(script, "--steps", "3", lines=at(script, "hidden"))
        assert answer["verified"] is False
        for run in (1, 2, 3):
            stop = session.stopped("breakpoint")
            assert stop["hitBreakpointIds"] == [answer["id"]]
            frames = session.stack(stop["threadId"])
            assert frames[0]["name"].startswith("fc_0.matmul (matmul) → ")
            assert frames[0]["source"]["path"] == str(script)
            assert frames[0]["line"] == line_of(script, "hidden")
            assert frames[1]["name"] == f"run {run} of main"
            assert frames[2]["presentationHint"] == "label"
            assert (frames[3]["name"], frames[3]["line"]) == ("<module>", line_of(script, "run"))
            go_on(session, stop)
        assert session.ends() == 0
        changes = [
            m["body"]["breakpoint"] for m in session.history if m.get("event") == "breakpoint"
        ]
        assert any(change["verified"] for change in changes)


def test_gradients_of_the_line_stop_too_when_asked_for(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, "--steps", "1", lines=at(script, "logits"), gradients=True)
        stop = past_startup(session)
        assert session.top(stop["threadId"])["name"].startswith("fc_1.matmul (matmul)")
        go_on(session, stop)
        stop = session.stopped("breakpoint")
        top = session.top(stop["threadId"])
        assert "grad" in top["name"]
        assert top["line"] == line_of(script, "logits")


def test_pattern_breakpoints_by_type_and_by_name(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        by_type, by_name, nowhere = session.start(
            script,
            "--steps",
            "1",
            functions=[{"name": "relu"}, {"name": "fc_1.*"}, {"name": "conv*"}],
        )
        stop = past_startup(session, "function breakpoint")
        assert stop["hitBreakpointIds"] == [by_type["id"]]
        assert session.top(stop["threadId"])["name"].startswith("fc_0.relu (relu)")
        go_on(session, stop)
        stop = session.stopped("function breakpoint")
        assert stop["hitBreakpointIds"] == [by_name["id"]]
        assert session.top(stop["threadId"])["name"].startswith("fc_1.matmul")
        told = [m["body"]["breakpoint"] for m in session.history if m.get("event") == "breakpoint"]
        verified = {b["id"] for b in told if b["verified"]}
        assert by_name["id"] in verified
        assert nowhere["id"] not in verified


def test_conditions_on_inputs_outputs_and_the_step(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, "--steps", "5", lines=at(script, "hidden", condition="step == 4"))
        stop = session.stopped("breakpoint")
        assert session.stack(stop["threadId"])[1]["name"] == "run 4 of main"
        source = {"path": str(script)}
        session.request("setBreakpoints", {"source": source, "breakpoints": []})
        functions = [{"name": "relu", "condition": "out.min() >= 0 and X.shape[0] == 16"}]
        session.request("setFunctionBreakpoints", {"breakpoints": functions})
        go_on(session, stop)
        stop = session.stopped("function breakpoint")
        top = session.top(stop["threadId"])
        assert top["name"].startswith("fc_0.relu (relu)")
        assert top["name"].endswith("(has run)"), "a condition on an output stops after the op"
        functions[0]["condition"] = "out.min() < 0"
        session.request("setFunctionBreakpoints", {"breakpoints": functions})
        go_on(session, stop)
        assert session.ends() == 0
        assert session.count("stopped") == 2


def test_a_condition_that_cannot_be_used_is_told(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        (answer,) = session.start(
            script, "--steps", "1", lines=at(script, "hidden", condition="X >")
        )
        assert answer["verified"] is False
        assert answer["message"]
        assert session.ends() == 0
        assert session.count("stopped") == 0


def test_variables_hold_the_tensors(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, lines=at(script, "hidden"))
        stop = stopped_in_main(session)
        frames = session.stack(stop["threadId"])
        scopes = session.scopes(frames[0]["id"])
        inputs = session.variables(scopes["Inputs"])
        x = next(v for name, v in inputs.items() if "(x)" in name)
        assert x["type"] == "float32[16, 8]"
        rows = session.variables(x["variablesReference"], filter="indexed", start=14, count=10)
        assert list(rows) == ["[14]", "[15]"]
        assert rows["[15]"]["type"] == "float32[8]"
        elements = session.variables(rows["[15]"]["variablesReference"])
        assert len(elements) == 8
        one = session.evaluate(elements["[3]"]["evaluateName"], frames[0]["id"])
        assert elements["[3]"]["value"] in one["result"]
        outputs = session.variables(scopes["Outputs"])
        assert [v["value"] for v in outputs.values()] == ["<not written yet>"]
        parameters = session.variables(scopes["Parameters"])
        assert {"fc_0.w", "fc_0.b", "fc_1.w", "fc_1.b"} <= set(parameters)
        assert parameters["fc_0.w"]["type"] == "float32[8, 4]"
        rows = session.variables(parameters["fc_0.w"]["variablesReference"])
        assert len(rows) == 8
        gradients = session.variables(scopes["Gradients"])
        assert any(name.startswith("fc_0.w") for name in gradients)
        run = session.scopes(frames[1]["id"])
        assert "x" in "".join(session.variables(run["Inputs"]))


def test_evaluate_reads_the_expression_language(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, lines=at(script, "logits"))
        stop = stopped_in_main(session)
        frame = session.top(stop["threadId"])["id"]
        assert session.evaluate("x.shape", frame)["result"] == "[16, 8]"
        assert session.evaluate("step", frame)["result"] == "1"
        assert session.evaluate("isnan(x).any()", frame)["result"].endswith("False")
        assert session.evaluate("x[0, :3]", frame)["type"] == "float32[3]"
        assert session.evaluate("fc_0.w @ fc_1.w", frame)["type"] == "float32[8, 3]"
        product = session.evaluate("fc_0.w * 2", frame, "repl")
        assert len(session.variables(product["variablesReference"])) == 8
        for wrong in ("xx", "x +", "__import__('os')", "x.nothing()"):
            failure = session.fails("evaluate", {"expression": wrong, "frameId": frame})
            assert failure.sentence and "\n" not in failure.sentence


def test_the_listing_is_a_source_with_breakpoints(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, lines=at(script, "hidden"))
        stop = stopped_in_main(session)
        listing = session.event("loadedSource", lambda b: b["source"]["name"] == "main.opstep")
        reference = listing["source"]["sourceReference"]
        content: str = session.request("source", {"sourceReference": reference})["content"]
        line = next(n for n, text in enumerate(content.splitlines(), 1) if "fc_1.matmul" in text)
        body = session.request(
            "setBreakpoints", {"source": listing["source"], "breakpoints": [{"line": line}]}
        )
        assert body["breakpoints"][0]["verified"] is True, body
        go_on(session, stop)
        stop = session.stopped("breakpoint")
        assert stop["hitBreakpointIds"] == [body["breakpoints"][0]["id"]]
        assert session.top(stop["threadId"])["name"].startswith("fc_1.matmul (matmul)")


def test_breakpoint_locations_are_the_lines_that_made_ops(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, lines=at(script, "hidden"))
        stopped_in_main(session)
        arguments = {"source": {"path": str(script)}, "line": 1, "endLine": 1000}
        found = session.request("breakpointLocations", arguments)["breakpoints"]
        lines = {line_of(script, name) for name in ("hidden", "logits", "loss")}
        assert lines <= {location["line"] for location in found}
        assert line_of(script, "run") not in {location["line"] for location in found}


def test_a_nan_stops_at_the_op_that_made_it(programs: Path) -> None:
    script = programs / "make_nan.py"
    with Session() as session:
        session.start(script, filters=["nan"])
        stop = session.stopped("exception")
        assert "NaN" in stop["text"] and "[log]" in stop["text"]
        frames = session.stack(stop["threadId"])
        assert "(log)" in frames[0]["name"] and frames[0]["name"].endswith("(has run)")
        assert frames[0]["line"] == line_of(script, "log")
        assert frames[1]["name"] == "run 3 of main"
        info = session.request("exceptionInfo", {"threadId": stop["threadId"]})
        assert info["exceptionId"] == "nan"
        assert f"line {line_of(script, 'log')}" in info["details"]["stackTrace"]
        frame = frames[0]["id"]
        assert session.evaluate("isnan(out).any()", frame)["result"].endswith("True")
        # Ops that only pass the NaN on do not stop; the next run makes a new one.
        go_on(session, stop)
        stop = session.stopped("exception")
        assert session.stack(stop["threadId"])[1]["name"] == "run 4 of main"
        go_on(session, stop)
        assert session.ends() == 0


@pytest.mark.parametrize("filters", [[], ["inf"], ["error"]])
def test_without_the_filter_a_nan_stops_nothing(programs: Path, filters: list[str]) -> None:
    with Session() as session:
        session.start(programs / "make_nan.py", filters=filters)
        assert session.ends() == 0
        assert session.count("stopped") == 0
        assert "run 3: nan" in session.output


def test_pause_stops_a_running_script(programs: Path) -> None:
    with Session() as session:
        session.start(programs / "mlp.py", "--steps", "1000000000000")
        session.event("output", lambda body: "loss" in body["output"])
        thread = session.request("threads")["threads"][0]["id"]
        for _ in range(5):
            session.request("pause", {"threadId": thread})
            session.stopped("pause")
            frames = session.stack(thread)
            assert frames[0]["source"]["path"] == str(programs / "mlp.py")
            session.request("continue", {"threadId": thread})
        session.event("output", lambda body: "loss" in body["output"])


def test_a_condition_that_fails_stops_and_says_why(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, "--steps", "1", lines=at(script, "hidden", condition="X > 0"))
        stop = session.stopped("breakpoint")
        assert "the condition of breakpoint" in stop["text"]
        assert "use any() or all()" in stop["text"]


def test_a_line_of_a_helper_stops_for_each_caller(programs: Path) -> None:
    script = programs / "helper.py"
    with Session() as session:
        session.start(script, lines=at(script, "inside"))
        for op in ("fc_0.matmul", "fc_1.matmul"):
            stop = session.stopped("breakpoint")
            assert session.top(stop["threadId"])["name"].startswith(op)
            go_on(session, stop)
        assert session.ends() == 0


def test_the_line_that_calls_a_helper_stops_too(programs: Path) -> None:
    script = programs / "helper.py"
    with Session() as session:
        session.start(script, lines=at(script, "second"))
        stop = session.stopped("breakpoint")
        assert session.top(stop["threadId"])["name"].startswith("fc_1.matmul")
        go_on(session, stop)
        assert session.ends() == 0


def test_stepping_by_line_goes_from_caller_to_caller(programs: Path) -> None:
    script = programs / "helper.py"
    with Session() as session:
        session.start(script, lines=at(script, "first"))
        thread = session.stopped("breakpoint")["threadId"]
        assert session.step("next", thread)["name"].startswith("fc_1.matmul")
        assert session.step("next", thread)["line"] == line_of(script, "loss")
