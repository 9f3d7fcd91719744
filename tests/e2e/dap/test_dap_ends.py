"""The ends of a real run: killed, let go, and a debugger that dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from harness.dap_client import Session
from harness.markers import line_of
from harness.patience import wait_until


def begin(session: Session, script: Path, state: str, *args: str) -> int:
    """The script, running or stopped in its third step; its process id."""
    breakpoints = [{"line": line_of(script, "hidden"), "condition": "step == 3"}]
    lines = {str(script): breakpoints if state == "stopped" else []}
    session.start(script, *args, lines=lines)
    pid: int = session.event("process")["systemProcessId"]
    if state == "stopped":
        session.stopped("breakpoint")
    else:
        session.event("output", lambda body: "loss" in body["output"])
    return pid


@pytest.fixture
def undisturbed(programs: Path, tmp_path: Path) -> str:
    """The last loss of ten steps that nobody watched."""
    mark = tmp_path / "undisturbed"
    with Session() as session:
        session.start(programs / "mlp.py", "--steps", "10", "--mark", str(mark), noDebug=True)
        assert session.ends() == 0
    return mark.read_text()


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_killed_executor_is_a_clean_end(programs: Path, state: str) -> None:
    with Session() as session:
        pid = begin(session, programs / "mlp.py", state, "--steps", "1000000000000")
        os.kill(pid, signal.SIGKILL)
        assert session.ends() == -signal.SIGKILL
        assert session.request("threads") == {"threads": []}


@pytest.mark.parametrize("state", ["running", "stopped"])
@pytest.mark.parametrize("how", ["disconnect", "terminate", "vanish"])
def test_the_client_ends_the_script(programs: Path, state: str, how: str) -> None:
    with Session() as session:
        pid = begin(session, programs / "mlp.py", state, "--steps", "1000000000000")
        if how == "vanish":
            session.vanish()
            session.wait_for_end()
        else:
            session.request(how)
            assert session.ends() == -signal.SIGTERM
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_the_run_goes_on_when_the_debugger_is_killed_while_paused(
    programs: Path, tmp_path: Path, undisturbed: str
) -> None:
    mark = tmp_path / "mark"
    with Session(exit_code=-signal.SIGKILL) as session:
        arguments = ["--steps", "10", "--mark", str(mark)]
        session.start(programs / "mlp.py", *arguments, stopOnEntry=True, keepRunning=True)
        session.stopped("entry")
        session.process.kill()
        session.wait_for_end()
    assert wait_until(mark.exists), "the run did not go on"
    assert wait_until(lambda: mark.read_text() != "")
    assert mark.read_text() == undisturbed


def test_a_script_that_is_let_go_ends_as_if_nobody_had_watched(
    programs: Path, tmp_path: Path, undisturbed: str
) -> None:
    mark = tmp_path / "mark"
    with Session() as session:
        begin(session, programs / "mlp.py", "stopped", "--steps", "10", "--mark", str(mark))
        session.request("disconnect", {"terminateDebuggee": False})
        session.event("terminated")
        assert session.count("exited") == 0
    assert wait_until(lambda: mark.exists() and mark.read_text() != ""), "the run did not go on"
    assert mark.read_text() == undisturbed


def test_a_script_that_is_let_go_while_it_runs_goes_on(programs: Path, tmp_path: Path) -> None:
    script, until, mark = (tmp_path / name for name in ("script.py", "until", "mark"))
    script.write_text(
        "import pathlib, runpy\n"
        f"runpy.run_path({str(programs / 'forever.py')!r})\n"
        f"pathlib.Path({str(mark)!r}).touch()\n"
    )
    with Session() as session:
        session.start(script, "--until", str(until))
        session.event("output", lambda body: "first run" in body["output"])
        session.request("disconnect", {"terminateDebuggee": False})
        session.event("terminated")
        assert session.count("exited") == 0
    until.touch()
    assert wait_until(mark.exists), "the run did not go on"


def test_after_malformed_input_the_next_client_is_served(programs: Path) -> None:
    with Session(exit_code=1) as session:
        pid = begin(session, programs / "mlp.py", "stopped", "--steps", "1000000000000")
        session.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = session.event("output", lambda body: body["category"] == "important")
        assert "must begin with 'Content-Length: '" in said["output"]
        session.ends()
        assert session.wait_for_end() == 1
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists())
    with Session() as session:
        session.start(programs / "mlp.py", "--steps", "2")
        assert session.ends() == 0


def test_a_script_that_fails_tells_its_error_and_code(programs: Path, tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(
        "import opstep\nfrom opstep import layers\n"
        'x = layers.data("x", shape=[None, 4])\n'
        'y = layers.data("y", shape=[5, 2])\n'
        "layers.matmul(x, y)\n"
    )
    with Session() as session:
        session.start(script)
        assert session.ends() == 1
        told = "".join(
            m["body"]["output"] for m in session.history
            if m.get("event") == "output" and m["body"].get("category") == "stderr"
        )  # fmt: skip
        assert "[matmul]" in told and "wrong.py:5" in told, told


def test_a_script_that_runs_no_program_is_told(programs: Path) -> None:
    with Session() as session:
        session.start(programs / "no_program.py")
        said = session.event("output", lambda body: body["category"] == "console")
        assert said["output"] == (
            "no_program.py ended and ran no program of opstep, so there was nothing to stop at: "
            "debug a script that calls Executor.run\n"
        )
        assert session.ends() == 0
    with Session() as session:
        # Without debugging there was nothing to stop at anyway.
        session.start(programs / "no_program.py", noDebug=True)
        assert session.ends() == 0
        assert "ran no program" not in str(session.history)
