"""Fuzz: every record of a tap is on disk or counted, with collectors and scripts that are killed.

PYTHONPATH=tests python -m fuzz.tap_kills --seconds 60 --seed 1
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.tap_programs import TAPPED, Command, counts, records, wait_until
from opstep_server.taps.log_files.tap_log import TapLog

TOML = """
[sinks.main]
kind = "jsonl"
path = "logs"
[[tap]]
name = "all"
ops = "*"
"""
SECONDS = 300.0


def one(folder: Path, kills: int, last: str, choose: random.Random) -> tuple[int, int]:
    """Records on disk and those that were counted as delivered. Raises AssertionError.

    So many collectors are killed; `last` says what becomes of the one after them: it ends in order,
    it is killed, or the script is.
    """
    (folder / "taps.toml").write_text(TOML)
    logs, until = folder / "logs", folder / "until"
    address = f"unix:{folder}/socket"
    words = ("collect", "--taps", "taps.toml", "--listen", address)
    env = {**os.environ, "OPSTEP_SERVER": address, "OPSTEP_WAIT": "100"}
    script: subprocess.Popen[bytes] | None = None
    before = 0
    try:
        for left in range(kills, -1, -1):
            with Command(*words, cwd=folder) as collector:
                collector.says("executors dial")
                if script is None:
                    script = subprocess.Popen(
                        [sys.executable, str(TAPPED), "1", str(until)],
                        cwd=folder, env=env, stdout=subprocess.DEVNULL,
                    )  # fmt: skip
                before = len(records(logs))
                wanted = before + choose.choice((1, 50, 500))
                assert wait_until(lambda wanted=wanted: len(records(logs)) >= wanted)
                if left or last == "collector":
                    collector.process.kill()
                    collector.process.wait()
                    continue
                if last == "script":
                    script.kill()
                    script.wait()
                    collector.end(signal.SIGTERM)
                    continue
                until.touch()
                assert script.wait(SECONDS) == 0
                settled = lambda: not any(each["waiting"] for each in counts(logs).values())  # noqa: E731
                assert wait_until(settled)
                collector.end(signal.SIGTERM)
        until.touch()
        assert script.wait(SECONDS) == (-signal.SIGKILL if last == "script" else 0)
    finally:
        if script is not None:
            script.kill()
            script.wait()
    return check(logs, last, before)


def check(logs: Path, last: str, before: int) -> tuple[int, int]:
    """`before`: how many there were when the last collector began."""
    written = len(records(logs))
    log = TapLog(logs)
    log.read_all()
    told = log.counts.total
    assert told.produced == told.delivered + told.waiting + sum(told.dropped.values()), told
    if last == "order":
        assert not log.counts.old
        for each in counts(logs).values():
            # What was written but not confirmed when a collector was killed is not delivered.
            assert each["delivered"] <= written <= each["delivered"] + each["unconfirmed"], each
    elif (logs / "counts.json").exists():
        # The log knows more than the counts that were left behind.
        assert told.delivered >= written - before, (told, written, before)
    return written, told.delivered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    choose = random.Random(options.seed)
    end = time.monotonic() + options.seconds
    runs = 0
    while time.monotonic() < end:
        kills, last = choose.randrange(4), choose.choice(("order", "collector", "script"))
        with tempfile.TemporaryDirectory() as folder:
            written, told = one(Path(folder), kills, last, choose)
        runs += 1
        print(f"{kills} collectors killed, then {last}: {written} on disk, {told} told", flush=True)
    print(f"{runs} runs, seed {options.seed}: nothing uncounted")


if __name__ == "__main__":
    main()
