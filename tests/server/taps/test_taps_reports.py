"""What is said and counted of taps, over processes that come and go."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from opstep_server.model import ExecutorJoined, ExecutorLost, TapsChanged
from opstep_server.taps import tap_reports
from opstep_server.taps.tap_reports import TapReports
from opstep_server.wire import debug_pb2 as pb


def executor(id: int, identity: str = "") -> Any:
    hello = SimpleNamespace(identity=identity or f"process {id}", host="here")
    return SimpleNamespace(id=id, pid=id, hello=hello)


def status(produced: int = 0, message: str = "") -> pb.TapStatus:
    counts = pb.TapCounts(uid="u", produced=produced, delivered=produced)
    return pb.TapStatus(uid="u", name="convs", message=message, counts=counts)


def later(made: TapReports, seconds: float) -> None:
    made.poll(time.monotonic() + seconds)


def test_processes_that_are_gone_count_on_without_being_known() -> None:
    made = TapReports(lambda text: None)
    stays = executor(0)
    made.take(ExecutorJoined(stays))
    made.take(TapsChanged(stays, [status(1)]))
    for id in range(1, 1001):
        made.take(ExecutorJoined(executor(id)))
        made.take(TapsChanged(executor(id), [status(10)]))
        made.take(ExecutorLost(executor(id), ""))
    # What comes late is of the same records.
    made.take(TapsChanged(executor(5), [status(11)]))
    later(made, 1)
    assert len(made._known) == 1001
    later(made, tap_reports.GONE_SECONDS + 1)
    assert len(made._known) == tap_reports.MAX_GONE + 1
    assert len(made._gone) == tap_reports.MAX_GONE
    assert made.counts()["convs"]["produced"] == 10_002
    made.take(TapsChanged(stays, [status(2)]))
    assert made.counts()["convs"]["produced"] == 10_003


def test_a_process_that_comes_back_goes_on_counting() -> None:
    told: list[str] = []
    made = TapReports(told.append)
    old, new = executor(1, "same"), executor(2, "same")
    made.take(ExecutorJoined(old))
    made.take(TapsChanged(old, [status(3)]))
    # It is here again before its old stream is known to be lost.
    made.take(ExecutorJoined(new))
    made.take(ExecutorLost(old, "lost"))
    made.take(TapsChanged(new, [status(5, "it is bound to nothing")]))
    assert made.counts()["convs"]["produced"] == 5
    assert not made._gone
    later(made, 0)
    assert told == []
    later(made, tap_reports.SETTLE_SECONDS + 1)
    later(made, tap_reports.SETTLE_SECONDS + 2)
    assert told == ["tap convs: it is bound to nothing"]


def test_a_tap_that_always_says_something_else_is_not_heard_for_ever() -> None:
    told: list[str] = []
    made = TapReports(told.append)
    for number in range(1000):
        made.note(executor(1), [status(message=f"{number} of them")])
        later(made, 10 * number)
        later(made, 10 * number + 5)
    assert len(told) == tap_reports.MAX_TOLD


def test_all_are_lost_when_nobody_has_one() -> None:
    made = TapReports(lambda text: None)
    lost = status(3)
    lost.counts.delivered, lost.counts.sink = 0, 3
    made.take(TapsChanged(executor(0), [status()]))
    assert not made.all_lost
    made.take(TapsChanged(executor(0), [lost]))
    assert made.all_lost
    made.take(TapsChanged(executor(1), [status(1)]))
    assert not made.all_lost


def test_why_there_was_nothing_is_told_before_the_end() -> None:
    told: list[str] = []
    made = TapReports(told.append)
    made.take(TapsChanged(executor(0), [status(message="no op matches 'c'")]))
    over = status()
    over.ended = "its 0.3 s are over"
    made.take(TapsChanged(executor(0), [over]))
    assert told == ["tap convs: no op matches 'c'", "tap convs has ended: its 0.3 s are over"]
