"""Attaching to real processes that were not started for it, by their doorbells."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.dap_client import Failure, Session
from harness.markers import line_of
from harness.processes import OPSTEP, PROGRAMS, SECONDS, Script, attach, wait_until
from opstep_server import doorbell
from opstep_server.debugger import Debugger

pytestmark = pytest.mark.e2e

TANH = [{"name": "tanh"}]

LOOP = """
import argparse, sys
import numpy as np
import opstep
from opstep import layers

parser = argparse.ArgumentParser()
parser.add_argument("--until")
parser.parse_args()
main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[4])
    i = layers.fill([1], 0, "int64")
    running = layers.less_than(i, 10**12)
    loop = layers.While(running)
    with loop.block():
        layers.tanh(x)
        layers.increment(i)
        layers.less_than(i, 10**12, out=running)
exe = opstep.Executor()
print("first run", flush=True)
exe.run(main, feed={"x": np.ones(4, np.float32)})
"""


def running(pid: int) -> doorbell.Running | None:
    return next((r for r in asyncio.run(doorbell.running()) if r.pid == pid), None)


# ---- one process ---------------------------------------------------------------------------------


def test_attach_to_a_process_between_its_runs(tmp_path: Path) -> None:
    with Script(tmp_path).ready() as script:
        with Session() as session:
            (breakpoint,) = attach(session, {"pid": script.pid}, functions=TANH)
            process = session.event("process")
            assert process["systemProcessId"] == script.pid
            assert process["startMethod"] == "attach"
            body = session.stopped("function breakpoint")
            assert body["hitBreakpointIds"] == [breakpoint["id"]]
            assert session.top(body["threadId"])["name"].startswith("tanh")
            session.step("next", body["threadId"], "instruction")
            session.request("disconnect")
            session.event("terminated")
        assert wait_until(lambda: running(script.pid) is not None)
        assert "done" in script.finish()


def test_attach_to_a_process_in_one_long_run(tmp_path: Path) -> None:
    path = tmp_path / "loop.py"
    path.write_text(LOOP)
    with Script(tmp_path, script=path).ready() as script, Session() as session:
        attach(session, {"pid": script.pid}, functions=TANH)
        body = session.stopped("function breakpoint")
        first = session.top(body["threadId"])["id"]
        count = int(session.evaluate("iteration", first)["result"])
        session.request("continue", {"threadId": body["threadId"]})
        body = session.stopped("function breakpoint")
        again = session.top(body["threadId"])["id"]
        assert int(session.evaluate("iteration", again)["result"]) == count + 1
        session.request("disconnect", {"terminateDebuggee": True})
        session.event("terminated")
        assert script.process.wait(SECONDS) == -signal.SIGTERM


def test_stop_on_entry_stops_at_the_next_op(tmp_path: Path) -> None:
    with Script(tmp_path).ready() as script:
        with Session() as session:
            attach(session, {"pid": script.pid, "stopOnEntry": True})
            session.stopped("pause")
            session.vanish()
            session.wait_for_end()
        # Whoever attached and vanished leaves it as it was.
        assert "done" in script.finish()


def test_a_process_that_dies_while_it_is_stopped_ends_the_session(tmp_path: Path) -> None:
    with Script(tmp_path).ready() as script, Session() as session:
        attach(session, {"pid": script.pid}, functions=TANH)
        session.stopped("function breakpoint")
        script.process.kill()
        script.process.wait()
        session.event("output", lambda body: f"process {script.pid}" in body["output"])
        session.event("terminated")
        assert session.request("threads") == {"threads": []}


@pytest.fixture
def bystander() -> Iterator[int]:
    """A process without an executor."""
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


def test_what_cannot_be_attached_to_is_said(tmp_path: Path, bystander: int) -> None:
    with Script(tmp_path).ready() as script, Session() as session:
        session.initialize()
        session.request("configurationDone")
        for arguments in ({}, {"pid": 1, "listen": "127.0.0.1:0"}):
            failure = session.fails("attach", arguments)
            assert "one of pid, listen and connect" in failure.sentence
        assert "runs no opstep executor" in session.fails("attach", {"pid": bystander}).sentence
        nobody = session.fails("attach", {"connect": f"unix:{tmp_path}/nobody"})
        assert "no debug server" in nobody.sentence
        refused = session.fails("attach", {"listen": "0.0.0.0:0"})
        assert "can be reached from other machines" in refused.sentence
        with Session() as first:
            attach(first, {"pid": script.pid})
            # It is shared with whoever has it.
            session.request("attach", {"pid": script.pid})
            session.request("disconnect", {"terminateDebuggee": False})
            first.request("disconnect")
        assert "done" in script.finish()


# ---- several processes ---------------------------------------------------------------------------


def test_terminated_follows_the_last_process(tmp_path: Path) -> None:
    with Session() as session:
        attach(session, {"listen": f"unix:{tmp_path}/executors"})
        # How to start them again is not known.
        now = session.event("capabilities")["capabilities"]
        assert now == {"supportsRestartRequest": False}
        env = {"OPSTEP_SERVER": f"unix:{tmp_path}/executors", "OPSTEP_WAIT": "100"}
        with Script(tmp_path, **env).ready(), Script(tmp_path, **env).ready():
            assert wait_until(lambda: len(session.request("threads")["threads"]) == 2)
            session.request("terminate")
            session.event("terminated")
            assert session.request("threads") == {"threads": []}


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_two_executors_in_one_session(tmp_path: Path, kind: str) -> None:
    with Session() as session:
        address = f"unix:{tmp_path}/executors" if kind == "unix" else "127.0.0.1:0"
        attach(session, {"listen": address}, functions=TANH)
        said = session.event("output", lambda body: "OPSTEP_SERVER" in body["output"])["output"]
        env = dict(re.findall(r"(OPSTEP_\w+)=(\S+)", said))
        assert ("OPSTEP_TOKEN_FILE" in env) == (kind == "tcp")
        env["OPSTEP_WAIT"] = "10"
        with Script(tmp_path, **env) as one, Script(tmp_path, **env) as two:
            stops = [session.stopped("function breakpoint"), session.stopped("function breakpoint")]
            threads = session.request("threads")["threads"]
            assert {stop["threadId"] for stop in stops} == {thread["id"] for thread in threads}
            for pid in (one.pid, two.pid):
                assert any(f"({pid})" in thread["name"] for thread in threads)
            for stop in stops:
                frame = session.top(stop["threadId"])
                assert session.evaluate("X.shape", frame["id"])["result"] == "[4]"
            # One goes, the other stays where it is; a third one comes.
            one.process.kill()
            gone = session.event("thread", lambda body: body["reason"] == "exited")["threadId"]
            (left,) = session.request("threads")["threads"]
            assert left["id"] != gone
            with Script(tmp_path, **env) as three:
                session.stopped("function breakpoint")
                session.request("disconnect")
                assert "done" in two.finish()
                assert "done" in three.finish()
    assert not os.path.exists(env.get("OPSTEP_TOKEN_FILE", "")), "made for this session only"


# ---- the doorbell --------------------------------------------------------------------------------


def test_the_doorbell_is_private_and_says_who_is_there(tmp_path: Path) -> None:
    with Script(tmp_path, "--threads", "1", XDG_RUNTIME_DIR=str(tmp_path)).ready() as script:
        folder = tmp_path / "opstep"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        bell = folder / str(script.pid)
        assert stat.S_ISSOCK(bell.stat().st_mode) and not bell.stat().st_mode & 0o077
        table = subprocess.run(
            [*OPSTEP, "ps"],
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert table.splitlines()[0].split() == ["PID", "POLICY", "ATTACHED", "COMMAND"]
        (row,) = [line for line in table.splitlines() if line.startswith(str(script.pid))]
        assert row.split()[1:3] == ["full", "no"] and "forever.py" in row and "--threads 1" in row
        listed = subprocess.run(
            [*OPSTEP, "ps", "--json"],
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        (found,) = [each for each in json.loads(listed) if each["pid"] == script.pid]
        assert (found["policy"], found["attached"]) == ("full", False)
        assert "--threads" in found["argv"] and "forever.py" in str(found["argv"])
        script.finish()
        assert not bell.exists()


def test_no_doorbell_when_it_is_not_wanted(tmp_path: Path) -> None:
    with Script(tmp_path, XDG_RUNTIME_DIR=str(tmp_path), OPSTEP_DOORBELL="0").ready():
        assert not (tmp_path / "opstep").exists()


def test_importing_opens_no_doorbell(tmp_path: Path) -> None:
    code = "import opstep, os; print(os.path.exists(os.environ['XDG_RUNTIME_DIR'] + '/opstep'))"
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done


def test_sockets_of_the_dead_are_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with Script(tmp_path).ready() as script:
        bell = tmp_path / "opstep" / str(script.pid)
        assert running(script.pid) is not None
        script.process.kill()
        script.process.wait()
        assert bell.exists()
        assert running(script.pid) is None
        assert not bell.exists()


@pytest.mark.parametrize("noise", [b"", b"who", b"open sesame\n", b"x" * 100_000, b"ring tcp:9\n"])
def test_a_caller_that_talks_nonsense_does_not_block_the_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: bytes
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with Script(tmp_path).ready() as script, socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(tmp_path / "opstep" / str(script.pid)))
        caller.sendall(noise[:60_000])
        assert wait_until(lambda: running(script.pid) is not None)
        assert "done" in script.finish()


def test_silent_callers_keep_nobody_from_the_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(doorbell, "SECONDS", SECONDS)
    with Script(tmp_path).ready() as script, contextlib.ExitStack() as callers:
        for _ in range(200):
            caller = callers.enter_context(socket.socket(socket.AF_UNIX))
            caller.connect(str(tmp_path / "opstep" / str(script.pid)))
        # One question, and not as often as it takes.
        assert running(script.pid) is not None
        assert "done" in script.finish()


def test_attach_again_right_after_the_end_of_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    async def again(pid: int) -> None:
        for _ in range(5):
            debugger = Debugger()
            await debugger.attach_pid(pid)
            await debugger.close()

    # One that has a server to dial keeps dialling it between its guests.
    for server in ({}, {"OPSTEP_SERVER": f"unix:{tmp_path}/nobody"}):
        with Script(tmp_path, **server).ready() as script:
            asyncio.run(again(script.pid))
            script.finish()


# ---- what a debugger may do ----------------------------------------------------------------------


def test_a_process_that_may_only_be_observed(tmp_path: Path) -> None:
    with Script(tmp_path, OPSTEP_POLICY="observe").ready() as script:
        with Session() as session:
            attach(session, {"pid": script.pid}, functions=TANH)
            body = session.stopped("function breakpoint")
            frame = session.top(body["threadId"])["id"]
            assert session.evaluate("X.shape", frame)["result"] == "[4]"
            setting = {"expression": "x", "value": "0", "frameId": frame}
            assert "policy observe" in session.fails("setExpression", setting).sentence
            assert "policy observe" in session.fails("terminate").sentence
            session.request("disconnect", {"terminateDebuggee": True})
        assert script.process.poll() is None
        assert "done" in script.finish()


def test_what_the_program_said_holds_for_those_who_ring(tmp_path: Path) -> None:
    script = tmp_path / "observed.py"
    script.write_text(
        "import runpy, opstep\n"
        "opstep.debug.connect('unix:/nowhere', policy='observe')\n"
        "opstep.debug.detach()\n"
        f"runpy.run_path({str(PROGRAMS / 'forever.py')!r})\n"
    )
    with Script(tmp_path, script=script).ready() as running, Session() as session:
        attach(session, {"pid": running.pid}, functions=TANH)
        frame = session.top(session.stopped("function breakpoint")["threadId"])["id"]
        setting = {"expression": "x", "value": "0", "frameId": frame}
        assert "policy observe" in session.fails("setExpression", setting).sentence
        session.request("disconnect")
        running.finish()


def test_a_process_that_may_only_be_logged(tmp_path: Path) -> None:
    with Script(tmp_path, OPSTEP_POLICY="log-only").ready() as script:
        with Session() as session:
            (breakpoint,) = attach(session, {"pid": script.pid}, functions=TANH, filters=["nan"])
            told = session.event("breakpoint", lambda body: "log-only" in str(body))
            assert told["breakpoint"]["id"] == breakpoint["id"]
            assert not told["breakpoint"]["verified"]
            assert wait_until(lambda: bool(session.request("threads")["threads"]))
            thread = session.request("threads")["threads"][0]["id"]
            assert "never stops" in session.fails("pause", {"threadId": thread}).sentence
            # A log message is allowed.
            path = PROGRAMS / "forever.py"
            line = {"line": line_of(path, "tanh"), "logMessage": "of shape {X.shape}"}
            source = {"source": {"path": str(path)}, "breakpoints": [line]}
            session.request("setBreakpoints", source)
            session.event("output", lambda body: "of shape [4]" in body["output"])
            session.no_event("stopped")
            session.request("disconnect")
        assert "done" in script.finish()


@pytest.mark.parametrize(
    ("at", "message", "why"),
    [
        ("sum", "{X.max()}", "does not let 'reduce_sum_0' be logged"),
        ("tanh", "{z}", "'z' is none of them"),
        ("tanh", "{X[0]}", "does not let parts of tensors be logged"),
    ],
)
def test_log_points_are_within_the_limits_of_taps(
    tmp_path: Path, at: str, message: str, why: str
) -> None:
    path = PROGRAMS / "forever.py"
    with Script(tmp_path, OPSTEP_POLICY="log-only", OPSTEP_TAP_ALLOW="tanh*").ready() as script:
        with Session() as session:
            attach(session, {"pid": script.pid})
            lines = [
                {"line": line_of(path, at), "logMessage": message},
                {"line": line_of(path, "tanh"), "logMessage": "most {out.max()}"},
            ]
            source = {"source": {"path": str(path)}, "breakpoints": lines}
            first, _ = session.request("setBreakpoints", source)["breakpoints"]
            if first.get("verified") or why not in first.get("message", ""):
                told = session.event("breakpoint", lambda body: why in str(body))
                first = told["breakpoint"]
            assert not first["verified"]
            session.event("output", lambda body: "most 0.7616" in body["output"])
            session.request("disconnect")
        assert "done" in script.finish()


# ---- the terminal --------------------------------------------------------------------------------


def opstep_attach(pid: int, *commands: str) -> subprocess.CompletedProcess[str]:
    words = [word for command in commands for word in ("-ex", command)]
    return subprocess.run(
        [*OPSTEP, "attach", "--batch", *words, str(pid)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def test_opstep_attach_debugs_and_leaves(tmp_path: Path) -> None:
    with Script(tmp_path).ready() as script:
        done = opstep_attach(
            script.pid, "break tanh", "continue", "print X.shape", "delete", "next", "info threads"
        )
        assert done.returncode == 0, done
        assert f"attached to process {script.pid}" in done.stdout
        assert "X.shape = [4]" in done.stdout
        assert running(script.pid) is not None and script.process.poll() is None
        assert "done" in script.finish()


def test_opstep_attach_knows_at_once_what_runs(tmp_path: Path) -> None:
    with Script(tmp_path).ready() as script:
        done = opstep_attach(script.pid, "info programs", "break tanh")
        assert done.returncode == 0, done
        assert f"process {script.pid}" in done.stdout.splitlines()[2]
        assert "pending" not in done.stdout and "lost" not in done.stdout
        assert "done" in script.finish()


def test_opstep_attach_to_nothing_says_so(bystander: int) -> None:
    done = opstep_attach(bystander, "pause")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("'opstep ps' lists those that do")


# ---- waiting for somebody ------------------------------------------------------------------------

WAITING = """
import sys
import opstep
assert not opstep.debug.wait_for_client(timeout=0.1)
print("first run", flush=True)
assert opstep.debug.wait_for_client()
print("somebody came", opstep.debug.attached(), flush=True)
opstep.debug.detach()
assert not opstep.debug.attached()
"""


def test_a_script_waits_until_somebody_comes(tmp_path: Path) -> None:
    path = tmp_path / "waiting.py"
    path.write_text(WAITING)
    with Script(tmp_path, script=path).ready() as script:
        with Session() as session:
            attach(session, {"pid": script.pid})
            session.event("terminated")
        assert "somebody came True" in script.finish()


def test_waiting_ends_with_ctrl_c(tmp_path: Path) -> None:
    path = tmp_path / "waiting.py"
    path.write_text(WAITING)
    with Script(tmp_path, script=path).ready() as script:
        script.process.send_signal(signal.SIGINT)
        output, _ = script.process.communicate(timeout=SECONDS)
        assert script.process.returncode == -signal.SIGINT and "KeyboardInterrupt" in output


# ---- children ------------------------------------------------------------------------------------

FORKING = """
import os, sys, time
import numpy as np
import opstep
from opstep import layers

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    y = layers.reduce_sum(layers.tanh(layers.data("x", shape=[4])))
exe = opstep.Executor()
feed = {"x": np.ones(4, np.float32)}
exe.run(main, feed=feed, fetch_list=[y])
pid = os.fork()
if pid == 0:
    until = sys.argv[2]
    assert not opstep.debug.attached() and not opstep.debug.wait_for_client(0.01)
    exe.run(main, feed=feed, fetch_list=[y])
    print("first run", os.getpid(), flush=True)
    while not os.path.exists(until):
        exe.run(main, feed=feed, fetch_list=[y])
        time.sleep(0.001)
    sys.exit(7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) - 7)
"""


def test_a_forked_child_has_its_own_doorbell_and_identity(tmp_path: Path) -> None:
    path = tmp_path / "forking.py"
    path.write_text(FORKING)

    async def identities(*pids: int) -> list[str]:
        found = []
        for pid in pids:
            debugger = Debugger()
            found.append((await debugger.attach_pid(pid)).hello.identity)
            await debugger.detach()
            await debugger.close()
        return found

    with Script(tmp_path, script=path) as script:
        child = int(script.prints("first run").split()[2])
        assert running(script.pid) is not None
        with Session() as session:
            attach(session, {"pid": child}, functions=TANH)
            session.stopped("function breakpoint")
            session.request("disconnect")
        one, two, three = asyncio.run(identities(script.pid, child, child))
        assert one != two and two == three
        script.finish()


def test_failures_carry_their_sentence() -> None:
    with Session() as session:
        session.initialize()
        session.request("configurationDone")
        with pytest.raises(Failure, match="cannot attach: "):
            session.request("attach", {"pid": 1 << 22})
