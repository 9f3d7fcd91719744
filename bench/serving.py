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
from load import Client  # noqa: E402

ROUNDS, REQUESTS = 80, 800
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


def _ask(client: Client, answers: set[int]) -> list[float]:
    for _ in range(50):
        client.ask(0)
    times = []
    for request in range(REQUESTS):
        answer, took = client.ask(request)
        times.append(took)
        answers.add(hash((request, answer)))
    return times


def rows() -> list[Row]:
    times: dict[bool, list[list[float]]] = {False: [], True: []}
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
            for number in range(ROUNDS):
                # Each is first in half of the rounds.
                for on in (False, True) if number % 2 else (True, False):
                    _set(file, on)
                    times[on].append(_ask(client, answers[on]))
        finally:
            for process in (log, server):
                process.send_signal(signal.SIGINT)
                process.wait(20)
        written = sum(1 for part in (folder / "log").glob("records-*") for _ in part.open())
    assert answers[False] == answers[True], "taps changed an answer"
    assert written > ROUNDS * REQUESTS / 10, "nothing was logged"
    rows = []
    for percent in (50, 99):
        plain, tapped = (np.percentile(times[on], percent, axis=1) * 1e3 for on in (False, True))
        # The two figures of a round belong together: the machine may be faster in the next round.
        ratios = tapped / plain
        ratio = float(np.median(ratios))
        # The uncertainty: the middle half of the medians of resampled rounds.
        drawn = np.median(np.random.default_rng(0).choice(ratios, (2000, len(ratios))), axis=1)
        low, high = np.quantile(drawn, (0.25, 0.75))
        met = ratio <= BAR if percent == 99 else None
        bar = f"<= {BAR:g}x" if percent == 99 else ""
        name = f"request under taps, p{percent} (ratio {low:.2f} to {high:.2f})"
        ours, theirs = float(np.median(tapped)), float(np.median(plain))
        rows.append(Row(name, ours, "ms", "without", theirs, ratio, bar, met))
    return rows
