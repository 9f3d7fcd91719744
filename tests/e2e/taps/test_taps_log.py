"""`opstep log` on running processes: set, list, change and remove taps, and what is counted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from harness.markers import line_of
from harness.patience import SECONDS
from harness.processes import OPSTEP, Script, Server, wait_until
from harness.tap_programs import Command, adds_up, counts, records

pytestmark = pytest.mark.e2e


def opstep(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*OPSTEP, *words], cwd=cwd, capture_output=True, text=True, timeout=SECONDS
    )


def test_records_are_printed_until_the_tap_ends(tmp_path: Path) -> None:
    with Script(tmp_path) as script:
        script.ready()
        said = opstep(
            "log", str(script.pid), "--every", "10", "tanh", "--stats", "--histogram", "4",
            "--count", "3", "--if", "out.max() > 0", cwd=tmp_path,
        )  # fmt: skip
        assert said.returncode == 0, said.stderr
        lines = said.stdout.splitlines()
        assert len(lines) == 3
        assert all(
            "tanh_0 → tanh_0.out  mean 0.7616 std 0 [0.7616, 0.7616]" in one for one in lines
        )
        steps = [int(one.split("run ")[1].split()[0]) for one in lines]
        assert all(step % 10 == 0 for step in steps)
        assert "opstep: tap tanh has ended: it has made its 3 records" in said.stderr
        assert said.stderr.splitlines()[-1].split() == ["tanh", "3", "3"]
        script.finish()


def test_to_a_directory_until_ctrl_c(tmp_path: Path) -> None:
    with Script(tmp_path) as script:
        script.ready()
        words = ("log", str(script.pid), "tanh", "reduce_sum", "--to", "logs", "--value", "out * 2")
        with Command(*words, cwd=tmp_path) as log:
            assert wait_until(lambda: len(records(tmp_path / "logs")) > 20)
            said = log.end()
        rows = [line.split() for line in said.splitlines()]
        assert rows[0] == ["tap", "produced", "delivered"]
        found = records(tmp_path / "logs")
        for name in ("tanh", "reduce_sum"):
            written = str(sum(one["tap"] == name for one in found))
            assert [name, written, written] in rows
        assert counts(tmp_path / "logs").keys() == {"tanh", "reduce_sum"}
        assert all(adds_up(one) for one in counts(tmp_path / "logs").values())
        assert {one["op"] for one in found} == {"tanh_0", "reduce_sum_0"}
        # Its taps are gone with it.
        listed = opstep("log", str(script.pid), "--list", cwd=tmp_path)
        assert len(listed.stdout.splitlines()) == 1
        script.finish()


def test_a_logger_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    with Script(tmp_path) as script:
        script.ready()
        with Command("log", str(script.pid), "tanh", "--to", "logs", cwd=tmp_path) as log:
            assert wait_until(lambda: len(records(tmp_path / "logs")) > 0)
            log.process.kill()
        listed = opstep("log", str(script.pid), "--list", cwd=tmp_path)
        assert listed.stdout.splitlines()[1:] == []
        script.finish()


def test_two_loggers_list_and_remove(tmp_path: Path) -> None:
    with Script(tmp_path) as script:
        script.ready()
        pid = str(script.pid)
        with Command("log", pid, "tanh", "--to", "one", "--name", "first", cwd=tmp_path) as one:
            assert wait_until(lambda: len(records(tmp_path / "one")) > 0)
            with Command("log", pid, "reduce_sum", "--to", "two", cwd=tmp_path) as two:
                assert wait_until(lambda: len(records(tmp_path / "two")) > 0)
                listed = opstep("log", pid, "--list", cwd=tmp_path).stdout.splitlines()
                assert listed[0].split()[:2] == ["NAME", "UID"]
                assert {line.split()[0] for line in listed[1:]} == {"first", "reduce_sum"}
                assert all(line.endswith("(opstep log)  on") for line in listed[1:])
                removed = opstep("log", pid, "--remove", "fir*", cwd=tmp_path)
                assert removed.stdout == "removed first\n"
                listed = opstep("log", pid, "--list", cwd=tmp_path).stdout.splitlines()
                assert [line.split()[0] for line in listed[1:]] == ["reduce_sum"]
                wrong = opstep("log", pid, "--remove", "nobody", cwd=tmp_path)
                assert wrong.stderr == "opstep: there is no tap nobody: there are reduce_sum\n"
                two.end()
            one.finish()  # It has no tap any more.
        taps = [one["tap"] for one in records(tmp_path / "two")]
        assert set(taps) == {"reduce_sum"}
        assert adds_up(counts(tmp_path / "two")["reduce_sum"])
        script.finish()


def test_through_a_server(tmp_path: Path) -> None:
    with (
        Server("serve", XDG_RUNTIME_DIR=str(tmp_path)) as server,
        Script(tmp_path, OPSTEP_SERVER=server.executors) as script,
    ):
        script.ready()
        words = ("log", server.executors, "tanh", "--to", "logs", "--full", "--stats")
        with Command(*words, cwd=tmp_path) as log:
            assert wait_until(lambda: len(records(tmp_path / "logs")) > 10)
            said = log.end()
        written = len(records(tmp_path / "logs"))
        assert said.splitlines()[-1].split() == ["tanh", f"{written:,}", f"{written:,}"]
        index = (tmp_path / "logs" / "tensors" / "index.jsonl").read_text().splitlines()
        late = re.search(
            r"sink \S*tensors: it was too slow to write the last ([\d,]+) records", said
        )
        lost = int(late[1].replace(",", "")) if late else 0
        assert written - lost <= len(index) <= written
        kept = opstep("log", server.executors, "tanh", "--keep", cwd=tmp_path)
        assert kept.stderr.startswith("opstep: --keep: ")
        script.finish()


def test_patterns_that_match_nothing_are_said_with_the_nearest(tmp_path: Path) -> None:
    with Script(tmp_path) as script:
        script.ready()
        with Command("log", str(script.pid), "tahn", cwd=tmp_path) as log:
            log.says("opstep: tap tahn: no op matches 'tahn'; nearest: tanh")
            said = log.end(signal.SIGTERM)
        assert said.splitlines()[-1].split() == ["tahn", "0", "0"]
        script.finish()


def test_what_is_wrong_is_said_however_short_it_was(tmp_path: Path) -> None:
    with Script(tmp_path) as script:
        script.ready()
        said = opstep("log", str(script.pid), "tahn", "--for", "300ms", cwd=tmp_path)
        assert "opstep: tap tahn: no op matches 'tahn'; nearest: tanh\n" in said.stderr
        script.finish()


def test_a_logger_whose_tap_is_removed_ends(tmp_path: Path) -> None:
    with Script(tmp_path) as script:
        script.ready()
        pid = str(script.pid)

        def remove(log: Command, name: str) -> None:
            assert opstep("log", pid, "--remove", name, cwd=tmp_path).returncode == 0
            log.says(f"opstep: tap {name} has ended: it was removed by ")
            assert log.process.wait(SECONDS) == 0
            counted = counts(tmp_path / name)[name]
            assert adds_up(counted)
            assert counted["delivered"] == len(records(tmp_path / name))

        with Command("log", pid, "tanh", "--to", "one", "--name", "one", cwd=tmp_path) as one:
            assert wait_until(lambda: len(records(tmp_path / "one")) > 0)
            # It goes through the first one.
            with Command("log", pid, "tanh", "--to", "two", "--name", "two", cwd=tmp_path) as two:
                assert wait_until(lambda: len(records(tmp_path / "two")) > 0)
                remove(two, "two")
            remove(one, "one")
        script.finish()


def test_the_file_is_followed(tmp_path: Path) -> None:
    text = '[sinks.main]\nkind = "jsonl"\npath = "logs"\n[[tap]]\nname = "t"\nops = "tanh"\n'
    (tmp_path / "taps.toml").write_text(text + "every = 5\n")

    def steps(name: str) -> list[int]:
        return [one["step"] for one in records(tmp_path / "logs") if one["tap"] == name]

    with Script(tmp_path) as script:
        script.ready()
        with Command("log", str(script.pid), "--taps", "taps.toml", cwd=tmp_path) as log:
            assert wait_until(lambda: len(steps("t")) > 3)
            (tmp_path / "taps.toml").write_text(text + "evry = 5\n")
            log.says(
                "taps.toml:7: 'evry' is not a key of a tap: did you mean 'every'?; the taps stay"
            )
            before = len(steps("t"))
            assert wait_until(lambda: len(steps("t")) > before + 3)
            assert all(step % 5 == 0 for step in steps("t"))
            (tmp_path / "taps.toml").write_text(text + 'every = 7\n[[tap]]\nops = "reduce*"\n')
            assert wait_until(lambda: len(steps("reduce*")) > 3)
            log.says("opstep: taps.toml has changed: 2 taps")
            log.end()
        assert any(step % 5 for step in steps("t"))
        assert all(step % 5 == 0 or step % 7 == 0 for step in steps("t"))
        assert all(adds_up(one) for one in counts(tmp_path / "logs").values())
        # It went on counting when it was changed.
        assert counts(tmp_path / "logs")["t"]["delivered"] == len(steps("t"))
        script.finish()


def test_a_process_that_ends(tmp_path: Path) -> None:
    with Script(tmp_path) as script:
        script.ready()
        with Command("log", str(script.pid), "tanh", "--to", "logs", cwd=tmp_path) as log:
            assert wait_until(lambda: len(records(tmp_path / "logs")) > 10)
            script.finish()
            said = log.finish()
        assert f"process {script.pid} has ended" in said
        (one,) = counts(tmp_path / "logs").values()
        assert adds_up(one)
        assert one["delivered"] == len(records(tmp_path / "logs")) == one["produced"]


def test_a_full_disk(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with Script(tmp_path) as script, open("/dev/full", "w") as full:
        script.ready()
        words = [*OPSTEP, "log", str(script.pid), "tanh", "--to", "-", "--for", "2s"]
        said = subprocess.run(
            words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS
        )
        assert said.returncode == 1 and "all records were lost" in said.stderr
        told = [line for line in said.stderr.splitlines() if "No space left on device" in line]
        assert len(told) == 1
        assert "records lost so far, trying on" in told[0]
        head, row = (line.split() for line in said.stderr.splitlines()[-3:-1])
        assert head == ["tap", "produced", "delivered", "sink"]
        assert (row[2], row[1]) == ("0", row[3])
        script.finish()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tanh", "--every", "0"], "--every: 0 is not a whole number from 1"),
        (
            ["tanh", "--to", "parkett:x"],
            "'parkett:x' is not a place for records: did you mean 'parquet'?",
        ),
        (["tanh", "relu", "--name", "x"], "--name: give one place, or no name"),
        ([], "which ops? say one of ops, line, variable, gradient_of, op, listing"),
        (["tanh", "--if", "out >"], "--if: 'out >' cannot be used: "),
        (["--taps", "none.toml"], "cannot read none.toml: No such file or directory"),
    ],
)
def test_wrong_words(words: list[str], sentence: str, tmp_path: Path) -> None:
    said = opstep("log", "1", *words, cwd=tmp_path)
    assert said.returncode == 2
    assert said.stderr.startswith(f"opstep: {sentence}")


def test_a_line_is_found_where_the_process_is(tmp_path: Path, programs: Path) -> None:
    with Script(tmp_path) as script:
        script.ready()
        line = line_of(programs / "forever.py", "tanh")
        place = f"{programs}/forever.py:{line}"
        said = opstep(
            "log", str(script.pid), "--line", place, "--count", "1", "--to", "-", cwd=tmp_path
        )
        assert json.loads(said.stdout)["op"] == "tanh_0"
        script.finish()


def test_samples_of_a_value_that_was_asked_for(tmp_path: Path) -> None:
    with Script(tmp_path) as script:
        script.ready()
        words = ("tanh", "--value", "out * 2", "--samples", "2", "--count", "1", "--to", "logs")
        said = opstep("log", str(script.pid), *words, cwd=tmp_path)
        assert said.returncode == 0, said.stderr
        (record,) = records(tmp_path / "logs")
        assert record["samples"]["values"] == pytest.approx([1.5231884] * 2)
        script.finish()
