"""Values and variables of another program, under the terminal's debugger and through an adapter."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.dap_client import SECONDS, Session
from harness.markers import line_of

SENTENCE = {
    "two_models.py": "'fc_0.w' in this scope belongs to program 'first' (two_models.py:{made}), "
    "and program 'second_startup' (two_models.py:{made}) was built apart from it",
    "foreign_fetch.py": "it is a variable of program",
}
REFUSED = [("two_models.py", "compiled"), ("foreign_fetch.py", "compiled")]
REFUSED += [("foreign_fetch.py", "to_graph")]
# Where it is stopped on the way.
MADE = {
    ("two_models.py", "compiled"): "layer",
    ("foreign_fetch.py", "compiled"): "made",
    ("foreign_fetch.py", "to_graph"): "left",
}


def sentence(script: Path, mode: str) -> str:
    text = SENTENCE[script.name]
    if "{made}" in text:
        return text.format(made=line_of(script, MADE[script.name, mode]))
    return text


def check_refused(output: str, script: Path, mode: str) -> None:
    assert sentence(script, mode) in output, output
    # The last line of the user's code in Python's report is the one that is to be changed.
    lines = [int(n) for n in re.findall(rf'File "{re.escape(str(script))}", line (\d+)', output)]
    assert lines[-1] == line_of(script, "refused"), output
    assert "not reached" not in output and "other" not in output.split("Traceback")[0]


@pytest.mark.parametrize(("name", "mode"), REFUSED)
def test_it_is_refused_in_the_terminal(programs: Path, name: str, mode: str) -> None:
    script = programs / "names" / name
    line = line_of(script, MADE[name, mode])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "opstep_server",
            "debug",
            "--batch",
            "-ex",
            f"break {name}:{line}",
            "-ex",
            "run",
            "-ex",
            "delete",
            "-ex",
            "continue",
            str(script),
            mode,
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert len([one for one in done.stdout.splitlines() if one.startswith("stopped")]) == 1
    check_refused(done.stdout + done.stderr, script, mode)


@pytest.mark.parametrize(("name", "mode"), REFUSED)
def test_it_is_refused_through_an_adapter(programs: Path, name: str, mode: str) -> None:
    script = programs / "names" / name
    with Session() as session:
        line = line_of(script, MADE[name, mode])
        session.start(script, mode, lines={str(script): [{"line": line}]})
        stop = session.stopped("breakpoint")
        assert session.top(stop["threadId"])["line"] == line
        session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 1
        said = [m["body"] for m in session.history if m.get("event") == "output"]
        check_refused("".join(each["output"] for each in said), script, mode)


@pytest.mark.parametrize("mode", ["imperative", "to_graph"])
def test_two_layers_have_their_own_values(programs: Path, mode: str) -> None:
    script = programs / "names" / "two_models.py"
    with Session() as session:
        session.start(script, mode)
        assert session.ends() == 0
        assert "first model untouched: True" in session.output
