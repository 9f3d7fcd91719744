"""Millions of records, with sinks that are fast, slow, stuck and failing: each is counted once."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.patience import SECONDS, wait_until_computing
from harness.processes import OPSTEP, wait_until
from harness.tap_programs import TAPPED, adds_up, counts, run

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

# 25 records a step.
STEPS = 100_000
CAP = 8 << 20
ROOM = 16 << 20
TOML = f"""
[sinks.main]
kind = "jsonl"
path = "logs"
rotate_bytes = "20MB"
keep = 2
[[tap]]
name = "all"
ops = "*"
[limits]
memory = {CAP}
"""


def resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


class Growth:
    """How much memory a process takes at most beyond what it had at the first look."""

    def __init__(self, pid: int) -> None:
        self._first = resident(pid)
        self.most = 0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.wait(0.05):
            with contextlib.suppress(OSError):
                self.most = max(self.most, resident(self._pid) - self._first)

    def end(self) -> int:
        self._ended.set()
        self._thread.join()
        return self.most


@contextlib.contextmanager
def collector(folder: Path, **streams: object) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    address = f"unix:{folder}/socket"
    words = [*OPSTEP, "collect", "--taps", "taps.toml", "--listen", address]
    process = subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, **streams)  # type: ignore[call-overload]
    assert process.stderr is not None
    assert b"executors dial" in process.stderr.readline()
    try:
        yield address, process
    finally:
        process.terminate()
        process.wait(SECONDS)
        process.stderr.close()


def train(
    folder: Path, address: str, seen: Callable[[], object] | None = None
) -> subprocess.CompletedProcess[str]:
    """All steps, and on until that is seen."""
    queue = str(CAP)
    env = {"OPSTEP_SERVER": address, "OPSTEP_WAIT": "100", "OPSTEP_TAP_QUEUE": queue}
    if seen is None:
        return run(str(TAPPED), str(STEPS), cwd=folder, **env)
    until = folder / "until"
    with ThreadPoolExecutor(1) as other:
        running = other.submit(run, str(TAPPED), str(STEPS), str(until), cwd=folder, **env)
        wait_until(lambda: running.done() or seen())
        until.touch()
        return running.result()


def warm(folder: Path, address: str, process: subprocess.Popen[bytes]) -> Growth:
    """From here on: all that comes only once, such as modules that sinks load, is there."""
    run(str(TAPPED), "2000", cwd=folder, OPSTEP_SERVER=address, OPSTEP_WAIT="100")
    wait_until(lambda: "all" in counts(folder / "logs"))
    return Growth(process.pid)


def check(folder: Path, delivered: Callable[[int], bool]) -> dict[str, int]:
    found = json.loads((folder / "told.json").read_text())
    assert found["produced"] >= 25 * STEPS
    assert adds_up(found)
    assert found["waiting"] == 0
    assert delivered(found["delivered"]), found
    return dict(found)


def tell_counts(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """What the collector was last told of the tap, which it writes beside its files."""

    def all_told() -> bool:
        told = counts(folder / "logs").get("all", {"produced": 0, "waiting": 0})
        return told["produced"] >= 25 * STEPS and told["waiting"] == 0

    assert wait_until(all_told)
    process.terminate()
    process.wait(SECONDS)
    told = counts(folder / "logs") or counts(folder)
    (folder / "told.json").write_text(json.dumps(told["all"]))


def test_a_fast_sink(tmp_path: Path) -> None:
    (tmp_path / "taps.toml").write_text(TOML)
    with collector(tmp_path) as (address, process):
        growth = warm(tmp_path, address, process)
        assert train(tmp_path, address).returncode == 0
        assert growth.end() <= CAP + ROOM
        tell_counts(tmp_path, process)
    check(tmp_path, lambda delivered: delivered > 10_000)


def test_a_slow_and_then_stuck_reader(tmp_path: Path) -> None:
    """The sink's thread hangs in a write; neither the run nor the answers wait for it."""
    text = TOML.replace('path = "logs"', 'path = "-"').replace('"*"', '"*"\nto = ["main"]')
    # Only for the counts.
    (tmp_path / "taps.toml").write_text(text + '[sinks.other]\nkind = "jsonl"\npath = "logs"\n')
    with collector(tmp_path, stdout=subprocess.PIPE) as (address, process):
        assert process.stdout is not None
        lines = 0

        def slowly() -> None:
            nonlocal lines
            while lines < 20_000:
                lines += os.read(process.stdout.fileno(), 1 << 14).count(b"\n")
                time.sleep(0.001)

        reader = threading.Thread(target=slowly)
        reader.start()
        growth = warm(tmp_path, address, process)
        assert train(tmp_path, address).returncode == 0
        assert growth.end() <= CAP + ROOM
        reader.join()
        tell_counts(tmp_path, process)
        process.stdout.close()
    found = check(tmp_path, lambda delivered: delivered > 0)
    assert found["sink"] > 0
    # What counts as delivered went through the pipe, or is in it.
    assert found["delivered"] <= lines + 10_000


def test_a_directory_that_vanishes_again_and_again(tmp_path: Path) -> None:
    (tmp_path / "taps.toml").write_text(TOML)
    with collector(tmp_path) as (address, process):
        ended = threading.Event()

        def remove() -> None:
            while not ended.wait(0.3):
                shutil.rmtree(tmp_path / "logs", ignore_errors=True)

        def lost() -> int:
            return counts(tmp_path / "logs").get("all", {}).get("sink", 0)

        growth = warm(tmp_path, address, process)
        remover = threading.Thread(target=remove)
        remover.start()
        said = train(tmp_path, address, lost)
        ended.set()
        remover.join()
        assert said.returncode == 0
        assert growth.end() <= CAP + ROOM
        tell_counts(tmp_path, process)
    found = check(tmp_path, lambda delivered: delivered > 10_000)
    assert found["sink"] > 0


def test_a_collector_that_is_killed_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "taps.toml").write_text(TOML)
    address = f"unix:{tmp_path}/socket"
    settings = {"OPSTEP_SERVER": address, "OPSTEP_WAIT": "100", "OPSTEP_TAP_QUEUE": "1MB"}
    env = {**os.environ, **settings}
    until = tmp_path / "until"
    with collector(tmp_path) as (_, first):
        command = [sys.executable, str(TAPPED), str(STEPS), str(until)]
        script = subprocess.Popen(command, cwd=tmp_path, env=env)
        assert wait_until(lambda: counts(tmp_path / "logs").get("all", {}).get("delivered", 0) > 0)
        first.kill()
        first.wait()
        # So much that a queue without a server is full.
        wait_until_computing(script.pid, 1.0)
    with collector(tmp_path) as (_, second):
        # It has dialled the second one, and told it what was dropped without one.
        assert wait_until(lambda: counts(tmp_path / "logs").get("all", {}).get("disconnected", 0))
        until.touch()
        assert script.wait(SECONDS * 4) == 0
        tell_counts(tmp_path, second)
    found = check(tmp_path, lambda delivered: delivered > 10_000)
    assert found["disconnected"] > 0
