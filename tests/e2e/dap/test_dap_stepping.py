"""Steps through a real loop: over, into and out of its body, by op and by line."""

from __future__ import annotations

from pathlib import Path

from harness.dap_client import Session
from harness.markers import line_of


def begin(session: Session, script: Path, name: str, condition: str | None = None) -> int:
    """Stopped at the marked line; the thread."""
    breakpoint = {"line": line_of(script, name), **({"condition": condition} if condition else {})}
    session.start(script, lines={str(script): [breakpoint]})
    thread: int = session.stopped("breakpoint")["threadId"]
    source = {"path": str(script)}
    session.request("setBreakpoints", {"source": source, "breakpoints": []})
    return thread


def lines_of(script: Path, *names: str) -> list[int]:
    return [line_of(script, name) for name in names]


def test_into_the_body_through_its_iterations_and_out(programs: Path) -> None:
    script = programs / "loop.py"
    with Session() as session:
        thread = begin(session, script, "before")
        names = []
        while not names or "(while)" not in names[-1]:
            names.append(session.step("next", thread, "instruction")["name"])
            assert len(names) < 20, names
        top = session.step("stepIn", thread, "instruction")
        assert top["line"] == line_of(script, "double")
        for iteration in range(3):
            frames = session.stack(thread)
            assert frames[1]["name"] == f"while_0 body, iteration {iteration}"
            assert frames[2]["name"] == "run 1 of main"
            total = session.evaluate("X", frames[0]["id"])["result"]
            assert f"[{2**iteration}]" in total
            for name in ("keep", "increment", "again", "double"):
                assert session.step("next", thread)["line"] == line_of(script, name)
        top = session.step("stepOut", thread)
        assert top["line"] == line_of(script, "after")
        # The line's first op is the constant 1, its second the sum.
        assert "(add)" in session.step("next", thread, "instruction")["name"]
        frames = session.stack(thread)
        assert frames[1]["name"] == "run 1 of main"
        assert "[32]" in session.evaluate("X", frames[0]["id"])["result"]
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0
        assert session.output == "result 33\nresult 97\n"


def test_over_the_loop(programs: Path) -> None:
    script = programs / "loop.py"
    with Session() as session:
        thread = begin(session, script, "before")
        seen = []
        while not seen or seen[-1] != line_of(script, "after"):
            seen.append(session.step("next", thread)["line"])
            assert len(seen) < 20, seen
        assert not set(seen) & set(lines_of(script, "double", "keep", "increment", "again"))


def test_a_breakpoint_in_the_body_stops_in_each_iteration(programs: Path) -> None:
    script = programs / "loop.py"
    with Session() as session:
        session.start(script, lines={str(script): [{"line": line_of(script, "double")}]})
        for run in (1, 2):
            for iteration in range(5):
                stop = session.stopped("breakpoint")
                frames = session.stack(stop["threadId"])
                assert frames[1]["name"] == f"while_0 body, iteration {iteration}"
                assert frames[2]["name"] == f"run {run} of main"
                session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 0


def test_a_condition_on_the_iteration(programs: Path) -> None:
    script = programs / "loop.py"
    with Session() as session:
        thread = begin(session, script, "double", "iteration == 3 and step == 2")
        frames = session.stack(thread)
        assert frames[1]["name"] == "while_0 body, iteration 3"
        assert frames[2]["name"] == "run 2 of main"
        assert "[24]" in session.evaluate("X", frames[0]["id"])["result"]
        assert session.evaluate("iteration", frames[0]["id"])["result"] == "3"


def test_stop_on_entry_and_op_steps_visit_each_op_in_order(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, "--steps", "1", functions=[{"name": "x.feed"}])
        thread = session.stopped("function breakpoint")["threadId"]
        names = [session.top(thread)["name"].split(" ")[0]]
        while names[-1] != "fc_1.matmul":
            names.append(session.step("next", thread, "instruction")["name"].split(" ")[0])
            assert len(names) < 20, names
        assert names == [
            "x.feed", "label.feed", "fc_0.matmul", "fc_0.add", "fc_0.relu", "fc_1.matmul",
        ]  # fmt: skip


def test_stop_on_entry(programs: Path) -> None:
    with Session() as session:
        session.start(programs / "mlp.py", "--steps", "1", stopOnEntry=True)
        stop = session.stopped("entry")
        assert session.stack(stop["threadId"])[1]["name"] == "run 1 of startup"
        session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 0


def test_into_out_of_and_over_a_branch(programs: Path) -> None:
    script = programs / "branch.py"
    with Session() as session:
        session.start(script, functions=[{"name": "cond"}])
        thread = session.stopped("function breakpoint")["threadId"]
        assert session.top(thread)["line"] == line_of(script, "cond")
        # Into the branch that is taken, along its lines, and out of it.
        assert session.step("stepIn", thread)["line"] == line_of(script, "grow")
        assert session.stack(thread)[0]["name"].startswith("add_0 (add)")
        assert session.step("next", thread)["line"] == line_of(script, "square")
        assert session.step("stepOut", thread)["line"] == line_of(script, "after")
        session.request("continue", {"threadId": thread})
        session.stopped("function breakpoint")
        assert session.step("next", thread, "instruction")["line"] == line_of(script, "after")
        session.request("continue", {"threadId": thread})
        assert session.ends() == 0
        assert session.output == "result 8\nresult 2\n"


def test_a_branch_that_is_not_taken_is_not_stepped_into(programs: Path) -> None:
    script = programs / "branch.py"
    with Session() as session:
        session.start(script, functions=[{"name": "cond", "condition": "step == 2"}])
        thread = session.stopped("function breakpoint")["threadId"]
        targets = session.request("stepInTargets", {"frameId": session.top(thread)["id"]})
        grow, shrink = targets["targets"]
        session.request("stepIn", {"threadId": thread, "targetId": grow["id"]})
        session.stopped("step")
        assert session.top(thread)["line"] == line_of(script, "after")
        assert shrink["id"] != grow["id"]


def test_over_and_into_a_recurrent_op(programs: Path) -> None:
    script = programs / "blocks.py"
    with Session() as session:
        session.start(script, functions=[{"name": "recurrent_0"}])
        thread = session.stopped("function breakpoint")["threadId"]
        top = session.step("stepIn", thread, "instruction")
        assert top["line"] == line_of(script, "step")
        assert session.stack(thread)[1]["name"] == "recurrent_0 body, iteration 0"
        session.step("stepOut", thread)
        assert session.stack(thread)[1]["name"] == "run 1 of main"
        session.request("restart")
        thread = session.stopped("function breakpoint")["threadId"]
        assert "reduce_sum" in session.step("next", thread, "instruction")["name"]
