"""Taps of a file for whole runs, and those that a program sets itself."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from harness.processes import PROGRAMS, Script, wait_until
from harness.tap_programs import TAPPED, Command, adds_up, counts, records, run

pytestmark = pytest.mark.e2e

TAPS_ITSELF = PROGRAMS / "taps" / "taps_itself.py"

TOML = """
[sinks.main]
kind = "jsonl"
path = "logs"
[[tap]]
name = "relu"
ops = "relu"
[[tap]]
name = "w"
gradient_of = "fc_0.w"
every = 10
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "taps.toml").write_text(TOML)
    return tmp_path


def check_logs(folder: Path, steps: int) -> None:
    found = records(folder / "logs")
    taps = [one["tap"] for one in found]
    assert (taps.count("relu"), taps.count("w")) == (steps, steps // 10)
    told = counts(folder / "logs")
    assert told["relu"]["delivered"] == told["relu"]["produced"] == steps
    assert all(adds_up(one) for one in told.values())


def test_run_with_taps(folder: Path) -> None:
    """Everything that a short run made is there when it has ended, from its first step on."""
    plain = run(str(TAPPED), "200", cwd=folder)
    said = run("-m", "opstep_server", "run", "--taps", "taps.toml", str(TAPPED), "200", cwd=folder)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout == plain.stdout
    check_logs(folder, 200)


def test_the_environment_names_the_file(folder: Path) -> None:
    said = run(str(TAPPED), "50", cwd=folder, OPSTEP_TAPS="taps.toml")
    assert (said.returncode, said.stderr) == (0, "")
    check_logs(folder, 50)


def test_a_saved_program_with_taps(folder: Path) -> None:
    script = (
        "import opstep\nfrom opstep import layers\n"
        "main = opstep.Program('main')\n"
        "with opstep.program_guard(main, opstep.Program('startup')):\n"
        "    layers.relu(layers.data('x', shape=[4]))\n"
        "main.save('main.opstep')\n"
    )
    assert run("-c", script, cwd=folder).returncode == 0
    words = ("run", "main.opstep", "--random", "--repeat", "20", "--taps", "taps.toml")
    said = run("-m", "opstep_server", *words, cwd=folder)
    assert said.returncode == 0, said.stderr
    assert [one["tap"] for one in records(folder / "logs")] == ["relu"] * 20
    assert "opstep: tap w: no op writes 'fc_0.w'" in said.stderr


def test_a_wrong_file_is_said_before_anything_runs(folder: Path) -> None:
    (folder / "taps.toml").write_text(TOML.replace("every", "evry"))
    sentence = "opstep: taps.toml:11: 'evry' is not a key of a tap: did you mean 'every'?\n"
    said = run("-m", "opstep_server", "run", "--taps", "taps.toml", str(TAPPED), cwd=folder)
    assert (said.returncode, said.stdout, said.stderr) == (2, "", sentence)
    said = run("-m", "opstep_server", "collect", "--check", "--taps", "taps.toml", cwd=folder)
    assert (said.returncode, said.stderr) == (2, sentence)
    # Where nobody asked for it on the command line, the run comes first.
    said = run(str(TAPPED), "5", cwd=folder, OPSTEP_TAPS="taps.toml")
    assert said.returncode == 0
    assert said.stdout.startswith("done 5 ")
    assert said.stderr.startswith(sentence)
    assert "opstep: running without taps: " in said.stderr


def test_what_matches_nothing_is_said_at_the_end_of_a_short_run(folder: Path) -> None:
    (folder / "taps.toml").write_text(TOML.replace('ops = "relu"', 'ops = "rleu"'))
    said = run(str(TAPPED), "5", cwd=folder, OPSTEP_TAPS="taps.toml")
    assert "opstep: tap relu: no op matches 'rleu'" in said.stderr


def test_a_collector_that_is_killed_and_restarted(folder: Path) -> None:
    (folder / "taps.toml").write_text(
        TOML.replace('"relu"', '"tanh"').replace('gradient_of = "fc_0.w"', 'ops = "reduce_sum"')
    )
    address = f"unix:{folder}/socket"
    words = ("collect", "--taps", "taps.toml", "--listen", address)
    with Command(*words, cwd=folder) as first, Script(folder, OPSTEP_SERVER=address) as script:
        first.says("executors dial")
        script.ready()
        assert wait_until(lambda: len(records(folder / "logs")) > 100)
        first.process.kill()
        first.process.wait()
        between = len(records(folder / "logs"))
        with Command(*words, cwd=folder) as second:
            assert wait_until(lambda: len(records(folder / "logs")) > between + 100)
            assert "done" in script.finish()
            assert wait_until(
                lambda: not any(one["waiting"] for one in counts(folder / "logs").values())
            )
            second.end(signal.SIGTERM)
        written = [one["tap"] for one in records(folder / "logs")]
        for name, one in counts(folder / "logs").items():
            assert adds_up(one)
            # It is the same tap to the executor, which counts from its beginning; what was written
            # but not confirmed when the collector was killed is not delivered.
            assert one["delivered"] <= written.count(name)
            assert written.count(name) <= one["delivered"] + one["unconfirmed"]


def test_two_processes_of_one_collector(folder: Path) -> None:
    address = f"unix:{folder}/socket"
    with Command("collect", "--taps", "taps.toml", "--listen", address, cwd=folder) as collector:
        collector.says("executors dial")
        for _ in range(2):
            said = run(str(TAPPED), "30", cwd=folder, OPSTEP_SERVER=address, OPSTEP_WAIT="100")
            assert said.returncode == 0, said.stderr
        collector.end(signal.SIGTERM)
    check_logs(folder, 60)
    assert len({one["process"] for one in records(folder / "logs")}) == 2


def test_children_of_the_script_log_to_the_same_place(folder: Path) -> None:
    (folder / "parent.py").write_text(
        "import subprocess, sys, opstep\n"
        f"subprocess.run([sys.executable, {str(TAPPED)!r}, '30'], check=True)\n"
    )
    said = run("parent.py", cwd=folder, OPSTEP_TAPS="taps.toml", OPSTEP_WAIT="100")
    assert (said.returncode, said.stderr) == (0, "")
    check_logs(folder, 30)
    assert len(list((folder / "logs").glob("records-*"))) == 1


def test_a_script_that_dies_leaves_no_collector(folder: Path) -> None:
    (folder / "dies.py").write_text(
        f"import os, runpy, sys, opstep\nfrom opstep.debug import collector_process\n"
        f"sys.argv = ['x', '100']\nrunpy.run_path({str(TAPPED)!r})\n"
        "import time\n"
        "while not any(one['counts']['delivered'] for one in opstep._core.debug_taps()):\n"
        "    time.sleep(0.01)\n"
        "print(collector_process._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    said = run("dies.py", cwd=folder, OPSTEP_TAPS="taps.toml")
    assert said.returncode == -signal.SIGKILL
    pid = int(said.stdout.split()[-1])

    def gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]

    assert wait_until(gone)
    assert len(records(folder / "logs")) > 0


def test_a_program_taps_itself(tmp_path: Path) -> None:
    said = run(str(TAPS_ITSELF), "logs", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    told = json.loads(said.stdout.splitlines()[-1])
    assert (told["first"]["produced"], told["first"]["delivered"]) == (100, 100)
    assert (told["ops"], told["message"]) == (1, "")
    assert (told["changed"]["produced"], told["changed"]["delivered"]) == (110, 110)
    assert (told["other"]["delivered"], told["ended"]) == (3, "it has made its 3 records")
    gone, key, nowhere, strange = told["errors"]
    assert gone == "there is no tap 'mine' any more"
    assert key == "'evry' is not a key of a tap: did you mean 'every'?"
    assert nowhere.startswith("say where to: to=")
    assert strange.startswith("a tap cannot have these keys: ")
    found = records(tmp_path / "logs")
    assert [one["tap"] for one in found].count("mine") == 111
    assert ["histogram" in one for one in found if one["tap"] == "mine"].count(True) == 11


def test_a_program_taps_itself_under_a_collector(folder: Path) -> None:
    said = run(str(TAPS_ITSELF), "main", cwd=folder, OPSTEP_TAPS="taps.toml")
    assert said.returncode == 0, said.stderr
    assert [one["tap"] for one in records(folder / "logs")].count("mine") == 111


REMOVED = """\
import numpy as np, opstep
from opstep import layers
main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    y = layers.relu(layers.data("x", shape=[4]))
exe = opstep.Executor()
tap = opstep.debug.tap("relu", to="logs")
for _ in range(2000):
    exe.run(main, feed={"x": np.ones(4, np.float32)}, fetch_list=[y])
tap.remove()
"""


def test_what_is_on_the_way_when_a_tap_is_removed_still_comes(tmp_path: Path) -> None:
    (tmp_path / "removed.py").write_text(REMOVED)
    said = run("removed.py", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    (counts,) = json.loads((tmp_path / "logs" / "counts.json").read_text())["taps"].values()
    assert (counts["produced"], counts["delivered"], counts["waiting"]) == (2000, 2000, 0)
    assert len(records(tmp_path / "logs")) == 2000
