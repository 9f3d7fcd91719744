"""Where a program runs: as a module, in the client's terminal, once more."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.dap_client import Failure, Session
from harness.markers import line_of
from harness.patience import SECONDS

Json = dict[str, Any]


class Terminal:
    """What the client runs commands in."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.asked: list[Json] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    def __call__(self, arguments: Json) -> Json:
        self.asked.append(arguments)
        env = dict(os.environ)
        for name, value in arguments["env"].items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = value
        with open(self._log, "ab") as log:
            process = subprocess.Popen(
                arguments["args"], cwd=arguments["cwd"], env=env, stdout=log, stderr=log
            )
        self.processes.append(process)
        return {"shellProcessId": process.pid}

    @property
    def text(self) -> str:
        return self._log.read_text()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path / "terminal.log")
    yield made
    for process in made.processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize("console", ["integratedTerminal", "externalTerminal"])
def test_a_program_in_the_clients_terminal(script: Path, terminal: Terminal, console: str) -> None:
    with Session() as session:
        session.answers["runInTerminal"] = terminal
        session.start(
            script,
            "--exit",
            "5",
            console=console,
            functions=[{"name": "log"}],
            env={"GREETING": "there", "HOME": None},
        )
        (asked,) = terminal.asked
        assert asked["kind"] == console.removesuffix("Terminal")
        assert asked["env"]["HOME"] is None
        stop = session.stopped("function breakpoint")
        session.request("setFunctionBreakpoints", {"breakpoints": []})
        session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 5
        assert session.output == ""
    assert terminal.text == "hello from the script there\nall runs done\n"
    assert terminal.processes[0].wait(SECONDS) == 5


def test_a_program_in_a_terminal_is_terminated(script: Path, terminal: Terminal) -> None:
    with Session() as session:
        session.answers["runInTerminal"] = terminal
        session.start(
            script, "--runs", "100000", "--pause-each", "0.01", console="integratedTerminal"
        )
        pid = session.event("process")["systemProcessId"]
        assert pid != terminal.processes[0].pid
        session.event("thread")
        session.request("terminate")
        assert session.ends() == -signal.SIGTERM
    assert terminal.processes[0].wait(SECONDS) == 128 + signal.SIGTERM


@pytest.mark.parametrize("keep", [False, True])
def test_an_adapter_that_is_killed_ends_what_it_had_run_in_a_terminal(
    script: Path, terminal: Terminal, keep: bool
) -> None:
    runs = "50" if keep else "100000"
    with Session(exit_code=-signal.SIGKILL) as session:
        session.answers["runInTerminal"] = terminal
        session.start(
            script, "--runs", runs, "--pause-each", "0.01",
            console="integratedTerminal", keepRunning=keep,
        )  # fmt: skip
        session.event("thread")
        session.process.kill()
        session.wait_for_end()
    assert terminal.processes[0].wait(SECONDS) == (0 if keep else 128 + signal.SIGTERM)


@pytest.mark.parametrize("how", ["vanish", "disconnect", "let go"])
def test_a_client_that_leaves_a_program_in_its_terminal(
    script: Path, terminal: Terminal, how: str, tmp_path: Path
) -> None:
    until = tmp_path / "until"
    with Session() as session:
        session.answers["runInTerminal"] = terminal
        words = ("--until", str(until), "--pause-each", "0.01")
        session.start(script, *words, console="integratedTerminal")
        session.event("thread")
        if how == "vanish":
            session.vanish()
        else:
            session.request("disconnect", {"terminateDebuggee": how == "disconnect"})
        assert session.wait_for_end() == 0
    if how == "let go":
        until.touch()
    code = terminal.processes[0].wait(SECONDS)
    assert code == (0 if how == "let go" else 128 + signal.SIGTERM)


def test_a_terminal_that_is_closed_is_the_end(script: Path, terminal: Terminal) -> None:
    with Session() as session:
        session.answers["runInTerminal"] = terminal
        session.start(
            script, "--runs", "100000", "--pause-each", "0.01", console="integratedTerminal"
        )
        pid = session.event("process")["systemProcessId"]
        session.event("thread")
        terminal.processes[0].send_signal(signal.SIGHUP)
        os.kill(pid, signal.SIGHUP)
        assert session.ends() == -signal.SIGHUP


