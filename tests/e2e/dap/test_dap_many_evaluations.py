"""A client that evaluates at every tick, and stays at one stop: nothing grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.dap_client import Session
from opstep_server.dap.protocol.handles import MOST_PASSING
from opstep_server.dap.requests.inspection_requests import MAX_CHILDREN

pytestmark = pytest.mark.e2e

AT_ONCE = 100
MEASURED = 6000


def resident(pid: int) -> int:
    """Bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def test_evaluations_at_one_stop_keep_memory_flat(programs: Path) -> None:
    with Session() as session:
        session.start(programs / "two_lines.py", functions=[{"name": "exp"}])
        script = session.event("process")["systemProcessId"]
        session.stopped("function breakpoint")
        frame = session.top(1)["id"]

        def evaluate(count: int) -> dict[str, object]:
            last: dict[str, object] = {}
            for start in range(0, count, AT_ONCE):
                sent = [
                    session.send("evaluate", {"expression": f"y * {start + i}", "frameId": frame})
                    for i in range(AT_ONCE)
                ]
                for seq in sent:
                    last = session.response(seq)
                session.history.clear()
            return last

        evaluate(2 * MOST_PASSING)
        before = resident(session.process.pid), resident(script)
        last = evaluate(MEASURED)
        grown = resident(session.process.pid) - before[0], resident(script) - before[1]
        # Each used to keep some kilobytes.
        assert grown[0] < 2 << 20, f"the adapter keeps {grown[0] / MEASURED:.0f} bytes of each"
        assert grown[1] < 2 << 20, f"the script keeps {grown[1] / MEASURED:.0f} bytes of each"
        # What was shown lately, and all rows of the scopes, can be opened.
        reference = last["variablesReference"]
        assert (
            len(session.request("variables", {"variablesReference": reference})["variables"]) == 4
        )
        inputs = session.scopes(frame)["Inputs"]
        evaluate(2 * MOST_PASSING)
        assert list(session.variables(inputs)) == ["X (tanh_0.out)"]
        failure = session.fails("variables", {"variablesReference": reference})
        assert "no longer kept" in failure.sentence


def test_expanded_rows_of_evaluations_keep_memory_flat(programs: Path) -> None:
    with Session() as session:
        session.start(programs / "two_lines.py", functions=[{"name": "exp"}])
        session.stopped("function breakpoint")
        frame = session.top(1)["id"]

        def expand(count: int) -> tuple[int, int]:
            """The references to a table and to its last row."""
            table = row = 0
            for i in range(count):
                text = {"expression": f"reshape(y, [2, 2]) * {i}", "frameId": frame}
                table = session.request("evaluate", text)["variablesReference"]
                rows = session.request("variables", {"variablesReference": table})["variables"]
                row = rows[-1]["variablesReference"]
                session.history.clear()
            return table, row

        early = expand(2 * MOST_PASSING)
        before = resident(session.process.pid)
        table, row = expand(MEASURED // 2)
        grown = resident(session.process.pid) - before
        assert grown < 2 << 20, f"the adapter keeps {2 * grown / MEASURED:.0f} bytes of each"
        for reference in early:
            failure = session.fails("variables", {"variablesReference": reference})
            assert failure.sentence == (
                "these values belong to an earlier stop, or are no longer kept: look at them again"
            )
        for reference in (table, row):
            assert len(session.request("variables", {"variablesReference": reference})) == 1


def test_all_rows_of_an_answer_can_be_opened(tmp_path: Path, programs: Path) -> None:
    """And the table too, however much is looked at in it."""
    script = tmp_path / "tall.py"
    text = (programs / "two_lines.py").read_text()
    script.write_text(text.replace("shape=[4]", "shape=[5000, 2]").replace("(4,", "((5000, 2),"))
    with Session() as session:
        session.start(script, functions=[{"name": "exp"}])
        session.stopped("function breakpoint")
        frame = session.top(1)["id"]
        text = {"expression": "y * 2", "frameId": frame}
        table = session.request("evaluate", text)["variablesReference"]
        for start in range(0, 5000, MAX_CHILDREN):
            part = {"variablesReference": table, "start": start, "count": MAX_CHILDREN}
            rows = session.request("variables", part)["variables"]
            assert len(rows) >= MAX_CHILDREN
            for each in (rows[0], rows[MAX_CHILDREN - 1]):
                inner = {"variablesReference": each["variablesReference"]}
                assert len(session.request("variables", inner)["variables"]) == 2
