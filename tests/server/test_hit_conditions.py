"""Hit conditions, log messages and fault filters: what is understood, what is said of the rest."""

from __future__ import annotations

import asyncio

import pytest

from harness.scripted_executor import session
from opstep_server import hit_conditions, log_messages
from opstep_server.model import (
    BreakpointSpec,
    DataWhere,
    DebuggerError,
    FaultsChanged,
    FaultSpec,
    Logged,
    PatternWhere,
)
from opstep_server.wire import debug_pb2 as pb

H = pb.HitCondition


@pytest.mark.parametrize(
    ("text", "op", "count"),
    [
        ("5", H.EQUAL, 5),
        ("==5", H.EQUAL, 5),
        (" != 5 ", H.NOT_EQUAL, 5),
        ("<5", H.LESS, 5),
        ("<=5", H.LESS_EQUAL, 5),
        (">0", H.GREATER, 0),
        (">= 100", H.GREATER_EQUAL, 100),
        ("% 10", H.MULTIPLE, 10),
    ],
)
def test_hit_conditions(text: str, op: H.Op, count: int) -> None:
    assert hit_conditions.parse(text) == H(op=op, count=count)


@pytest.mark.parametrize("text", ["", "x", "5 5", "=5", "=> 5", "-1", "1.5", "5 %", "٣"])
def test_what_is_no_hit_condition(text: str) -> None:
    with pytest.raises(DebuggerError, match="is not a hit condition: write a number"):
        hit_conditions.parse(text)


@pytest.mark.parametrize("text", ["0", "== 0", "< 1", "<= 0", "%0"])
def test_hit_conditions_that_never_hold(text: str) -> None:
    with pytest.raises(DebuggerError, match="never holds: visits are counted from 1"):
        hit_conditions.parse(text)


def value(number: float) -> pb.LogPart:
    return pb.LogPart(value=pb.Value(f=number))


def test_pieces_of_a_message_and_their_text() -> None:
    template = log_messages.parse("{{loss}} {loss.mean():.3f} at {w[0, :5]}{step}")
    kinds = [piece.WhichOneof("kind") for piece in template.pieces]
    assert kinds == ["text", "value", "text", "value", "value"]
    assert template.pieces[0].text == "{loss} "
    assert template.pieces[3].value.WhichOneof("node") == "index"
    assert template.formats == ("", ".3f", "", "", "")
    parts = [
        pb.LogPart(text="{loss} "),
        value(0.123456),
        pb.LogPart(text=" at "),
        pb.LogPart(error="there is no w"),
        pb.LogPart(value=pb.Value(i=7)),
    ]
    assert template.text(parts) == "{loss} 0.123 at <there is no w>7"


def test_a_colon_in_brackets_or_quotes_and_formats_that_do_not_fit() -> None:
    assert log_messages.parse("{var('a:b}c'):>4}").formats == (">4",)
    template = log_messages.parse("{x:d}")
    assert template.text([value(1.5)]) == "<'d' does not fit 1.5>"
    tensor = pb.Value(tensor=pb.Tensor(dtype="FLOAT32", dims=[2], data=b"\0\0\x80\x3f\0\0\0\x40"))
    assert template.text([pb.LogPart(value=tensor)]) == "float32[2] [1, 2]"
    one = pb.Value(tensor=pb.Tensor(dtype="FLOAT32", dims=[1, 1], data=b"\0\0\xc0\x3f"))
    assert log_messages.parse("{x:.2f}").text([pb.LogPart(value=one)]) == "1.50"
    assert log_messages.parse("{x}").text([pb.LogPart(value=one)]) == "1.5"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a } b", "there is no { before the } at column 3: write }}"),
        ("a {x", "the { at column 3 is never closed: write {{ for a brace"),
        ("{}", "there is no expression in the braces at column 1"),
        ("{x:zz}", "'zz' is not a format: write one as in an f-string, such as .3f"),
        ("{x:999999999}", "'999999999' is not a format"),
        ("{maxx(x)}", "maxx"),
        ("x" * 5000, "the log message is longer than 4000 characters"),
    ],
)
def test_what_is_no_log_message(text: str, why: str) -> None:
    with pytest.raises(DebuggerError) as error:
        log_messages.parse(text)
    assert why in str(error.value)


