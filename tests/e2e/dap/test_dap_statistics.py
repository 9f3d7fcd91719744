"""The requests by which views colour ops: what a tap says of them, against NumPy."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.dap_client import Session
from harness.patience import SECONDS
from harness.processes import Script, attach
from opstep_server.debugger import Debugger

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
LOG = [{"name": "log"}]


def program(session: Session) -> str:
    modules = session.request("modules", {})["modules"]
    return str(next(each["id"] for each in modules if each["name"] == "main"))


def statistics(session: Session, run: int, variable: str) -> Json:
    """What is told of the variable, once it is of that run: records come after the op has run."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        answer = session.request("opstepTapStatistics", {"program": program(session)})
        found = {each["variable"]: each for each in answer["statistics"]}
        if variable in found and found[variable]["run"] == run:
            return found[variable]
        time.sleep(0.02)
    raise AssertionError(f"no record of {variable} in run {run}: {answer}")


def test_the_newest_of_each_op(programs: Path) -> None:
    with Session() as session:
        session.start(programs / "make_nan.py", functions=LOG)
        thread = session.stopped()["threadId"]
        asked = {"program": program(session)}
        assert "'opstepTap'" in session.fails("opstepTapStatistics", asked).sentence
        assert "1 or more" in session.fails("opstepTap", {"on": True, "every": 0}).sentence
        assert session.request("opstepTap", {"on": True}) == {"on": True}
        assert session.request("opstepTapStatistics", asked)["statistics"] == []

        session.request("continue", {"threadId": thread})
        session.stopped()
        made = np.log(np.array([3.75, 2.75], np.float32))
        told = statistics(session, 1, "log_0.out")
        expected = {
            "count": 2,
            "min": made.min(),
            "max": made.max(),
            "mean": made.mean(),
            "std": made.std(),
            "l2": np.linalg.norm(made),
        }
        assert {name: told[name] for name in expected} == pytest.approx(expected, 1e-5)
        assert (told["nan"], told["inf"], told["zeros"]) == (0, 0, 0)
        graph = session.request("opstepGraph", asked)
        assert told["op"] == next(op["id"] for op in graph["ops"] if op["name"] == "log_0")

        # Nothing ran since: nothing is told again.
        number = session.request("opstepTapStatistics", asked)["number"]
        newer = session.request("opstepTapStatistics", {**asked, "since": number})
        assert newer == {"number": number, "statistics": []}

        for _ in range(2):
            session.request("continue", {"threadId": thread})
            session.stopped()
        assert statistics(session, 3, "log_0.out")["nan"] == 1
        # Of what is not finite there is no mean.
        assert statistics(session, 3, "reduce_sum_0.out").keys().isdisjoint({"mean", "min", "l2"})

        # Off and on again: what was known before is gone.
        assert session.request("opstepTap", {"on": False}) == {"on": False}
        assert "'opstepTap'" in session.fails("opstepTapStatistics", asked).sentence
        session.request("opstepTap", {"on": True, "every": 2})
        assert session.request("opstepTapStatistics", asked)["statistics"] == []
        session.request("continue", {"threadId": thread})
        session.ends()


def test_taps_go_with_the_session(tmp_path: Path) -> None:
    async def left(pid: int) -> list[str]:
        debugger = Debugger()
        try:
            await debugger.attach_pid(pid)
            ((_, told),) = await debugger.list_taps()
            return [status.name for status in told.statuses]
        finally:
            await debugger.close()

    with Script(tmp_path).ready() as script:
        with Session() as session:
            attach(session, {"pid": script.pid})
            session.event("module")
            session.request("opstepTap", {"on": True})
            asked = {"program": program(session)}
            end = time.monotonic() + SECONDS
            while not session.request("opstepTapStatistics", asked)["statistics"]:
                assert time.monotonic() < end, "no statistics of a program that runs"
                time.sleep(0.02)
            session.request("disconnect")
        assert asyncio.run(left(script.pid)) == []
        assert "done" in script.finish()
