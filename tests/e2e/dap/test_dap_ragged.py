"""Ragged variables in a client: shown as such, with their sequences as children."""

from __future__ import annotations

from pathlib import Path

from harness.dap_client import Session
from harness.markers import line_of


def test_the_children_of_a_ragged_variable_are_its_sequences(programs: Path) -> None:
    script = programs / "ragged.py"
    with Session() as session:
        session.start(script, lines={str(script): [{"line": line_of(script, "pooled")}]})
        stop = session.stopped("breakpoint")
        frame = session.top(stop["threadId"])["id"]
        inputs = session.scopes(frame)["Inputs"]
        shown = session.variables(inputs)["X (add_0.out)"]
        assert shown["type"] == "ragged float32[7 rows in 3 sequences, 2]"
        assert shown["value"].startswith(f"{shown['type']} lengths 3, 0, 4 mean ")
        assert shown["indexedVariables"] == 3
        parts = session.variables(shown["variablesReference"])
        assert list(parts) == ["[0]", "[1]", "[2]"]
        assert parts["[0]"]["value"].startswith("float32[3, 2] mean 5 ")
        assert parts["[1]"]["value"] == "float32[0, 2] empty"
        assert parts["[2]"]["evaluateName"] == "add_0.out[3:7]"
        rows = session.variables(parts["[2]"]["variablesReference"])
        assert rows["[3]"]["value"] == "float32[2] [12, 14]"
        page = session.variables(shown["variablesReference"], start=2, count=1)
        assert list(page) == ["[2]"]

        # Of two levels, the inner sequences.
        texts = session.evaluate("texts", frame)
        kind = "ragged int64[6 rows in 3 sequences in 2 outer ones]"
        assert texts["result"] == f"{kind} lengths 2, 1, 3 [1, 2, 3, 4, 5, 6]"
        assert texts["indexedVariables"] == 3
        inner = session.variables(texts["variablesReference"]).values()
        shown_parts = [part["value"] for part in inner]
        assert shown_parts == ["int64[2] [1, 2]", "int64[1] [3]", "int64[3] [4, 5, 6]"]
        # A part of one has rows again.
        assert session.evaluate("texts[:2]", frame)["result"] == "int64[2] [1, 2]"

        # A sequence can be changed, and it is the variable that changes.
        change = {"variablesReference": shown["variablesReference"], "name": "[2]", "value": "1"}
        assert session.request("setVariable", change)["value"].startswith("float32[4, 2] mean 1 ")
        assert session.evaluate("X.sum()", frame)["result"] == "38"
        session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 0


def test_offsets_that_make_no_sense_are_not_believed(programs: Path) -> None:
    script = programs / "ragged.py"
    with Session() as session:
        session.start(script, lines={str(script): [{"line": line_of(script, "doubled")}]})
        stop = session.stopped("breakpoint")
        frame = session.top(stop["threadId"])["id"]
        wrong = {"expression": 'var("words@offsets")[1]', "value": "1000000000", "frameId": frame}
        session.request("setExpression", wrong)
        shown = session.variables(session.scopes(frame)["Inputs"])["X (words)"]
        assert shown["type"] == "float32[7, 2]" and shown["indexedVariables"] == 7
        session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 1  # the op that reads them refuses them
