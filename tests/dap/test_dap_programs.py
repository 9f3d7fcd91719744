"""Compiled programs: as modules, as sources, as instructions."""

from __future__ import annotations

from pathlib import Path

from harness.dap_client import Session
from harness.markers import line_of


def test_programs_are_modules(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        event = session.event("module")
        assert event["reason"] == "new"
        body = session.request("modules", {})
        assert body == {"modules": [event["module"]], "totalModules": 1}
        (module,) = body["modules"]
        assert (module["name"], module["ops"], module["bytes"]) == ("main", 3, 1 << 20)
        assert module["compileMs"] == 1.25
        assert session.top(thread)["moduleId"] == module["id"]
        assert session.request("modules", {"startModule": 1, "moduleCount": 5})["modules"] == []
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0
        session.event("module", lambda body: body["reason"] == "removed")
        session.event("loadedSource", lambda body: body["reason"] == "removed")


def test_instructions_are_the_listings_ops(script: Path) -> None:
    with Session() as session:
        session.start(script, functions=[{"name": "while"}])
        thread = session.stopped("function breakpoint")["threadId"]
        here = session.top(thread)["instructionPointerReference"]
        arguments = {"memoryReference": here, "instructionOffset": -3, "instructionCount": 8}
        rows = session.request("disassemble", arguments)["instructions"]
        assert len(rows) == 8
        valid = [row.get("presentationHint") != "invalid" for row in rows]
        assert valid == [False, False, True, True, True, False, False, False]
        addresses = [int(row["address"], 16) for row in rows]
        assert addresses == sorted(set(addresses))
        assert rows[3]["address"] == here
        assert rows[3]["instruction"] == "while while_0 { block 1 }"
        assert rows[4]["instruction"] == "log"
        assert rows[4]["location"]["path"] == str(script)
        assert rows[4]["line"] == line_of(script, "log")
        # Pages fit together.
        arguments = {"memoryReference": rows[2]["address"], "instructionCount": 2, "offset": 0}
        assert session.request("disassemble", arguments)["instructions"] == rows[2:4]
        arguments = {"memoryReference": rows[2]["address"], "instructionCount": 0}
        assert session.request("disassemble", arguments)["instructions"] == []
        for wrong in ("nowhere", "0x7", "-1"):
            arguments = {"memoryReference": wrong, "instructionCount": 1}
            assert "address" in session.fails("disassemble", arguments).sentence


def test_instruction_breakpoints(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        here = session.top(thread)["instructionPointerReference"]
        wanted = [
            {"instructionReference": here, "offset": 2},
            {"instructionReference": here, "offset": 700},
            {"instructionReference": "0x3"},
        ]
        body = session.request("setInstructionBreakpoints", {"breakpoints": wanted})
        assert [b["verified"] for b in body["breakpoints"]] == [True, False, False]
        assert "has no op on line 701" in body["breakpoints"][1]["message"]
        session.request("continue", {"threadId": thread})
        stop = session.stopped("instruction breakpoint")
        assert stop["hitBreakpointIds"] == [body["breakpoints"][0]["id"]]
        assert session.top(thread)["name"].startswith("log_0 (log)")


def test_an_address_outlives_a_restart(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        here = session.top(thread)["instructionPointerReference"]
        session.request("restart")
        thread = session.stopped("entry")["threadId"]
        wanted = [{"instructionReference": here, "offset": 1}]
        body = session.request("setInstructionBreakpoints", {"breakpoints": wanted})
        assert body["breakpoints"][0]["verified"] is True
        session.request("continue", {"threadId": thread})
        session.stopped("instruction breakpoint")
        assert session.top(thread)["name"].startswith("while_0 (while)")


def test_step_in_targets_are_the_ops_blocks(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        assert session.request("stepInTargets", {"frameId": session.top(thread)["id"]}) == {
            "targets": []
        }
        frame = session.step("next", thread, "instruction")
        (target,) = session.request("stepInTargets", {"frameId": frame["id"]})["targets"]
        assert target["label"] == "while_0, body (block 1)"
        failure = session.fails("stepIn", {"threadId": thread, "targetId": 7})
        assert "the op runs no block 7" in failure.sentence
        session.request("stepIn", {"threadId": thread, "targetId": target["id"]})
        session.stopped("step")
        assert session.top(thread)["name"].startswith("log_0 (log)")
