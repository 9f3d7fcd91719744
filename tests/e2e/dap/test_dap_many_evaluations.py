"""A client that evaluates at every tick, and stays at one stop: nothing grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.dap_client import Session
from opstep_server.dap.protocol.handles import MOST_PASSING

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
