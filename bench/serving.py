"""Latencies of examples/serve_and_log under load, in turns without taps and with them.

Three processes: the server, this one that asks it, and `opstep log`, which writes JSON lines of
statistics of all ops of every tenth request.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from table import Row

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "serve_and_log"
sys.path.insert(0, str(EXAMPLE))

ROUNDS, REQUESTS = 20, 400
BAR = 1.02
TAPS = """
[sinks.files]
kind = "jsonl"
path = "log"
[[tap]]
name = "all"
ops = "*"
every = 10
enabled = {}
"""


def _set(file: Path, on: bool) -> None:
    new = file.with_suffix(".new")
    new.write_text(TAPS.format("true" if on else "false"))
    os.replace(new, file)
    time.sleep(1.2)  # it looks twice a second


def rows() -> list[Row]:
    from load import Client

    times: dict[bool, list[float]] = {False: [], True: []}
    answers: dict[bool, set[int]] = {False: set(), True: set()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = subprocess.Popen(
            [sys.executable, str(EXAMPLE / "server.py")], stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        client = Client(server.stdout.readline().split()[-1])
        file = folder / "taps.toml"
        _set(file, False)
        log = subprocess.Popen(
            [sys.executable, "-m", "opstep_server", "log", str(server.pid), "--taps", str(file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            time.sleep(3)
            for number in range(2 * ROUNDS):
                on = number % 2 == 1
                _set(file, on)
                for _ in range(50):
                    client.ask(0)
                for request in range(REQUESTS):
                    answer, took = client.ask(request)
                    times[on].append(took)
                    answers[on].add(hash((request, answer)))
        finally:
            for process in (log, server):
                process.send_signal(signal.SIGINT)
                process.wait(20)
        written = sum(1 for part in (folder / "log").glob("records-*") for _ in part.open())
    assert answers[False] == answers[True], "taps changed an answer"
    assert written > ROUNDS * REQUESTS / 10, "nothing was logged"
    rows = []
    for percent in (50, 99):
        plain, tapped = (float(np.percentile(times[on], percent)) * 1e3 for on in (False, True))
        ratio = tapped / plain
        met = ratio <= BAR if percent == 99 else None
        bar = f"<= {BAR:g}x" if percent == 99 else ""
        rows.append(
            Row(f"request under taps, p{percent}", tapped, "ms", "without", plain, ratio, bar, met)
        )
    return rows
