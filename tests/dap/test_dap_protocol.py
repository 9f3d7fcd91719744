"""The rules of the conversation: order, states, wrong messages; everything has its answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.dap_client import Failure, Session
from harness.markers import line_of

HELLO = {"adapterID": "opstep"}


def test_numbers_rise_and_initialized_follows_its_response() -> None:
    with Session() as session:
        session.initialize()
        kinds = [(m["type"], m["seq"]) for m in session.history]
        assert kinds == [("response", 1), ("event", 2)]


@pytest.mark.parametrize("order", ["launch first", "launch last"])
def test_both_orders_of_launch_work(script: Path, order: str) -> None:
    with Session() as session:
        session.initialize()
        launch = {"program": str(script), "stopOnEntry": True}
        if order == "launch first":
            launched = session.send("launch", launch)
            session.no_event("output")
            session.request("setFunctionBreakpoints", {"breakpoints": [{"name": "log"}]})
            session.no_event("process")
            session.request("configurationDone")
        else:
            session.request("setFunctionBreakpoints", {"breakpoints": [{"name": "log"}]})
            session.request("configurationDone")
            session.no_event("output")
            launched = session.send("launch", launch)
        session.response(launched)
        assert session.event("process")["startMethod"] == "launch"
        session.stopped("entry")
        session.event("breakpoint", lambda body: body["breakpoint"]["verified"])


def test_gradients_said_after_the_breakpoints_keep_their_ids(script: Path) -> None:
    with Session() as session:
        session.initialize()
        line = line_of(script, "log")
        source = {"path": str(script)}
        body = session.request(
            "setBreakpoints", {"source": source, "breakpoints": [{"line": line}]}
        )
        session.request("configurationDone")
        session.request("launch", {"program": str(script), "gradients": True})
        stop = session.stopped("breakpoint")
        assert stop["hitBreakpointIds"] == [body["breakpoints"][0]["id"]]


@pytest.mark.parametrize(
    ("launch", "sentence"),
    [
        ({}, "arguments.program is missing: it must be a string"),
        ({"program": 3}, "arguments.program must be a string, not 3"),
        ({"program": "/nowhere/x.py"}, "cannot launch: the program /nowhere/x.py does not exist"),
        ({"program": "SCRIPT", "args": [1]}, "arguments.args[0] must be a string, not 1"),
        ({"program": "SCRIPT", "env": {"A": 1}}, "arguments.env.A must be a string or null, not 1"),
        (
            {"program": "SCRIPT", "cwd": "/nowhere"},
            "cannot launch: the working directory /nowhere does not exist",
        ),
        ({"program": "SCRIPT", "stopOnEntry": "yes"}, "stopOnEntry must be true or false"),
        ({"program": "SCRIPT", "python": "/nowhere/python"}, "cannot start /nowhere/python"),
    ],
)
def test_a_failing_launch_says_why_and_can_be_repeated(
    script: Path, launch: dict[str, Any], sentence: str
) -> None:
    if launch.get("program") == "SCRIPT":
        launch = {**launch, "program": str(script)}
    with Session() as session:
        session.initialize()
        session.request("configurationDone")
        failure = session.fails("launch", launch)
        assert sentence in failure.sentence
        assert "\n" not in failure.sentence
        session.request("launch", {"program": str(script)})
        assert session.ends() == 0


def test_a_second_launch_and_a_second_initialize_are_refused(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        session.stopped("entry")
        failure = session.fails("launch", {"program": str(script)})
        assert "already launched" in failure.sentence
        assert "already sent" in session.fails("initialize", HELLO).sentence


@pytest.mark.parametrize("arguments", [..., None, {}])
def test_missing_and_null_arguments_are_no_arguments(arguments: Any) -> None:
    with Session() as session:
        session.initialize()
        assert session.request("threads", arguments, valid=False) == {"threads": []}


def test_a_request_before_initialize_is_refused() -> None:
    with Session() as session:
        assert "must come before" in session.fails("threads").sentence
        session.initialize()
        assert session.request("threads") == {"threads": []}


@pytest.mark.parametrize("command", ["stackTrace", "continue", "next", "stepIn", "stepOut"])
def test_requests_for_stopped_threads_fail_at_once_while_running(
    script: Path, command: str
) -> None:
    with Session() as session:
        session.start(script, "--runs", "100000", "--pause-each", "0.005")
        session.event("thread")
        assert session.fails(command, {"threadId": 1}).short == "notStopped"


def test_wrong_arguments_are_one_sentence_each(script: Path) -> None:
    wrong: list[tuple[str, Any, str]] = [
        ("stackTrace", {"threadId": "1"}, "arguments.threadId must be an integer, not '1'"),
        ("stackTrace", {"threadId": True}, "arguments.threadId must be an integer, not True"),
        ("stackTrace", {"threadId": 1, "levels": -1}, "arguments.levels must not be negative"),
        ("stackTrace", {"threadId": 99}, "there is no thread 99"),
        ("scopes", {}, "arguments.frameId is missing: it must be an integer"),
        ("scopes", {"frameId": 10**30}, "arguments.frameId is larger than 64 bits"),
        ("scopes", {"frameId": 10**10}, "belongs to an earlier stop"),
        ("scopes", [], "arguments must be an object, not []"),
        ("variables", {"variablesReference": 1, "filter": "odd"}, "must be"),
        ("next", {"threadId": 1, "granularity": "week"}, "arguments.granularity must be one of"),
        ("setBreakpoints", {"source": 1}, "arguments.source must be an object, not 1"),
        (
            "setBreakpoints",
            {"source": {"path": "/x.py"}, "breakpoints": [{"line": 1}, {}]},
            "arguments.breakpoints[1].line is missing: it must be an integer",
        ),
        ("setExceptionBreakpoints", {"filters": ["sun"]}, "there is no exception filter 'sun'"),
        ("source", {"sourceReference": 77}, "there is no listing 77"),
        ("evaluate", {"expression": ""}, ""),
        ("nonsense", {}, "opstep has no request 'nonsense'"),
        ("__class__", {}, "opstep has no request '__class__'"),
        ("attach", {}, "this session has a program already"),
    ]
    with Session() as session:
        session.start(script, stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        frame = session.top(thread)["id"]
        session.scopes(frame)
        for command, arguments, sentence in wrong:
            failure = session.fails(command, arguments, valid=False)
            assert sentence in failure.sentence, command
            assert failure.sentence and "\n" not in failure.sentence
        # None of it did anything.
        assert session.top(thread)["id"] == frame
        assert session.count("stopped") == 1


def test_requests_sent_in_one_breath_are_answered_in_order(script: Path) -> None:
    with Session() as session:
        session.start(script, "--runs", "1000", stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        sent = []
        for _ in range(30):
            arguments = {"threadId": thread, "granularity": "instruction"}
            sent.append(session.send("stepIn", arguments))
            sent.append(session.send("setFunctionBreakpoints", {"breakpoints": []}))
            sent.append(session.send("threads"))
        outcomes = []
        for seq in sent:
            try:
                session.response(seq)
                outcomes.append(True)
            except Failure as failure:
                assert failure.short == "notStopped"
                outcomes.append(False)
        answered = [m["request_seq"] for m in session.history if m.get("request_seq") in sent]
        assert answered == sent
        stops = sum(outcomes[0::3])
        for _ in range(stops):
            session.stopped("step")
        session.no_event("stopped")


@pytest.mark.parametrize(
    "body",
    [b"{", b"[1]", b'"x"', b"\xff", json.dumps({"type": "event", "seq": 1}).encode()],
)
def test_a_wrong_body_is_reported_and_the_session_goes_on(body: bytes) -> None:
    with Session() as session:
        session.raw(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        assert session.event("output")["output"].startswith("opstep: a message is no")
        session.initialize()


def test_a_request_without_a_command_fails() -> None:
    with Session() as session:
        body = b'{"seq": 0, "type": "request", "command": 5}'
        session.raw(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        session._open[0] = ""
        with pytest.raises(Failure, match="must name its command"):
            session.response(0)
        session.initialize()


@pytest.mark.parametrize(
    "data",
    [
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Length: nine\r\n\r\n",
        b"\x00" * 100,
    ],
    ids=["http", "no number", "zeros"],
)
def test_broken_framing_ends_the_session_and_the_next_one_works(script: Path, data: bytes) -> None:
    with Session(exit_code=1) as session:
        session.start(script, "--runs", "100000", "--pause-each", "0.005")
        session.event("thread")
        session.raw(data)
        assert session.event("output", lambda body: body["category"] == "important")
        assert session.ends() == -15
        assert session.wait_for_end() == 1
        assert session.stderr.startswith("opstep: ")
    with Session() as session:
        session.start(script)
        assert session.ends() == 0


def test_half_a_header_and_a_close_ends_the_session() -> None:
    with Session(exit_code=1) as session:
        session.initialize()
        session.raw(b"Content-Len")
        session.vanish()
        assert session.wait_for_end() == 1
        assert "ended inside a message's header" in session.stderr
