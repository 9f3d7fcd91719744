"""What people type into an editor's console who know pdb and gdb."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.dap_client import Failure, Session

pytestmark = pytest.mark.e2e


def test_commands_at_a_stop(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        session.start(script, "--steps", "1", functions=[{"name": "relu"}])
        session.stopped("function breakpoint")
        frames = session.stack(1)
        frame = frames[0]["id"]

        def typed(text: str, at: int = frame) -> str:
            return str(session.evaluate(text, at, "repl")["result"])

        def refused(text: str) -> str:
            with pytest.raises(Failure) as failure:
                typed(text)
            return failure.value.sentence

        shown = [each["name"] for each in frames if each.get("presentationHint") != "label"]
        stack = typed("bt").splitlines()
        assert [line.split("  ", 1)[0] for line in stack] == [f"#{i}" for i in range(len(shown))]
        assert all(name in line for name, line in zip(shown, stack, strict=True))
        assert typed("where") == typed("backtrace") == typed("bt", frames[-1]["id"])
        assert typed("bt 1").splitlines() == [
            stack[0], f"{len(stack) - 1} more frames: 'bt' shows all",
        ]  # fmt: skip
        assert typed("bt -1").splitlines()[0] == stack[-1]
        # A name that is also a command of the terminal.
        assert typed("step") == "1"
        assert "X (fc_0.add.out) = float32[16, 4] mean" in typed("bt full 1")
        assert typed("p x.shape") == typed("pp x.shape") == typed("print x.shape") == "[16, 8]"
        assert typed("fc_0.w *= 0").startswith("float32[8, 4] mean 0 ")
        assert typed("set var fc_0.b[0] = 3") == typed("fc_0.b[0]") == "3"
        assert "'help' shows what can be typed here" in refused("whatis x")
        assert "'bt full' show those that are here" in refused("nowhere *= 0")
        assert refused("next").startswith("'next' is done by the editor's own buttons")
        # A watchpoint that the client's own lists do not take away.
        assert "there is no variable 'nowhere' here" in refused("watch nowhere")
        assert "nothing is watched" in refused("unwatch")
        assert typed("watch loss").startswith("it stops when an op writes mean_0.out;")
        session.event("breakpoint", lambda body: body["reason"] == "new")
        session.request("setDataBreakpoints", {"breakpoints": []})
        session.request("continue", {"threadId": 1})
        session.stopped("data breakpoint")
        frame = session.top(1)["id"]
        assert typed("unwatch loss", frame) == "mean_0.out is no longer watched"
        session.request("continue", {"threadId": 1})
        assert session.ends() == 0


def test_a_variable_comes_before_a_command_of_its_name(tmp_path: Path) -> None:
    script = tmp_path / "named.py"
    script.write_text(
        "import numpy as np, opstep\n"
        "from opstep import layers\n"
        "main = opstep.Program('main')\n"
        "with opstep.program_guard(main, opstep.Program('startup')):\n"
        "    bt = layers.data('bt', shape=[2])\n"
        "    h = bt\n"
        "    y = layers.relu(h)\n"
        "opstep.Executor().run(main, feed={'bt': np.ones(2, np.float32)}, fetch_list=[y])\n"
    )
    with Session() as session:
        session.start(script, functions=[{"name": "relu"}])
        session.stopped()
        frame = session.top(1)["id"]
        for text in ("bt", "!bt", "h", "! h"):
            shown = session.evaluate(text, frame, "repl")["result"]
            assert shown == "float32[2] [1, 1]", text
        assert "'bt' shows the stack" in session.evaluate("help", frame, "repl")["result"]


def test_help_needs_no_stop(programs: Path, tmp_path: Path) -> None:
    with Session() as session:
        session.start(programs / "forever.py", "--until", str(tmp_path / "end"))
        session.event("thread")
        told = session.request("evaluate", {"expression": "help", "context": "repl"})["result"]
        assert "'bt' shows the stack" in told
        failure = session.fails("evaluate", {"expression": "bt", "context": "repl"})
        assert failure.sentence == "the program is running: pause it first"
