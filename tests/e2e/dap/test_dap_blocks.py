"""Stops inside blocks that get values from their op: recurrent steps and rows that were split."""

from __future__ import annotations

from pathlib import Path

from harness.dap_client import Session
from harness.markers import line_of


def test_the_steps_of_a_recurrent_block(programs: Path) -> None:
    script = programs / "blocks.py"
    with Session() as session:
        session.start(script, lines={str(script): [{"line": line_of(script, "step")}]})
        sums = ["0", "55"]
        for step in range(2):
            stop = session.stopped("breakpoint")
            frames = session.stack(stop["threadId"])
            assert frames[1]["name"] == f"recurrent_0 body, iteration {step}"
            now = session.evaluate("recurrent_0.step_0[0]", frames[0]["id"])["result"]
            assert f"[{6 * step}, {6 * step + 1}]" in now
            before = session.evaluate("recurrent_0.memory_0.sum()", frames[0]["id"])["result"]
            assert before == sums[step]
            session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 0
        assert session.output.startswith("loss ")


def test_out_of_a_step_comes_the_recurrent_op(programs: Path) -> None:
    script = programs / "blocks.py"
    with Session() as session:
        session.start(script, lines={str(script): [{"line": line_of(script, "step")}]})
        thread = session.stopped("breakpoint")["threadId"]
        source = {"path": str(script)}
        session.request("setBreakpoints", {"source": source, "breakpoints": []})
        top = session.step("stepOut", thread)
        assert "reduce_sum" in top["name"]
        frames = session.stack(thread)
        assert frames[1]["name"] == "run 1 of main"
        result = session.evaluate("recurrent_0.final.sum()", frames[0]["id"])["result"]
        assert result == "506"


def test_a_branch_sees_its_rows_only(programs: Path) -> None:
    script = programs / "blocks.py"
    with Session() as session:
        session.start(
            script,
            lines={
                str(script): [
                    {"line": line_of(script, "small")},
                    {"line": line_of(script, "large")},
                ]
            },
        )
        for name, rows in (("small", 1), ("large", 2)):
            stop = session.stopped("breakpoint")
            frames = session.stack(stop["threadId"])
            assert frames[0]["line"] == line_of(script, name)
            assert frames[1]["name"].startswith("ifelse_0 ")
            assert session.evaluate("X.shape", frames[0]["id"])["result"] == f"[{rows}, 2]"
            session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 0


def test_the_gradient_of_a_block_is_stepped_like_any_other(programs: Path) -> None:
    script = programs / "blocks.py"
    with Session() as session:
        session.start(script, functions=[{"name": "mul_0.grad"}])
        steps = []
        for _ in range(2):
            stop = session.stopped("function breakpoint")
            frames = session.stack(stop["threadId"])
            assert frames[0]["line"] == line_of(script, "step")
            steps.append(frames[1]["name"])
            # What the forward step computed, taken from the stack.
            result = session.evaluate("recurrent_0.step_0[0, 1]", frames[0]["id"])["result"]
            assert result.startswith("7" if len(steps) == 1 else "1")
            session.request("continue", {"threadId": stop["threadId"]})
        assert [name.split(", ")[1] for name in steps] == ["iteration 1", "iteration 0"]
        assert session.ends() == 0