def test_a_terminal_that_never_answers_can_be_given_up(script: Path) -> None:
    with Session() as session:
        asked = threading.Event()
        session._answer = lambda request: asked.set()  # type: ignore[method-assign]
        session.initialize()
        launch = session.send("launch", {"program": str(script), "console": "integratedTerminal"})
        session.request("configurationDone")
        while not asked.is_set():
            session.request("threads")
        session.request("terminate")
        with pytest.raises(Failure, match="launch was cancelled"):
            session.response(launch)
        session.event("terminated")


def test_a_launch_that_waits_for_its_configuration_can_be_given_up(script: Path) -> None:
    with Session() as session:
        session.initialize()
        launch = session.send("launch", {"program": str(script)})
        session.request("terminate")
        with pytest.raises(Failure, match="launch was cancelled"):
            session.response(launch)
        session.event("terminated")


def test_a_client_whose_terminal_fails_can_launch_again(script: Path, terminal: Terminal) -> None:
    def refuse(arguments: Json) -> Json:
        raise RuntimeError("no terminal today")

    with Session() as session:
        session.answers["runInTerminal"] = refuse
        session.initialize()
        session.request("configurationDone")
        launch = {"program": str(script), "console": "integratedTerminal"}
        failure = session.fails("launch", launch)
        assert failure.sentence == (
            "cannot launch: the editor could not run the program in a terminal: no terminal today"
        )
        session.answers["runInTerminal"] = terminal
        failure = session.fails("launch", {**launch, "python": "/nowhere/python"})
        assert failure.sentence == "cannot start /nowhere/python: No such file or directory"
        session.request("launch", launch)
        assert session.ends() == 0


def test_a_client_without_a_terminal_is_told(script: Path) -> None:
    with Session() as session:
        session.initialize(supportsRunInTerminalRequest=False)
        session.request("configurationDone")
        launch = {"program": str(script), "console": "integratedTerminal"}
        assert "use 'internalConsole'" in session.fails("launch", launch).sentence


def test_a_module_is_launched(script: Path) -> None:
    with Session() as session:
        session.initialize()
        session.request("configurationDone")
        launch = {"module": script.stem, "cwd": str(script.parent), "args": ["--exit", "4"]}
        failure = session.fails("launch", {**launch, "program": str(script)})
        assert "either a program or a module" in failure.sentence
        session.request("launch", launch)
        assert session.ends() == 4


def test_a_restart_keeps_breakpoints_and_takes_new_arguments(script: Path) -> None:
    line = line_of(script, "matmul")
    with Session() as session:
        (answer,) = session.start(script, lines={str(script): [{"line": line}]}, stopOnEntry=True)
        first = session.event("process")["systemProcessId"]
        stop = session.stopped("breakpoint")
        assert stop["hitBreakpointIds"] == [answer["id"]]
        session.request("restart")
        second = session.event("process")["systemProcessId"]
        assert second != first
        stop = session.stopped("breakpoint")
        assert stop["hitBreakpointIds"] == [answer["id"]]
        launch = {"program": str(script), "args": ["--exit", "9", "--runs", "1"]}
        session.request("restart", {"arguments": launch})
        stop = session.stopped("breakpoint")
        session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 9
        assert session.count("process") == 3
        assert "no running program" in session.fails("restart").sentence


def test_a_restart_of_a_running_program(script: Path) -> None:
    with Session() as session:
        session.start(script, "--runs", "100000", "--pause-each", "0.01")
        session.event("thread")
        session.request("restart", {"arguments": {"program": str(script), "noDebug": True}})
        assert session.ends() == 0


def test_a_restart_that_fails_is_the_end(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        session.stopped("entry")
        wrong = {"program": str(script), "python": "/nowhere/python"}
        assert "cannot start" in session.fails("restart", {"arguments": wrong}).sentence
        session.event("terminated")


def test_a_second_terminate_kills_what_ignores_the_first(tmp_path: Path) -> None:
    script = tmp_path / "stubborn.py"
    script.write_text(
        "import signal, time\n"
        'signal.signal(signal.SIGTERM, lambda *_: print("not yet", flush=True))\n'
        'print("ready", flush=True)\n'
        "while True: time.sleep(0.01)\n"
    )
    with Session() as session:
        session.start(script)
        session.event("output", lambda body: "ready" in body["output"])
        session.request("terminate")
        session.event("output", lambda body: "not yet" in body["output"])
        session.no_event("exited")
        session.request("terminate")
        assert session.ends() == -signal.SIGKILL
