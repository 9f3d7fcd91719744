"""Values that are changed while a real script is stopped, and what can be typed and copied."""

from __future__ import annotations

import base64
import os
import signal
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.dap_client import Failure, Session
from harness.markers import line_of

Json = dict[str, Any]


def at(path: Path, name: str, **more: Any) -> dict[str, list[Json]]:
    return {str(path): [{"line": line_of(path, name), **more}]}


def child(session: Session, scope: int, inside: str) -> Json:
    return next(v for name, v in session.variables(scope).items() if inside in name)


def test_a_changed_variable_changes_the_result(programs: Path) -> None:
    script = programs / "loop.py"
    with Session() as session:
        session.start(script, functions=[{"name": "add_1"}])
        stop = session.stopped("function breakpoint")
        frame = session.top(stop["threadId"])["id"]
        inputs = session.scopes(frame)["Inputs"]
        total = child(session, inputs, "X (")
        assert "32" in total["value"]
        name = next(n for n in session.variables(inputs) if n.startswith("X ("))
        new = session.request(
            "setVariable", {"variablesReference": inputs, "name": name, "value": "100"}
        )
        assert "100" in new["value"]
        assert session.event("invalidated")["areas"] == ["variables"]
        session.request("continue", {"threadId": stop["threadId"]})
        # An element by its row, an expression and the prompt.
        stop = session.stopped("function breakpoint")
        frame = session.top(stop["threadId"])["id"]
        x = child(session, session.scopes(frame)["Inputs"], "X (")
        session.request(
            "setVariable",
            {"variablesReference": x["variablesReference"], "name": "[0]", "value": "5"},
        )
        assert session.evaluate("X[0]", frame)["result"] == "5"
        new = session.request(
            "setExpression", {"expression": "X", "value": "X * 3", "frameId": frame}
        )
        assert "15" in new["value"]
        assert "15" in session.evaluate("X[0] += 0", frame, "repl")["result"]
        assert "17" in session.evaluate("X += 2", frame, "repl")["result"]
        told = session.evaluate("help", frame, "repl")["result"]
        assert "w *= 0.5" in told and "quantile(x, 0.5, axis=…)" in told
        session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 0
        assert session.output == "result 101\nresult 18\n"


def test_edits_that_cannot_be_are_told(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, "--steps", "1", lines=at(script, "hidden"))
        stop = session.stopped("breakpoint")
        frame = session.top(stop["threadId"])["id"]
        for target, value in (
            ("no_such", "1"),
            ("x[0]", "[1, 2]"),
            ("x + 1", "1"),
            ("x[100]", "1"),
            ("x", "'text'"),
        ):
            arguments = {"expression": target, "value": value, "frameId": frame}
            failure = session.fails("setExpression", arguments)
            assert failure.sentence and "\n" not in failure.sentence
            assert "internal" not in failure.sentence


def test_bytes_are_read_and_written(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, "--steps", "1", lines=at(script, "hidden"))
        stop = session.stopped("breakpoint")
        frame = session.top(stop["threadId"])["id"]
        x = session.evaluate("x", frame)
        reference = x["memoryReference"]

        def read() -> np.ndarray:
            arguments = {"memoryReference": reference, "count": 1 << 16}
            body = session.request("readMemory", arguments)
            assert body["unreadableBytes"] == (1 << 16) - 16 * 8 * 4
            return np.frombuffer(base64.b64decode(body["data"]), np.float32).reshape(16, 8)

        expected = np.random.default_rng(0).standard_normal((16, 8), dtype=np.float32)
        assert np.array_equal(read(), expected)
        data = base64.b64encode(struct.pack("<2f", 1.5, -2.5)).decode()
        arguments = {"memoryReference": reference, "offset": 4, "data": data}
        assert session.request("writeMemory", arguments)["bytesWritten"] == 8
        assert session.event("memory")["memoryReference"] == reference
        expected[0, 1:3] = [1.5, -2.5]
        assert np.array_equal(read(), expected)
        assert session.evaluate("x[0, 1]", frame)["result"] == "1.5"
        beyond = {"memoryReference": reference, "offset": 16 * 8 * 4 - 2, "data": data}
        assert session.fails("writeMemory", beyond).sentence
        # The clipboard's text is the same tensor.
        copied = session.evaluate("x", frame, "clipboard")["result"]
        assert np.array_equal(eval(copied, {"np": np}), expected)
        copied = session.evaluate("x[3, 4]", frame, "clipboard")["result"]
        assert np.float32(copied) == expected[3, 4]
        # A value that is not there has no bytes.
        outputs = session.scopes(frame)["Outputs"]
        out = child(session, outputs, "out")
        assert "memoryReference" not in out


