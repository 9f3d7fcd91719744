"""`opstep serve` and `opstep dap --listen`: real servers, many clients, many executors."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
from pathlib import Path

import pytest

from harness.dap_client import Failure, Session
from harness.markers import line_of
from harness.patience import SECONDS
from harness.processes import OPSTEP, PROGRAMS, Client, Script, Server, attach, wait_until

pytestmark = pytest.mark.e2e

TANH = [{"name": "tanh"}]
SUM = [{"name": "reduce_sum"}]


def serve(folder: Path, *words: str) -> Server:
    return Server("serve", *words, XDG_RUNTIME_DIR=str(folder))


# ---- opstep serve --------------------------------------------------------------------------------


def test_executors_and_clients_come_and_go(tmp_path: Path) -> None:
    with serve(tmp_path) as server, Script(tmp_path, OPSTEP_SERVER=server.executors) as script:
        script.ready()
        with Client(server.clients) as client:
            attach(client, {}, functions=TANH)
            thread = client.stopped("function breakpoint")["threadId"]
            assert client.evaluate("X.shape", client.top(thread)["id"])["result"] == "[4]"
            client.request("disconnect")
        # Nobody is there: it runs, and waits for nobody.
        with Client(server.clients) as client:
            attach(client, {}, functions=SUM)
            thread = client.stopped("function breakpoint")["threadId"]
            assert client.top(thread)["name"].startswith("reduce_sum")
            client.vanish()
        assert "done" in script.finish()


def test_each_client_has_breakpoints_of_its_own(tmp_path: Path) -> None:
    with serve(tmp_path) as server, Script(tmp_path, OPSTEP_SERVER=server.executors) as script:
        script.ready()
        with Client(server.clients) as one, Client(server.clients) as two:
            attach(one, {}, functions=TANH)
            (mine,) = attach(two, {}, functions=SUM)
            # Both see every stop; each knows only its own breakpoint.
            thread = two.event("stopped")["threadId"]
            one.event("stopped")
            while not two.top(thread)["name"].startswith("reduce_sum"):
                two.request("continue", {"threadId": thread})
                body = two.event("stopped")
                one.event("continued")
                one.event("stopped")
            assert mine["id"] in body["hitBreakpointIds"]
            two.request("disconnect")
            # What the other one set is gone with it: only tanh stops.
            one.request("continue", {"threadId": thread})
            for _ in range(3):
                one.event("stopped")
                assert one.top(thread)["name"].startswith("tanh")
                one.request("continue", {"threadId": thread})
            one.event("stopped")
            one.request("disconnect")
        assert "done" in script.finish()


def test_a_client_that_comes_later_sees_what_is_stopped(tmp_path: Path) -> None:
    with serve(tmp_path) as server, Script(tmp_path, OPSTEP_SERVER=server.executors) as script:
        script.ready()
        with Client(server.clients) as one:
            attach(one, {}, functions=TANH)
            thread = one.stopped("function breakpoint")["threadId"]
            with Client(server.clients) as two:
                attach(two, {})
                stop = two.stopped()
                assert stop["threadId"] == thread
                assert "hitBreakpointIds" not in stop, "it is the other one's breakpoint"
                assert two.top(thread)["name"].startswith("tanh")
                two.request("continue", {"threadId": thread})
                one.event("continued")
                two.request("disconnect")
            one.request("disconnect")
        assert "done" in script.finish()


def test_nobody_there_means_full_speed(tmp_path: Path) -> None:
    """The process knows of the server, and of nobody who uses it."""
    path = tmp_path / "asks.py"
    path.write_text(
        "import opstep, sys, time\n"
        "print('first run', opstep.debug.attached(), flush=True)\n"
        "print('came', opstep.debug.wait_for_client(600), flush=True)\n"
        "while opstep.debug.attached(): time.sleep(0.02)\n"
        "print('left', flush=True)\n"
        "print('again', opstep.debug.wait_for_client(600), flush=True)\n"
    )
    with (
        serve(tmp_path) as server,
        Script(tmp_path, script=path, OPSTEP_SERVER=server.executors) as script,
    ):
        assert "False" in script.prints("first run")
        for said in ("came True", "again True"):
            with Client(server.clients) as client:
                attach(client, {})
                script.prints(said)
                client.request("disconnect")
            if said == "came True":
                script.prints("left")
        script.finish()


def test_the_server_starts_nothing(tmp_path: Path) -> None:
    with serve(tmp_path) as server, Client(server.clients) as client:
        client.initialize()
        client.request("configurationDone")
        failure = client.fails("launch", {"program": str(PROGRAMS / "mlp.py")})
        assert "starts nothing" in failure.sentence
        assert "leave pid out" in client.fails("attach", {"pid": os.getpid()}).sentence


def test_two_servers_do_not_share_a_place(tmp_path: Path) -> None:
    with serve(tmp_path):
        second = subprocess.run(
            [*OPSTEP, "serve"],
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert second.returncode == 1
        assert "something else is listening" in second.stderr


def test_over_tcp_with_the_token(tmp_path: Path) -> None:
    with serve(tmp_path, "--listen", "127.0.0.1:0", "--dap", "127.0.0.1:0") as server:
        env = {"OPSTEP_SERVER": server.executors, "OPSTEP_TOKEN_FILE": server.token_file}
        with Script(tmp_path, **env) as script:
            script.ready()
            with Client(server.clients, server.token) as client:
                attach(client, {}, functions=TANH)
                client.stopped("function breakpoint")
                client.request("disconnect")
            assert "done" in script.finish()


# ---- an editor's own adapter, attached to the server ---------------------------------------------


@pytest.mark.parametrize("order", ["attach first", "configuration first"])
def test_an_adapter_passes_everything_on(tmp_path: Path, order: str) -> None:
    with serve(tmp_path) as server, Script(tmp_path, OPSTEP_SERVER=server.executors) as script:
        script.ready()
        where = {"connect": server.clients}
        with Session() as session:
            if order == "attach first":
                (breakpoint,) = attach(session, where, functions=TANH)
            else:
                session.initialize()
                body = session.request("setFunctionBreakpoints", {"breakpoints": TANH})
                (breakpoint,) = body["breakpoints"]
                session.request("configurationDone")
                session.request("attach", where)
            body = session.stopped("function breakpoint")
            assert body["hitBreakpointIds"] == [breakpoint["id"]]
            thread = body["threadId"]
            session.step("next", thread, "instruction")
            assert session.evaluate("X.shape", session.top(thread)["id"])["result"] == "[4]"
            line = line_of(PROGRAMS / "forever.py", "sum")
            lines = {"source": {"path": str(PROGRAMS / "forever.py")}}
            session.request("setBreakpoints", {**lines, "breakpoints": [{"line": line}]})
            session.request("setFunctionBreakpoints", {"breakpoints": []})
            session.request("continue", {"threadId": thread})
            session.stopped("breakpoint")
            session.request("disconnect")
        assert "done" in script.finish()


def test_an_adapter_passes_on_much_at_once_and_what_is_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "large.py"
    path.write_text(
        "import sys, pathlib, numpy as np, opstep\n"
        "from opstep import layers\n"
        "main = opstep.Program('main')\n"
        "with opstep.program_guard(main, opstep.Program('startup')):\n"
        "    z = layers.reduce_sum(layers.tanh(layers.data('x', shape=[2_000_000])))\n"
        "feed = {'x': np.ones(2_000_000, np.float32)}\n"
        "print('first run', flush=True)\n"
        "while not pathlib.Path(sys.argv[2]).exists():\n"
        "    opstep.Executor().run(main, feed=feed, fetch_list=[z])\n"
    )
    with (
        serve(tmp_path) as server,
        Script(tmp_path, script=path, OPSTEP_SERVER=server.executors) as script,
    ):
        script.ready()
        with Session() as session:
            session.initialize()
            # Requests have other numbers here than at the server.
            for _ in range(3):
                session.request("threads")
            session.request("setFunctionBreakpoints", {"breakpoints": SUM})
            session.request("configurationDone")
            session.request("attach", {"connect": server.clients})
            thread = session.stopped("function breakpoint")["threadId"]
            frame = session.top(thread)["id"]
            reference = session.evaluate("X", frame)["memoryReference"]
            wanted = {"memoryReference": reference, "count": 8_000_000}
            data = session.request("readMemory", wanted)["data"]
            assert len(base64.b64decode(data)) == 8_000_000
            # A process that stands still answers nothing.
            script.process.send_signal(signal.SIGSTOP)
            arguments = {"expression": "X.sum()", "frameId": frame, "context": "watch"}
            evaluation = session.send("evaluate", arguments)
            cancelled = session.send("cancel", {"requestId": evaluation})
            with pytest.raises(Failure, match="was cancelled"):
                session.response(evaluation)
            script.process.send_signal(signal.SIGCONT)
            session.response(cancelled)
            session.request("disconnect")
        script.finish()


def test_an_adapter_whose_server_dies_says_so(tmp_path: Path) -> None:
    with serve(tmp_path) as server, Session() as session:
        attach(session, {"connect": server.clients})
        server.process.kill()
        session.event("output", lambda body: "closed the connection" in body["output"])
        session.event("terminated")
        assert session.request("threads") == {"threads": []}


def test_an_adapter_with_the_wrong_token_is_turned_away(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("not-the-right-token\n")
    wrong.chmod(0o600)
    with serve(tmp_path, "--dap", "127.0.0.1:0") as server, Session() as session:
        session.initialize()
        session.request("configurationDone")
        where = {"connect": server.clients, "tokenFile": str(wrong)}
        assert "is the token right?" in session.fails("attach", where).sentence
        session.request("attach", {**where, "tokenFile": server.token_file})
        session.request("disconnect")


# ---- opstep dap --listen -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_client_after_client(tmp_path: Path, kind: str) -> None:
    address = "127.0.0.1:0" if kind == "tcp" else f"unix:{tmp_path}/dap"
    with Server("dap", "--listen", address) as server:
        token = server.token if kind == "tcp" else None
        for _ in range(2):
            with Client(server.clients, token) as client:
                client.start(PROGRAMS / "mlp.py", "--steps", "2")
                assert client.ends() == 0


def test_a_client_that_vanishes_takes_its_script_along(tmp_path: Path) -> None:
    with Server("dap", "--listen", f"unix:{tmp_path}/dap") as server:
        with Client(server.clients) as client:
            client.start(PROGRAMS / "mlp.py", "--steps", "1000000000000")
            pid = client.event("process")["systemProcessId"]
            client.vanish()
        assert wait_until(lambda: not Path(f"/proc/{pid}").exists())