def test_all_of_it_goes_over_the_wire_and_comes_back_as_text() -> None:
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            specs = [
                BreakpointSpec(PatternWhere("a"), hit_condition="% 3", log_message="x {x:.1f}"),
                BreakpointSpec(DataWhere("w", changed=True)),
                BreakpointSpec(PatternWhere("b"), hit_condition="often"),
                BreakpointSpec(PatternWhere("c"), log_message="{"),
            ]
            states = await s.debugger.replace_breakpoints("me", specs)
            log, data = executor.of("set_breakpoints")[-1].breakpoints
            assert (log.hits.op, log.hits.count) == (H.MULTIPLE, 3)
            assert [p.text or p.value.name for p in log.log.pieces] == ["x ", "x"]
            assert (data.data.variable, data.data.changed) == ("w", True)
            assert states[1].message == "no op writes 'w' yet"
            assert states[2].message.startswith("the hit condition cannot be used: 'often' is no")
            assert states[3].message.startswith("the log message cannot be used: the { at column 1")

            parts = [pb.LogPart(text="x "), value(2.25)]
            record = pb.LogRecord(breakpoint=states[0].id, thread=1, parts=parts)
            await executor.send(logs=pb.Logs(records=[record, record], dropped=5))
            await s.wait_for(Logged, 3)
            told = [e for e in s.events if isinstance(e, Logged)]
            assert [(e.text, e.breakpoint, e.dropped) for e in told] == [
                (
                    "5 log messages were dropped: they came faster than they can be shown",
                    0,
                    5,
                ),
                ("x 2.2", states[0].id, 0),
                ("x 2.2", states[0].id, 0),
            ]
            assert told[0].thread is None
            assert states[0].hits == 2
            with pytest.raises(DebuggerError, match="is not a hit condition"):
                await s.debugger.update_breakpoint(states[0].id, hit_condition="x")
            await s.debugger.update_breakpoint(states[0].id, hit_condition=None, log_message="y")
            log = executor.of("set_breakpoints")[-1].breakpoints[0]
            assert not log.HasField("hits")
            assert [p.text for p in log.log.pieces] == ["y"]

    asyncio.run(run())


def test_filters_that_cannot_be_used_are_told_here_and_there() -> None:
    async def run() -> None:
        async with session() as s:
            executor = await s.join()
            executor.answers["set_fault_filters"] = lambda c: {
                "faults": pb.FaultStatuses(messages=["", "no such name"])
            }
            problems = await s.debugger.set_faults(
                [
                    FaultSpec("overflow", ops="decoder*", limit=1e4),
                    FaultSpec("nan", condition="maxx(out)"),
                    FaultSpec("inf", condition="foo > 1"),
                    FaultSpec("error", limit=3.0),
                    FaultSpec("overflow", limit=float("nan")),
                ]
            )
            assert problems[0] == ""
            assert problems[1].startswith("the condition cannot be used: ")
            assert problems[2] == "no such name"
            assert problems[3] == "a limit belongs to overflow, not to error"
            assert problems[4] == "nan is not a limit: write a number above 0, such as 65504"
            overflow, inf = executor.of("set_fault_filters")[-1].filters
            assert (overflow.kind, overflow.ops, overflow.limit) == (
                pb.FAULT_OVERFLOW,
                "decoder*",
                1e4,
            )
            assert (inf.kind, inf.condition_text) == (pb.FAULT_INF, "foo > 1")
            await executor.send(faults=pb.FaultStatuses(messages=["", ""]))
            changed = await s.wait_for(FaultsChanged)
            assert changed.problems[2] == ""
            assert changed.problems[3] != ""

    asyncio.run(run())
