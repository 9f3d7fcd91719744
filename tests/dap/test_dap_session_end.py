"""Every way to end, from every state: the client hears of it once, nothing is left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from harness.dap_client import Session
from harness.patience import wait_until


def gone(pid: int) -> bool:
    return wait_until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def begin(session: Session, script: Path, state: str, *args: str) -> int:
    """The script, running or stopped; its process id."""
    session.start(
        script, "--runs", "100000", "--pause-each", "0.005", *args, stopOnEntry=state == "stopped"
    )
    pid: int = session.event("process")["systemProcessId"]
    if state == "stopped":
        session.stopped("entry")
    else:
        session.event("thread")
    return pid


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_disconnect_ends_the_script(script: Path, state: str) -> None:
    with Session() as session:
        pid = begin(session, script, state)
        session.request("disconnect")
        assert session.ends() == -signal.SIGTERM
        assert session.wait_for_end() == 0
        assert not alive(pid)


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_disconnect_can_leave_the_script_running(script: Path, state: str, tmp_path: Path) -> None:
    mark, until = tmp_path / "mark", tmp_path / "until"
    with Session() as session:
        session.start(
            script, "--until", str(until), "--pause-each", "0.01", "--mark", str(mark),
            stopOnEntry=state == "stopped",
        )  # fmt: skip
        session.event("process")
        if state == "stopped":
            session.stopped("entry")
        else:
            session.event("thread")
        session.request("disconnect", {"terminateDebuggee": False})
        session.event("terminated")
        assert session.count("exited") == 0
        assert session.wait_for_end() == 0
    until.touch()
    assert wait_until(mark.exists), "the script did not go on to its end"


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_terminate_ends_the_script_and_not_the_session(script: Path, state: str) -> None:
    with Session() as session:
        pid = begin(session, script, state)
        session.request("terminate")
        assert session.ends() == -signal.SIGTERM
        assert gone(pid)
        assert session.request("threads") == {"threads": []}
        assert session.fails("stackTrace", {"threadId": 1}).short == "notStopped"
        session.request("terminate")  # Nothing is left to do.
        assert session.count("terminated") == 1


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_client_that_vanishes_takes_the_script_with_it(script: Path, state: str) -> None:
    with Session() as session:
        pid = begin(session, script, state)
        session.vanish()
        assert session.wait_for_end() == 0
        assert gone(pid)


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_an_adapter_told_to_end_takes_the_script_with_it(script: Path, state: str) -> None:
    with Session() as session:
        pid = begin(session, script, state)
        session.process.send_signal(signal.SIGTERM)
        assert session.wait_for_end() == 0
        assert gone(pid)
        session.ends()


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_killed_executor_is_a_clean_end(script: Path, state: str) -> None:
    with Session() as session:
        pid = begin(session, script, state)
        os.kill(pid, signal.SIGKILL)
        assert session.ends() == -signal.SIGKILL
        assert session.request("threads") == {"threads": []}


def test_a_killed_executor_fails_what_waited_for_it(script: Path) -> None:
    with Session() as session:
        pid = begin(session, script, "stopped")
        frame = session.top(1)["id"]
        waiting = session.send("evaluate", {"expression": "never", "frameId": frame})
        session.no_event("exited")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Exception, match=f"process {pid} has ended"):
            session.response(waiting)
        session.ends()


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_an_adapter_that_is_killed_takes_the_script_with_it(script: Path, state: str) -> None:
    with Session(exit_code=-signal.SIGKILL) as session:
        pid = begin(session, script, state)
        session.process.kill()
        session.wait_for_end()
    assert gone(pid)


def test_an_adapter_that_is_killed_takes_the_scripts_children_too(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '1000'])\n"
        "print('child', child.pid, flush=True)\n"
        "signal.pause()\n"
    )
    with Session(exit_code=-signal.SIGKILL) as session:
        session.start(script)
        pid = session.event("process")["systemProcessId"]
        while not session.output.endswith("\n"):
            session.event("output")
        child = int(session.output.split()[1])
        session.process.kill()
        session.wait_for_end()
    assert gone(child)
    assert gone(pid), "a script that ignores SIGTERM was not killed"


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_run_that_is_to_be_kept_goes_on_when_the_adapter_is_killed(
    script: Path, state: str, tmp_path: Path
) -> None:
    mark, until = tmp_path / "mark", tmp_path / "until"
    with Session(exit_code=-signal.SIGKILL) as session:
        session.start(
            script, "--until", str(until), "--pause-each", "0.01", "--mark", str(mark),
            stopOnEntry=state == "stopped", keepRunning=True,
        )  # fmt: skip
        session.event("process")
        session.event("thread")
        session.process.kill()
        session.wait_for_end()
    until.touch()
    assert wait_until(mark.exists), "the script did not go on to its end"


def test_disconnect_while_the_launch_waits(script: Path) -> None:
    with Session() as session:
        session.initialize()
        launched = session.send("launch", {"program": str(script)})
        session.request("disconnect")
        with pytest.raises(Exception, match="launch was cancelled"):
            session.response(launched)
        assert session.wait_for_end() == 0
        assert session.count("process") == 0


def test_an_exit_code_and_all_output_come_before_the_end(script: Path) -> None:
    with Session() as session:
        session.start(script, "--exit", "42")
        assert session.ends() == 42
        assert session.output.endswith("all runs done\n")
        names = [m.get("event") for m in session.history if m["type"] == "event"]
        assert "output" not in names[names.index("exited") :]
        session.no_event("terminated")
