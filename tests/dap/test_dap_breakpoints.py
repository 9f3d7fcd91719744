"""Breakpoints of all kinds, log points and exception filters, with a scripted executor."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.dap_client import Session
from harness.markers import line_of


def test_hit_counts_and_data_breakpoints(script: Path) -> None:
    with Session() as session:
        session.start(script, functions=[{"name": "matmul", "hitCondition": "2"}])
        stop = session.stopped("function breakpoint")
        thread = stop["threadId"]
        frames = session.stack(thread)
        assert frames[1]["name"] == "run 2 of main"
        session.request("setFunctionBreakpoints", {"breakpoints": []})

        info = session.request("dataBreakpointInfo", {"name": "log_0.out"})
        assert (info["dataId"], info["accessTypes"]) == ("log_0.out", ["write"])
        assert info["canPersist"] is True
        wanted = [{"dataId": info["dataId"], "accessType": "write"}]
        body = session.request("setDataBreakpoints", {"breakpoints": wanted})
        assert body["breakpoints"][0]["verified"] is True
        session.request("continue", {"threadId": thread})
        stop = session.stopped("data breakpoint")
        assert stop["hitBreakpointIds"] == [body["breakpoints"][0]["id"]]
        wanted[0]["accessType"] = "read"
        body = session.request("setDataBreakpoints", {"breakpoints": wanted})
        assert "cannot be watched" in body["breakpoints"][0]["message"]


def test_where_a_data_breakpoint_can_be_set(script: Path) -> None:
    with Session() as session:
        session.initialize()
        assert session.request("dataBreakpointInfo", {"name": "w"})["dataId"] == "w"
        launched = session.send("launch", {"program": str(script), "stopOnEntry": True})
        session.request("configurationDone")
        session.response(launched)
        thread = session.stopped("entry")["threadId"]
        frame = session.top(thread)["id"]
        inputs = session.scopes(frame)["Inputs"]
        x = session.variables(inputs)["X (x)"]

        def info(name: str, **more: int) -> object:
            return session.request("dataBreakpointInfo", {"name": name, **more})["dataId"]

        assert info("X (x)", variablesReference=inputs) == "x"
        assert info("X", frameId=frame) == "x"
        assert info("X") == "x"
        assert info("w_3", frameId=frame) == "w_3"
        assert info('var("w@grad")', frameId=frame) == "w@grad"
        assert info("[0]", variablesReference=x["variablesReference"]) is None
        assert info("w_3 + 1", frameId=frame) is None
        wrong = session.request("dataBreakpointInfo", {"name": "nowhere", "frameId": frame})
        assert wrong["dataId"] is None
        assert wrong["description"] == "there is no variable 'nowhere' here"


def test_a_log_point_writes_and_does_not_stop(script: Path) -> None:
    line = line_of(script, "matmul")
    with Session() as session:
        session.start(script, lines={str(script): [{"line": line, "logMessage": "a batch"}]})
        written = session.event("output", lambda body: "a batch" in body["output"])
        assert (written["output"], written["line"]) == ("a batch\n", line)
        assert written["source"]["path"] == str(script)
        assert session.ends() == 0
        assert session.count("stopped") == 0


def test_a_line_comes_before_other_reasons(script: Path) -> None:
    line = line_of(script, "matmul")
    with Session() as session:
        answers = session.start(
            script, lines={str(script): [{"line": line}]}, functions=[{"name": "matmul"}]
        )
        stop = session.stopped("breakpoint")
        assert sorted(stop["hitBreakpointIds"]) == sorted(a["id"] for a in answers)


def test_exception_filters_with_conditions(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        options = [
            {"filterId": "nan", "condition": "step > 1"},
            {"filterId": "overflow", "condition": "1e3"},
            {"filterId": "inf", "condition": "1 +"},
        ]
        body = session.request(
            "setExceptionBreakpoints", {"filters": ["error"], "filterOptions": options}
        )
        assert [b["verified"] for b in body["breakpoints"]] == [True, True, True, False]
        assert body["breakpoints"][3]["message"]
        assert len({b["id"] for b in body["breakpoints"]}) == 4
        session.request("continue", {"threadId": thread})
        stop = session.stopped("exception")
        info = session.request("exceptionInfo", {"threadId": stop["threadId"]})
        assert info["exceptionId"] == "nan"
        message = info["details"]["message"].splitlines()
        assert message[0] == "[log] made 1 NaN in log_0.out, first at [0]"
        assert message[1:4] == [
            "op: log_0 (log) → log_0.out float32[?]",
            "variable: log_0.out float32[?]",
            "nan: 1, first at [0]",
        ]
        assert message[4].startswith("input X (x): float32[4, 3] mean 1.5")
        assert info["details"]["evaluateName"] == "log_0.out"
        trace = info["details"]["stackTrace"].splitlines()
        assert [line.rsplit(" ", 1)[1] for line in trace] == ["model", "build"]


@pytest.mark.parametrize("command", ["setFunctionBreakpoints", "setBreakpoints"])
def test_conditions_that_cannot_be_used_are_told(script: Path, command: str) -> None:
    wrong = [{"condition": "1 +"}, {"hitCondition": "often"}, {"logMessage": "{1 +}"}]
    with Session() as session:
        session.initialize()
        if command == "setBreakpoints":
            breakpoints = [{"line": n, **entry} for n, entry in enumerate(wrong, 1)]
            arguments = {"source": {"path": str(script)}, "breakpoints": breakpoints}
        else:
            wrong = wrong[:2]
            arguments = {"breakpoints": [{"name": "log", **entry} for entry in wrong]}
        body = session.request(command, arguments)
        assert len(body["breakpoints"]) == len(wrong)
        for answer in body["breakpoints"]:
            assert answer["verified"] is False
            assert answer["message"]
