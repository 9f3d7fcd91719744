"""Evaluating, changing, reading bytes, completing and giving up, with a scripted executor."""

from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from harness.dap_client import Failure, Session
from opstep_server.dap.protocol import progress

Json = dict[str, Any]


@pytest.fixture
def session(script: Path) -> Iterator[Session]:
    """Stopped before the first op."""
    with Session() as session:
        session.start(script, stopOnEntry=True)
        session.stopped("entry")
        yield session


def read(session: Session, reference: str, count: int, offset: int = 0) -> Json:
    arguments = {"memoryReference": reference, "offset": offset, "count": count}
    return session.request("readMemory", arguments)


def test_a_hover_computes_nothing(session: Session) -> None:
    frame = session.top(1)["id"]
    hovered = session.evaluate("x", frame, "hover")
    assert hovered["result"].startswith("float32[4, 3] mean")
    assert session.evaluate("big", frame, "hover") == {
        "result": "float32[1000000000, 2]",
        "variablesReference": 0,
    }
    arguments = {"expression": "x.mean()", "frameId": frame, "context": "hover"}
    assert "computes nothing" in session.fails("evaluate", arguments).sentence


def test_what_is_too_much_for_one_answer_is_said(session: Session) -> None:
    shown = session.evaluate("big", session.top(1)["id"])
    reference = shown["variablesReference"]
    everything = session.variables(reference)
    assert len(everything) == 1001
    assert everything["…"]["value"].startswith("999999000 more from [1000] on")
    page = session.variables(reference, filter="indexed", start=5000, count=100)
    assert list(page) == [f"[{n}]" for n in range(5000, 5100)]


def test_the_clipboard_gets_python(session: Session) -> None:
    frame = session.top(1)["id"]
    copied = session.evaluate("x", frame, "clipboard")["result"]
    rows = copied.removeprefix("np.array(").removesuffix(", dtype=np.float32)")
    assert eval(rows) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    arguments = {"expression": "big", "frameId": frame, "context": "clipboard"}
    assert "too many to copy" in session.fails("evaluate", arguments).sentence


def test_values_in_hexadecimal(session: Session) -> None:
    frame = session.top(1)["id"]
    inputs = session.scopes(frame)["Inputs"]
    x = session.variables(inputs)["X (x)"]
    rows = session.variables(x["variablesReference"], format={"hex": True})
    row = session.variables(rows["[0]"]["variablesReference"], format={"hex": True})
    assert [row[f"[{n}]"]["value"] for n in range(3)] == ["0x00000000", "0x3f800000", "0x40000000"]
    axes = session.variables(session.scopes(frame)["Attributes"], format={"hex": True})["axes"]
    assert axes["value"] == "[0x0000000000000000, 0x0000000000000001]"


def test_rows_elements_and_expressions_are_changed(session: Session) -> None:
    frame = session.top(1)["id"]
    inputs = session.scopes(frame)["Inputs"]
    x = session.variables(inputs)["X (x)"]
    reference = x["memoryReference"]

    def row(number: int) -> tuple[float, ...]:
        data = base64.b64decode(read(session, reference, 12, 12 * number)["data"])
        return struct.unpack("<3f", data)

    new = session.request(
        "setVariable",
        {"variablesReference": x["variablesReference"], "name": "[1]", "value": "7"},
    )
    assert new["value"].startswith("float32[3]")
    assert new["indexedVariables"] == 3
    assert row(1) == (7, 7, 7)
    assert session.event("invalidated")["areas"] == ["variables"]
    assert session.event("memory")["memoryReference"] == reference
    session.request("setExpression", {"expression": "x[2]", "value": "8.5", "frameId": frame})
    assert row(2) == (8.5, 8.5, 8.5)
    session.event("invalidated")
    result = session.evaluate("x[0] = 3", frame, "repl")
    assert result["type"] == "float32[3]"
    assert row(0) == (3, 3, 3)
    session.event("invalidated")
    # The order is the protocol's: first the response, then what has become of the views.
    kinds = [m.get("event") or m["command"] for m in session.history]
    assert kinds.index("setVariable") < kinds.index("invalidated")
    # An assignment is one at the prompt only.
    arguments = {"expression": "x[0] = 3", "frameId": frame, "context": "watch"}
    assert session.fails("evaluate", arguments).sentence
    attributes = session.scopes(frame)["Attributes"]
    assert session.variables(attributes)["axes"]["presentationHint"] == {"attributes": ["readOnly"]}
    arguments = {"variablesReference": attributes, "name": "axes", "value": "1"}
    assert "cannot be changed" in session.fails("setVariable", arguments).sentence
    arguments = {"variablesReference": inputs, "name": "nothing", "value": "1"}
    assert "nothing called nothing" in session.fails("setVariable", arguments).sentence


