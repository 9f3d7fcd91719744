"""Launching, stopping, looking and going on, over the protocol with a scripted executor."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.dap_client import Session
from harness.dap_schema import capability_names
from harness.markers import line_of

CAPABILITIES = {
    "supportTerminateDebuggee",
    "supportsBreakpointLocationsRequest",
    "supportsCancelRequest",
    "supportsClipboardContext",
    "supportsCompletionsRequest",
    "supportsConditionalBreakpoints",
    "supportsConfigurationDoneRequest",
    "supportsDataBreakpoints",
    "supportsDelayedStackTraceLoading",
    "supportsDisassembleRequest",
    "supportsEvaluateForHovers",
    "supportsExceptionFilterOptions",
    "supportsExceptionInfoRequest",
    "supportsFunctionBreakpoints",
    "supportsHitConditionalBreakpoints",
    "supportsInstructionBreakpoints",
    "supportsLoadedSourcesRequest",
    "supportsLogPoints",
    "supportsModulesRequest",
    "supportsReadMemoryRequest",
    "supportsRestartRequest",
    "supportsSetExpression",
    "supportsSetVariable",
    "supportsSingleThreadExecutionRequests",
    "supportsStepInTargetsRequest",
    "supportsSteppingGranularity",
    "supportsTerminateRequest",
    "supportsValueFormattingOptions",
    "supportsWriteMemoryRequest",
}


def test_capabilities_are_the_schemas_and_have_their_requests(script: Path) -> None:
    with Session() as session:
        capabilities = session.initialize()
        assert set(capabilities) <= capability_names()
        assert {name for name, value in capabilities.items() if value is True} == CAPABILITIES
        filters = {f["filter"] for f in capabilities["exceptionBreakpointFilters"]}
        assert filters == {"error", "nan", "inf", "overflow"}


def test_a_line_breakpoint_binds_and_stops(script: Path) -> None:
    line = line_of(script, "log")
    with Session() as session:
        (answer,) = session.start(script, "--exit", "3", lines={str(script): [{"line": line}]})
        assert answer["verified"] is False
        assert "yet" in answer["message"]
        stop = session.stopped("breakpoint")
        changed = session.event("breakpoint")
        assert changed["reason"] == "changed"
        assert changed["breakpoint"]["verified"] is True
        assert changed["breakpoint"]["id"] == answer["id"]
        assert stop["hitBreakpointIds"] == [answer["id"]]
        frames = session.stack(stop["threadId"])
        assert [frame["name"] for frame in frames] == [
            "log_0 (log) → log_0.out float32[?]",
            "made in model",
            "while_0 body, iteration 0",
            "run 1 of main",
            "[Python]",
            "main",
        ]
        assert (frames[0]["source"]["path"], frames[0]["line"]) == (str(script), line)
        assert frames[1]["line"] == line_of(script, "caller")
        assert frames[4]["presentationHint"] == "label"
        # Taken away again, it lets the script go on to its end.
        source = {"path": str(script)}
        session.request("setBreakpoints", {"source": source, "breakpoints": []})
        body = session.request("continue", {"threadId": stop["threadId"]})
        assert body == {"allThreadsContinued": True}
        assert session.ends() == 3
        assert "all runs done" in session.output
        assert session.count("stopped") == 1


def test_breakpoints_that_cannot_bind_say_so(script: Path) -> None:
    with Session() as session:
        answers = session.start(
            script,
            lines={str(script): [{"line": 1}, {"line": 2, "condition": "1 +"}]},
            functions=[{"name": "nowhere_*"}, {"name": " "}, {"name": "log", "hitCondition": "no"}],
        )
        assert [answer["verified"] for answer in answers] == [False] * 5
        assert all(answer["message"] for answer in answers)
        assert session.ends() == 0
        assert session.count("stopped") == 0


def test_pattern_with_condition_and_listing_line(script: Path) -> None:
    with Session() as session:
        session.start(script, functions=[{"name": "matmul", "condition": "step == 3"}])
        stop = session.stopped("function breakpoint")
        frames = session.stack(stop["threadId"])
        assert frames[0]["name"] == "fc_0.matmul (matmul) → fc_0.matmul.out float32[4, 3]"
        assert frames[1]["name"] == "run 3 of main"
        listing = session.event("loadedSource")["source"]
        assert listing["name"] == "main.opstep"
        content = session.request(
            "source", {"source": listing, "sourceReference": listing["sourceReference"]}
        )
        assert content["content"].startswith("matmul fc_0.matmul")
        body = session.request("setBreakpoints", {"source": listing, "breakpoints": [{"line": 2}]})
        assert body["breakpoints"][0]["verified"] is True
        assert body["breakpoints"][0]["source"] == listing
        session.request("continue", {"threadId": stop["threadId"]})
        stop = session.stopped("breakpoint")
        assert stop["hitBreakpointIds"] == [body["breakpoints"][0]["id"]]
        assert session.top(stop["threadId"])["name"].startswith("while_0 (while)")


def test_a_listing_breakpoint_kept_from_an_earlier_session(script: Path) -> None:
    with Session() as session:
        session.start(script, lines={"main.opstep": [{"line": 2}]})
        stop = session.stopped("breakpoint")
        assert session.top(stop["threadId"])["name"].startswith("while_0 (while)")


def test_stepping_by_op_into_over_and_out(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        assert session.top(thread)["name"].startswith("fc_0.matmul")
        assert session.step("next", thread, "instruction")["name"].startswith("while_0 (")
        assert session.step("stepIn", thread, "instruction")["name"].startswith("log_0")
        assert session.step("next", thread)["name"].startswith("log_0")
        assert session.stack(thread)[2]["name"] == "while_0 body, iteration 1"
        assert session.step("stepOut", thread)["name"].startswith("fc_0.matmul")
        assert session.stack(thread)[1]["name"] == "run 2 of main"
        assert session.step("next", thread)["name"].startswith("while_0 (")
        assert session.step("next", thread)["name"].startswith("fc_0.matmul")


def test_the_stack_is_paged(script: Path) -> None:
    with Session() as session:
        session.start(script, functions=[{"name": "log"}])
        thread = session.stopped()["threadId"]
        whole = session.request("stackTrace", {"threadId": thread})
        assert whole["totalFrames"] == len(whole["stackFrames"]) == 6
        page = session.request("stackTrace", {"threadId": thread, "startFrame": 1, "levels": 2})
        assert page == {"stackFrames": whole["stackFrames"][1:3], "totalFrames": 6}
        assert session.stack(thread, startFrame=9, levels=2) == []


def test_frames_of_packages_are_shown_on_demand(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True, justMyCode=False)
        frames = session.stack(session.stopped("entry")["threadId"])
        assert [frame["name"] for frame in frames][2:] == ["[Python]", "main", "f"]


def test_scopes_and_paged_variables(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        frames = session.stack(thread)
        scopes = session.scopes(frames[0]["id"])
        names = ["Inputs", "Outputs", "Attributes", "Block", "Parameters", "Gradients"]
        assert list(scopes) == names
        assert list(session.scopes(frames[1]["id"])) == names[:2] + names[3:]
        assert session.scopes(frames[2]["id"]) == session.scopes(frames[3]["id"]) == {}

        x = session.variables(scopes["Inputs"])["X (x)"]
        assert x["value"].startswith("float32[4, 3] mean 1.5")
        assert (x["type"], x["evaluateName"]) == ("float32[4, 3]", "x")
        assert x["indexedVariables"] == 4
        rows = session.variables(x["variablesReference"], filter="indexed", start=1, count=2)
        assert list(rows) == ["[1]", "[2]"]
        assert rows["[2]"]["evaluateName"] == "x[2]"
        assert session.variables(x["variablesReference"], filter="named") == {}
        elements = session.variables(rows["[2]"]["variablesReference"])
        assert [e["value"] for e in elements.values()] == ["0", "1", "2"]
        assert elements["[1]"]["evaluateName"] == "x[2][1]"
        assert all(e["variablesReference"] == 0 for e in elements.values())

        out = session.variables(scopes["Outputs"])["out (fc_0.out)"]
        assert out["value"] == "<not written yet>"
        assert out["variablesReference"] == 0
        axes = session.variables(scopes["Attributes"])["axes"]
        assert axes["value"] == "[0, 1]"
        assert list(session.variables(axes["variablesReference"])) == ["[0]", "[1]"]
        assert list(session.variables(scopes["Parameters"])) == [f"w_{n}" for n in range(7)]
        assert list(session.variables(scopes["Parameters"], start=2, count=4)) == [
            f"w_{n}" for n in range(2, 6)
        ]


def test_evaluate(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        frames = session.stack(thread)
        for context in ("watch", "hover", "repl"):
            result = session.evaluate("x[1]", frames[0]["id"], context)
            assert result["type"] == "float32[3]"
        big = session.evaluate("big", frames[0]["id"])
        assert big["indexedVariables"] == 1_000_000_000
        # As many as one answer holds, and a row that says so.
        assert len(session.variables(big["variablesReference"])) == 1001
        last = session.variables(big["variablesReference"], start=999_999_998, count=100)
        assert list(last) == ["[999999998]", "[999999999]"]
        arguments = {"expression": "nothing", "frameId": frames[0]["id"]}
        assert "no variable 'nothing'" in session.fails("evaluate", arguments).sentence
        arguments = {"expression": "import os", "frameId": frames[0]["id"]}
        assert session.fails("evaluate", arguments).sentence
        border = next(frame["id"] for frame in frames if frame["name"] == "[Python]")
        arguments = {"expression": "x", "frameId": border}
        assert "this is not a frame" in session.fails("evaluate", arguments).sentence
        # Without a frame: where the last stop was.
        assert session.request("evaluate", {"expression": "x"})["type"] == "float32[4, 3]"


def test_a_nan_stop_tells_what_happened(script: Path) -> None:
    with Session() as session:
        session.start(script, filters=["nan"])
        stop = session.stopped("exception")
        assert stop["description"] == "Paused on NaN"
        assert "made 1 NaN in log_0.out" in stop["text"]
        assert session.top(stop["threadId"])["name"].endswith("(has run)")
        info = session.request("exceptionInfo", {"threadId": stop["threadId"]})
        assert (info["exceptionId"], info["breakMode"]) == ("nan", "always")
        assert f"line {line_of(script, 'log')}" in info["details"]["stackTrace"]
        session.request("next", {"threadId": stop["threadId"]})
        session.stopped("step")
        assert session.fails("exceptionInfo", {"threadId": stop["threadId"]}).sentence


def test_pause_and_threads(script: Path) -> None:
    with Session() as session:
        session.start(script, "--runs", "100000", "--pause-each", "0.002")
        thread = session.event("thread")
        assert thread == {"reason": "started", "threadId": 1}
        assert session.request("threads") == {"threads": [{"id": 1, "name": "MainThread"}]}
        for _ in range(2):
            session.request("pause", {"threadId": 1})
            stop = session.stopped("pause")
            assert stop["threadId"] == 1
            assert session.stack(1)
            session.request("continue", {"threadId": 1})
        assert session.fails("stackTrace", {"threadId": 1}).short == "notStopped"
        assert session.fails("pause", {"threadId": 7}).sentence == "there is no thread 7"


def test_handles_do_not_outlive_their_stop(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        frame = session.top(thread)["id"]
        inputs = session.scopes(frame)["Inputs"]
        session.step("next", thread)
        assert "earlier stop" in session.fails("scopes", {"frameId": frame}).sentence
        failure = session.fails("variables", {"variablesReference": inputs})
        assert "earlier stop" in failure.sentence


@pytest.mark.parametrize("ending", ["next", "continue", "cancel", "disconnect"])
def test_going_on_cancels_what_is_looked_at(script: Path, ending: str) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        frame = session.top(thread)["id"]
        waiting = [
            session.send("evaluate", {"expression": "never", "frameId": frame}) for _ in range(3)
        ]
        if ending == "cancel":
            for seq in waiting:
                session.request("cancel", {"requestId": seq})
        else:
            session.request(ending, {} if ending == "disconnect" else {"threadId": thread})
        for seq in waiting:
            with pytest.raises(Exception, match="this was cancelled") as failure:
                session.response(seq, 2)
            assert failure.value.short == "cancelled"  # type: ignore[attr-defined]


def test_breakpoint_locations_and_loaded_sources(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        session.stopped("entry")
        lines = [line_of(script, name) for name in ("matmul", "while", "log", "caller")]
        arguments = {"source": {"path": str(script)}, "line": 1, "endLine": 10_000}
        found = session.request("breakpointLocations", arguments)["breakpoints"]
        assert found == [{"line": line} for line in lines]
        arguments["endLine"] = lines[0]
        found = session.request("breakpointLocations", arguments)["breakpoints"]
        assert found == [{"line": lines[0]}]
        sources = session.request("loadedSources")["sources"]
        assert [source["name"] for source in sources] == ["main.opstep", script.name]


def test_output_environment_and_working_directory(script: Path, tmp_path: Path) -> None:
    with Session() as session:
        session.start(script, "--no-agent", cwd=str(tmp_path), env={"GREETING": "üñ"})
        assert session.ends() == 0
        assert session.output == "hello from the script üñ\nall runs done\n"


def test_no_debug_stops_nowhere(script: Path) -> None:
    with Session() as session:
        (answer,) = session.start(
            script, functions=[{"name": "log"}], filters=["nan"], noDebug=True, stopOnEntry=True
        )
        assert answer["verified"] is False
        assert session.ends() == 0
        assert session.count("stopped") == 0
