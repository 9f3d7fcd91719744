"""A real script that is launched as a module, in a terminal, and once more."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from harness.dap_client import Session
from harness.markers import line_of
from harness.patience import SECONDS

Json = dict[str, Any]


def test_a_restart_runs_the_script_anew(programs: Path) -> None:
    script = programs / "mlp.py"
    with Session() as session:
        lines = {str(script): [{"line": line_of(script, "hidden")}]}
        (answer,) = session.start(script, "--steps", "3", lines=lines)
        stop = session.stopped("breakpoint")
        session.request("continue", {"threadId": stop["threadId"]})
        stop = session.stopped("breakpoint")
        assert session.stack(stop["threadId"])[1]["name"] == "run 2 of main"
        session.request("restart")
        stop = session.stopped("breakpoint")
        assert stop["hitBreakpointIds"] == [answer["id"]]
        assert session.stack(stop["threadId"])[1]["name"] == "run 1 of main"
        launch = {"program": str(script), "args": ["--steps", "1"]}
        session.request("restart", {"arguments": launch})
        stop = session.stopped("breakpoint")
        session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 0
        assert session.count("process") == 3


def test_a_module_in_a_terminal(programs: Path, tmp_path: Path) -> None:
    script, log = programs / "mlp.py", tmp_path / "log"
    running: list[subprocess.Popen[bytes]] = []

    def terminal(arguments: Json) -> Json:
        env = {**os.environ, **arguments["env"]}
        with open(log, "wb") as out:
            running.append(
                subprocess.Popen(arguments["args"], cwd=arguments["cwd"], env=env, stdout=out)
            )
        return {"shellProcessId": running[0].pid}

    with Session() as session:
        session.answers["runInTerminal"] = terminal
        session.initialize()
        launch = {
            "module": "mlp",
            "cwd": str(script.parent),
            "args": ["--steps", "2"],
            "console": "integratedTerminal",
        }
        launched = session.send("launch", launch)
        source = {"path": str(script)}
        breakpoints = [{"line": line_of(script, "hidden"), "condition": "step == 2"}]
        session.request("setBreakpoints", {"source": source, "breakpoints": breakpoints})
        session.request("configurationDone")
        session.response(launched)
        stop = session.stopped("breakpoint")
        session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 0
    assert running[0].wait(SECONDS) == 0
    assert log.read_text().count("loss ") == 2