def test_memory_is_read_and_written(session: Session) -> None:
    frame = session.top(1)["id"]
    reference = session.evaluate("x", frame)["memoryReference"]
    whole = read(session, reference, 48)
    assert int(whole["address"], 16) == int(reference, 16)
    assert "unreadableBytes" not in whole
    assert struct.unpack("<12f", base64.b64decode(whole["data"])) == tuple(range(12))
    behind = read(session, reference, 100, 40)
    assert len(base64.b64decode(behind["data"])) == 8
    assert behind["unreadableBytes"] == 92
    assert int(behind["address"], 16) == int(reference, 16) + 40
    assert read(session, reference, 10, 1 << 40)["unreadableBytes"] == 10
    assert read(session, reference, 10, -4)["unreadableBytes"] == 10

    data = base64.b64encode(struct.pack("<f", 42.0)).decode()
    arguments = {"memoryReference": reference, "offset": 4, "data": data}
    assert session.request("writeMemory", arguments) == {"offset": 4, "bytesWritten": 4}
    changed = session.event("memory")
    assert (changed["offset"], changed["count"]) == (4, 4)
    session.event("invalidated")
    now = base64.b64decode(read(session, reference, 8)["data"])
    assert struct.unpack("<2f", now) == (0, 42)
    arguments = {"memoryReference": reference, "offset": 46, "data": data, "allowPartial": True}
    assert session.request("writeMemory", arguments)["bytesWritten"] == 2
    arguments = {"memoryReference": reference, "data": "no base64!"}
    assert "not base64" in session.fails("writeMemory", arguments).sentence
    for wrong in ("t", "0x3", ""):
        arguments = {"memoryReference": wrong, "count": 1}
        assert session.fails("readMemory", arguments).sentence
    session.step("next", 1)
    arguments = {"memoryReference": reference, "count": 1}
    assert "earlier stop" in session.fails("readMemory", arguments).sentence


def test_completions(session: Session) -> None:
    frame = session.top(1)["id"]

    def complete(text: str, column: int | None = None, **more: int) -> dict[str, Json]:
        arguments = {"text": text, "column": column or len(text) + 1, **more}
        targets = session.request("completions", arguments)["targets"]
        return {target["label"]: target for target in targets}

    found = complete("1 + x", frameId=frame)
    assert found["x"] == {"label": "x", "type": "variable", "start": 5, "length": 1}
    found = complete("fc", frameId=frame)
    assert list(found) == ["fc_0.out"]
    found = complete("fc_0.out.me", frameId=frame)
    assert found["mean"] == {"label": "mean", "type": "method", "start": 10, "length": 2}
    assert complete("x[0].sha")["shape"]["type"] == "property"
    found = complete("")
    assert {"x", "X", "axes", "step", "isnan"} <= set(found)
    # Behind the cursor nothing counts.
    assert "mean" in complete("me + 1", 3)


def test_slow_looking_shows_progress_and_can_be_given_up(session: Session) -> None:
    frame = session.top(1)["id"]
    seq = session.send("evaluate", {"expression": "never", "frameId": frame})
    started = session.event("progressStart")
    assert (started["requestId"], started["cancellable"]) == (seq, True)
    update = session.event("progressUpdate")
    assert update["progressId"] == started["progressId"]
    session.request("cancel", {"progressId": started["progressId"]})
    with pytest.raises(Failure, match="cancelled"):
        session.response(seq)
    assert session.event("progressEnd")["progressId"] == started["progressId"]


class Asked(NamedTuple):
    command: str
    seq: int


def test_what_is_quick_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "START_SECONDS", 0)
    told: list[str] = []

    async def run() -> None:
        outbox = SimpleNamespace(event=lambda name, body: told.append(name))
        shown = progress.Progress(SimpleNamespace(outbox=outbox))  # type: ignore[arg-type]
        quick, slow = (Asked("evaluate", seq) for seq in (1, 2))
        shown.begin(quick)  # type: ignore[arg-type]
        shown.end(quick)  # type: ignore[arg-type]
        shown.begin(slow)  # type: ignore[arg-type]
        while not told:
            await asyncio.sleep(0)
        assert shown.find("progress 1") is slow
        shown.end(slow)  # type: ignore[arg-type]

    asyncio.run(run())
    assert told == ["progressStart", "progressEnd"]
