"""Requests of our own for views of programs, and op steps."""

from __future__ import annotations

from pathlib import Path

from harness.dap_client import Session
from harness.markers import line_of


def test_a_program_as_a_graph(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        (module,) = session.request("modules", {})["modules"]
        graph = session.request("opstepGraph", {"program": module["id"]})
        assert (graph["id"], graph["name"], graph["version"]) == (module["id"], "main", 1)
        assert graph["listing"]["name"] == "main.opstep"
        assert graph["blocks"] == [{"id": 1, "op": 2, "name": "body"}]
        matmul, loop, log = graph["ops"]
        assert (matmul["name"], matmul["type"], matmul["block"]) == ("fc_0.matmul", "matmul", 0)
        assert matmul["outputs"] == [{"variable": "fc_0.matmul.out", "type": "float32[4, 3]"}]
        assert matmul["inputs"] == [{"slot": "X", "variable": "x"}]
        assert [op["listingLine"] for op in graph["ops"]] == [1, 2, 3]
        assert (loop["block"], log["block"]) == (0, 1)
        assert log["outputs"][0]["type"] == "float32[?]"
        lines = [line_of(script, "log"), line_of(script, "caller")]
        assert log["stack"] == [{"path": str(script), "line": line} for line in lines]
        assert graph["edges"] == []
        assert session.top(thread)["instructionPointerReference"] == matmul["instructionReference"]
        failure = session.fails("opstepGraph", {"program": "7:7"})
        assert failure.sentence == (
            "there is no program '7:7' in this session: ask for the modules again"
        )
        assert "program is missing" in session.fails("opstepGraph", {}).sentence


def test_where_a_thread_stands(script: Path) -> None:
    with Session() as session:
        session.start(script, functions=[{"name": "log_0", "hitCondition": "4"}], filters=["nan"])
        thread = session.stopped("function breakpoint")["threadId"]
        place = session.request("opstepPlace", {"threadId": thread})
        program = session.request("modules", {})["modules"][0]["id"]
        assert place == {
            "threadId": thread,
            "program": program,
            "programName": "main",
            "run": 2,
            "ops": [3, 2],
            "iterations": [1],
            "after": False,
        }
        frame = session.top(thread)["id"]
        assert session.request("opstepPlace", {"frameId": frame}) == place
        session.request("continue", {"threadId": thread})
        session.stopped("exception")
        place = session.request("opstepPlace", {"threadId": thread})
        assert place["after"] is True
        assert place["fault"] == "[log] made 1 NaN in log_0.out, first at [0]"
        assert "earlier stop" in session.fails("opstepPlace", {"frameId": frame}).sentence


def test_values_that_are_there(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        wanted = {"threadId": thread, "variables": ["x", "nothing"]}
        (value,) = session.request("opstepValues", wanted)["values"]
        assert value == {
            "variable": "x",
            "value": "float32[4, 3] mean 1.5 std 0.5 [0, 11]",
            "brief": "float32[4, 3] mean 1.5",
            "nan": 0,
            "inf": 0,
        }
        wanted = {"threadId": thread, "variables": ["x"] * 2001}
        assert "2001 values are too many" in session.fails("opstepValues", wanted).sentence


def test_op_steps(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]

        def step(mode: str) -> str:
            before = session.count("continued")
            session.request("opstepResume", {"threadId": thread, "mode": mode})
            session.stopped("step")
            assert session.count("continued") == before + 1
            name: str = session.top(thread)["name"]
            return name.split(" ")[0]

        assert step("over") == "while_0"
        assert step("into") == "log_0"
        assert step("out") == "fc_0.matmul"
        assert step("over") == "while_0"
        assert step("over") == "fc_0.matmul"
        failure = session.fails("opstepResume", {"threadId": thread, "mode": "back"})
        assert "must be one of over, into, out, iteration, run" in failure.sentence
        assert "no thread 77" in session.fails("opstepResume", {"threadId": 77}).sentence
