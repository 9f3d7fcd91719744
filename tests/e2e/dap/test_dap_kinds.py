"""Every kind of breakpoint, log points and exception filters on the real executor."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from harness.dap_client import Session
from harness.markers import line_of

Json = dict[str, Any]


def at(path: Path, name: str, **more: Any) -> dict[str, list[Json]]:
    return {str(path): [{"line": line_of(path, name), **more}]}


def go_on(session: Session, stop: Json) -> None:
    session.request("continue", {"threadId": stop["threadId"]})


def test_hit_conditions_count_runs(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, "--steps", "9", lines=at(script, "hidden", hitCondition="% 4"))
        for run in (4, 8):
            stop = session.stopped("breakpoint")
            assert session.stack(stop["threadId"])[1]["name"] == f"run {run} of main"
            go_on(session, stop)
        assert session.ends() == 0


def test_a_log_point_tells_values_at_its_line(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        message = "step {step}: {x.shape} and {no_such}"
        session.start(script, "--steps", "3", lines=at(script, "hidden", logMessage=message))
        assert session.ends() == 0
        assert session.count("stopped") == 0
        written = [
            m["body"]
            for m in session.history
            if m.get("event") == "output" and m["body"]["output"].startswith("step ")
        ]
        assert len(written) == 3
        assert written[2]["output"].startswith("step 3: [16, 8] and ")
        assert written[2]["line"] == line_of(script, "hidden")
        assert written[2]["source"]["path"] == str(script)


def test_a_data_breakpoint_stops_where_a_parameter_is_written(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, "--steps", "2", lines=at(script, "hidden", condition="step == 1"))
        stop = session.stopped("breakpoint")
        frame = session.top(stop["threadId"])["id"]
        parameters = session.scopes(frame)["Parameters"]
        name = next(iter(session.variables(parameters)))
        info = session.request(
            "dataBreakpointInfo", {"variablesReference": parameters, "name": name}
        )
        assert info["canPersist"] is True
        assert info["accessTypes"] == ["write"]
        wanted = [{"dataId": info["dataId"], "accessType": "write"}]
        (answer,) = session.request("setDataBreakpoints", {"breakpoints": wanted})["breakpoints"]
        assert answer["verified"] is True
        before = session.evaluate(f"{info['dataId']}.sum()", frame)["result"]
        go_on(session, stop)
        stop = session.stopped("data breakpoint")
        assert stop["hitBreakpointIds"] == [answer["id"]]
        top = session.top(stop["threadId"])
        assert top["name"].endswith("(has run)")
        assert top["line"] == line_of(script, "minimize")
        assert session.evaluate(f"{info['dataId']}.sum()", top["id"])["result"] != before


def test_a_data_breakpoint_by_name_is_there_before_the_program(programs: Path) -> None:
    script = programs / "loop.py"
    with Session() as session:
        session.initialize()
        launched = session.send("launch", {"program": str(script)})
        info = session.request("dataBreakpointInfo", {"name": "total"})
        names = [info["dataId"], "no_such"]
        wanted = [{"dataId": name, "condition": "iteration == 1"} for name in names]
        answers = session.request("setDataBreakpoints", {"breakpoints": wanted})["breakpoints"]
        assert [answer["verified"] for answer in answers] == [False, False]
        session.request("configurationDone")
        session.response(launched)


def test_a_data_breakpoint_needs_a_variable_that_is_there(programs: Path) -> None:
    with Session() as session:
        session.start(programs / "two_lines.py", functions=[{"name": "exp"}])
        session.stopped("function breakpoint")
        frame = session.top(1)["id"]
        for where in ({"frameId": frame}, {}):

            def info(name: str, where: dict[str, int] = where) -> dict[str, object]:
                return session.request("dataBreakpointInfo", {"name": name, **where})

            assert info("z")["dataId"] == "exp_0.out"
            assert info("tanh_0.out")["dataId"] == "tanh_0.out"
            assert info("X")["dataId"] == "tanh_0.out"
            for name in ("nope", 'var("nope")', "z.nope"):
                assert info(name)["dataId"] is None
                said = str(info(name)["description"])
                assert "there is no variable" in said or "is not a whole variable" in said


def test_instruction_breakpoints_and_disassembly(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, "--steps", "1", lines=at(script, "hidden"))
        stop = session.stopped("breakpoint")
        here = session.top(stop["threadId"])["instructionPointerReference"]
        arguments = {"memoryReference": here, "instructionOffset": -2, "instructionCount": 60}
        rows = session.request("disassemble", arguments)["instructions"]
        assert len(rows) == 60
        addresses = [int(row["address"], 16) for row in rows]
        assert addresses == sorted(set(addresses))
        position = next(n for n, row in enumerate(rows) if row["address"] == here)
        assert position == 2
        assert rows[position]["symbol"] == "fc_0.matmul"
        assert rows[position]["line"] == line_of(script, "hidden")
        relu = next(row for row in rows if row.get("symbol") == "fc_0.relu")
        assert "relu" in relu["instruction"]
        assert rows[-1]["presentationHint"] == "invalid"
        body = session.request(
            "setInstructionBreakpoints",
            {"breakpoints": [{"instructionReference": relu["address"]}]},
        )
        assert body["breakpoints"][0]["verified"] is True
        go_on(session, stop)
        stop = session.stopped("instruction breakpoint")
        assert session.top(stop["threadId"])["name"].startswith("fc_0.relu (relu)")


def test_the_report_of_a_nan(programs: Path) -> None:
    script = programs / "make_nan.py"
    with Session() as session:
        session.start(script, filters=["nan"])
        stop = session.stopped("exception")
        info = session.request("exceptionInfo", {"threadId": stop["threadId"]})
        assert info["exceptionId"] == "nan"
        report = info["details"]["message"].splitlines()
        assert re.fullmatch(r"\[log\] made 1 NaN in .*, first at \[1\]", report[0])
        assert report[1].startswith("op: log_0 (log) → ")
        assert report[3] == "nan: 1, first at [1]"
        assert any(line.startswith("input X (x): float32[2]") for line in report)
        assert f"line {line_of(script, 'log')}, in <module>" in info["details"]["stackTrace"]
        frame = session.top(stop["threadId"])["id"]
        bad = session.evaluate(info["details"]["evaluateName"], frame)
        assert "nan" in bad["result"]


def test_filters_with_conditions_and_a_limit(programs: Path) -> None:
    script = programs / "loop.py"
    with Session() as session:
        session.initialize()
        launched = session.send("launch", {"program": str(script)})
        options = [
            {"filterId": "overflow", "condition": "50"},
            {"filterId": "nan", "condition": "step > 1"},
        ]
        body = session.request("setExceptionBreakpoints", {"filters": [], "filterOptions": options})
        assert [b["verified"] for b in body["breakpoints"]] == [True, True]
        session.request("configurationDone")
        session.response(launched)
        # 3 is doubled to 96 in the last iteration of the second run.
        stop = session.stopped("exception")
        assert stop["description"] == "Paused on overflow"
        frames = session.stack(stop["threadId"])
        assert frames[0]["line"] == line_of(script, "double")
        assert frames[1]["name"] == "while_0 body, iteration 4"
        assert frames[2]["name"] == "run 2 of main"
        info = session.request("exceptionInfo", {"threadId": stop["threadId"]})
        assert info["exceptionId"] == "overflow"


def test_a_filter_whose_condition_fits_no_op_is_told(programs: Path) -> None:
    script = programs / "make_nan.py"
    with Session() as session:
        session.initialize()
        launched = session.send("launch", {"program": str(script)})
        options = [{"filterId": "nan", "condition": "no_such > 1"}]
        body = session.request("setExceptionBreakpoints", {"filters": [], "filterOptions": options})
        (answer,) = body["breakpoints"]
        assert answer["verified"] is True
        session.request("configurationDone")
        session.response(launched)
        changed = session.event("breakpoint")["breakpoint"]
        assert (changed["id"], changed["verified"]) == (answer["id"], False)
        assert "no_such" in changed["message"]
        assert session.ends() == 0


def test_lines_that_led_to_an_op_are_frames(programs: Path) -> None:
    script = programs / "helper.py"
    with Session() as session:
        session.start(script, lines=at(script, "second"))
        stop = session.stopped("breakpoint")
        frames = session.stack(stop["threadId"])
        # The breakpoint is on the line that calls what makes the op.
        assert frames[0]["line"] == line_of(script, "second")
        assert frames[1]["name"] == "run 1 of main"
        assert session.step("stepIn", stop["threadId"])["line"] == line_of(script, "inside")
        frames = session.stack(stop["threadId"])
        assert frames[1]["name"] == "made in <module>"
        assert frames[1]["line"] == line_of(script, "second")
        assert frames[2]["name"] == "run 1 of main"
        # Each has its own names.
        values = [session.evaluate("x", frame["id"])["result"] for frame in frames[:2]]
        assert values[0] == session.evaluate("first", frames[1]["id"])["result"] != values[1]


def test_step_into_one_of_two_blocks(programs: Path) -> None:
    script = programs / "blocks.py"
    with Session() as session:
        session.start(script, functions=[{"name": "ifelse_0"}, {"name": "recurrent_0"}])
        thread = session.stopped("function breakpoint")["threadId"]
        (only,) = session.request("stepInTargets", {"frameId": session.top(thread)["id"]})[
            "targets"
        ]
        session.request("stepIn", {"threadId": thread, "targetId": only["id"]})
        session.stopped("step")
        assert session.stack(thread)[1]["name"] == "recurrent_0 body, iteration 0"
        session.step("stepOut", thread)
        session.request("continue", {"threadId": thread})
        session.stopped("function breakpoint")
        targets = session.request("stepInTargets", {"frameId": session.top(thread)["id"]})[
            "targets"
        ]
        assert [target["label"].split()[1] for target in targets] == ["true_block", "false_block"]
        # Past the one that is run first.
        session.request("stepIn", {"threadId": thread, "targetId": targets[1]["id"]})
        session.stopped("step")
        assert session.top(thread)["line"] == line_of(script, "large")


def test_one_thread_steps_while_the_other_waits(programs: Path) -> None:
    script = programs / "pair.py"
    with Session() as session:
        session.start(script, lines=at(script, "double"))
        first = session.stopped("breakpoint")["threadId"]
        second = session.stopped("breakpoint")["threadId"]
        assert first != second
        assert {t["id"] for t in session.request("threads")["threads"]} == {first, second}
        other = session.top(second)["id"]
        session.request("next", {"threadId": first, "singleThread": True})
        session.stopped("step")
        assert session.top(first)["line"] == line_of(script, "square")
        # The other one has not moved: its frame is the same.
        assert session.top(second)["id"] == other
        body = session.request("continue", {"threadId": first, "singleThread": True})
        assert body == {"allThreadsContinued": False}
        session.stopped("breakpoint")
        assert session.top(second)["id"] == other
        # A step of one without that lets the other go on.
        session.request("next", {"threadId": first})
        session.event("continued", lambda body: body["threadId"] == second)


def test_a_breakpoint_in_the_program_itself(programs: Path) -> None:
    script = programs / "marked.py"
    with Session() as session:
        session.start(script)
        for _ in range(2):
            stop = session.stopped("breakpoint")
            assert stop["description"] == "Paused on opstep.debug.breakpoint()"
            assert "hitBreakpointIds" not in stop
            assert session.top(stop["threadId"])["line"] == line_of(script, "marked")
            go_on(session, stop)
        assert session.ends() == 0
