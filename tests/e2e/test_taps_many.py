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
from pathlib import Path

import pytest
from patience import SECONDS
from remote import OPSTEP, wait_until
from tap_logs import TAPPED, adds_up, counts, run

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

# 25 records a step.
STEPS = 400_000
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


def train(folder: Path, address: str) -> subprocess.CompletedProcess[str]:
    # A few steps first, so that everything that comes only once is there.
    queue = str(CAP)
    env = {"OPSTEP_SERVER": address, "OPSTEP_WAIT": "100", "OPSTEP_TAP_QUEUE": queue}
    return run(str(TAPPED), str(STEPS), cwd=folder, **env)


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
    found = check(tmp_path, lambda delivered: delivered > 100_000)
    assert found["sink"] == 0


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
            end = time.monotonic() + 3
            while time.monotonic() < end:
                lines += os.read(process.stdout.fileno(), 1 << 14).count(b"\n")
                time.sleep(0.02)

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

        growth = warm(tmp_path, address, process)
        remover = threading.Thread(target=remove)
        remover.start()
        said = train(tmp_path, address)
        ended.set()
        remover.join()
        assert said.returncode == 0
        assert growth.end() <= CAP + ROOM
        assert wait_until(lambda: "all" in counts(tmp_path / "logs"))
        tell_counts(tmp_path, process)
    found = check(tmp_path, lambda delivered: delivered > 10_000)
    assert found["sink"] > 0


def test_a_collector_that_is_killed_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "taps.toml").write_text(TOML)
    address = f"unix:{tmp_path}/socket"
    env = {**os.environ, "OPSTEP_SERVER": address, "OPSTEP_WAIT": "100"}
    with collector(tmp_path) as (_, first):
        script = subprocess.Popen([sys.executable, str(TAPPED), str(STEPS)], cwd=tmp_path, env=env)
        assert wait_until(lambda: counts(tmp_path / "logs").get("all", {}).get("delivered", 0) > 0)
        first.kill()
        first.wait()
        time.sleep(0.5)
    with collector(tmp_path) as (_, second):
        assert script.wait(300) == 0
        assert wait_until(lambda: counts(tmp_path / "logs")["all"]["waiting"] == 0)
        tell_counts(tmp_path, second)
    found = check(tmp_path, lambda delivered: delivered > 10_000)
    assert found["disconnected"] > 0