def test_names_are_completed_and_hovers_computed_nowhere(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, "--steps", "1", lines=at(script, "hidden"))
        stop = session.stopped("breakpoint")
        frame = session.top(stop["threadId"])["id"]

        def complete(text: str) -> list[str]:
            arguments = {"text": text, "column": len(text) + 1, "frameId": frame}
            targets = session.request("completions", arguments)["targets"]
            return [target["label"] for target in targets]

        assert {"x", "label", "step", "X", "Y"} <= set(complete(""))
        assert "fc_0.w" in complete("norm(fc_0.")
        arguments = {"text": "fc_0.w@", "column": 8, "frameId": frame}
        (gradient,) = session.request("completions", arguments)["targets"]
        assert gradient["label"] == "fc_0.w@grad"
        assert gradient["text"] == 'var("fc_0.w@grad")'
        assert "mean" in complete("x.me")
        assert session.evaluate("x", frame, "hover")["result"].startswith("float32[16, 8]")
        # In the editor stands what Python calls variables.
        assert "logits" in complete("log")
        absent = {"expression": "logits", "frameId": frame, "context": "hover"}
        assert session.fails("evaluate", absent).sentence == "fc_1.out has not been written yet"
        shape = session.evaluate("logits.shape", frame, "hover")["result"]
        assert shape == "[16, 3]"
        arguments = {"expression": "norm(x)", "frameId": frame, "context": "hover"}
        assert session.fails("evaluate", arguments).sentence
        hexadecimal = session.request(
            "evaluate",
            {"expression": "step", "frameId": frame, "format": {"hex": True}},
        )
        assert hexadecimal["result"] == "0x0000000000000001"


def test_programs_are_modules_and_files_are_sources(programs: Path) -> None:
    script = programs / "helper.py"
    with Session() as session:
        session.start(script, lines=at(script, "loss"))
        session.stopped("breakpoint")
        modules = session.request("modules", {})["modules"]
        assert {module["name"] for module in modules} == {"main", "startup"}
        main = next(module for module in modules if module["name"] == "main")
        assert main["ops"] > 5 and main["bytes"] > 0 and main["compileMs"] > 0
        sources = session.request("loadedSources")["sources"]
        names = {source["name"] for source in sources}
        assert {"main.opstep", "startup.opstep", "helper.py"} <= names
        locations = session.request(
            "breakpointLocations",
            {"source": {"path": str(script)}, "line": 1, "endLine": 1000},
        )
        lines = [location["line"] for location in locations["breakpoints"]]
        for name in ("inside", "first", "second", "loss"):
            assert line_of(script, name) in lines


@pytest.mark.parametrize("how", ["cancel", "next"])
def test_slow_looking_is_shown_and_given_up(programs: Path, how: str) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, "--steps", "1", lines=at(script, "hidden"))
        pid = session.event("process")["systemProcessId"]
        thread = session.stopped("breakpoint")["threadId"]
        frame = session.top(thread)["id"]
        # However fast the machine is, it does not answer while it is held.
        os.kill(pid, signal.SIGSTOP)
        try:
            seq = session.send("evaluate", {"expression": "x.sum()", "frameId": frame})
            started = session.event("progressStart")
            assert started["requestId"] == seq
            request = {"cancel": {"requestId": seq}, "next": {"threadId": thread}}[how]
            other = session.send(how, request)
            with pytest.raises(Failure, match="this was cancelled"):
                session.response(seq)
            assert session.event("progressEnd")["progressId"] == started["progressId"]
        finally:
            os.kill(pid, signal.SIGCONT)
        session.response(other)
        if how == "next":
            session.stopped("step")
            frame = session.top(thread)["id"]
        assert session.evaluate("x.size", frame)["result"] == "128"
