"""The rows of the benchmark: measured, printed as a table, written to build/bench.json."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One comparison. `ratio` is how many times better than the peer we are; more is better."""

    name: str
    ours: float
    unit: str
    peer: str = ""
    peer_value: float | None = None
    ratio: float | None = None
    bar: str = ""
    met: bool | None = None


def speed_ratio(ours: float, peer: float, *, higher_is_better: bool = False) -> float:
    return ours / peer if higher_is_better else peer / ours


class Times(dict[str, float]):
    """Best time in seconds of each, and of each round."""

    def __init__(self, rounds: list[dict[str, float]]) -> None:
        super().__init__({name: min(best[name] for best in rounds) for name in rounds[0]})
        self.rounds = rounds

    def ratio(self, ours: str, peer: str) -> float:
        """How many times faster we are: the median of the rounds' own ratios. The machine is not
        the same from one round to another, and in one round it is for all."""
        return statistics.median(best[peer] / best[ours] for best in self.rounds)


def interleaved(runs: Mapping[str, Callable[[], object]], *, seconds: float = 1.5) -> Times:
    """Times of each, taken in turns so that a noisy moment hits all of them.

    With threads each turn begins with a rest: after its work a library's threads spin on, ONNX
    Runtime's for some 50 ms, OpenMP's for 200 ms, and would take a core from whose turn is next.
    """
    rest = 0.35 if int(os.environ.get("OPSTEP_NUM_THREADS", "1")) > 1 else 0
    for run in runs.values():  # warm caches, compile plans
        run()
        run()
    end = time.perf_counter() + seconds * len(runs)
    rounds: list[dict[str, float]] = []
    # A helper that is woken late spoils a whole turn: with threads there are more of them.
    while time.perf_counter() < end or len(rounds) < (14 if rest else 7):
        best = {name: float("inf") for name in runs}
        for name, run in runs.items():
            if rest:
                time.sleep(rest)
                run()  # wakes its threads
            for _ in range(10):
                start = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - start)
        rounds.append(best)
    return Times(rounds)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def show(rows: list[Row]) -> str:
    head = ("name", "ours", "peer", "ratio", "bar", "met")
    lines = [head]
    for row in rows:
        peer = f"{_number(row.peer_value)} {row.unit} {row.peer}" if row.peer else ""
        met = "" if row.met is None else ("yes" if row.met else "NO")
        ratio = f"{row.ratio:.2f}x" if row.ratio is not None else ""
        lines.append((row.name, f"{_number(row.ours)} {row.unit}", peer, ratio, row.bar, met))
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def write(rows: list[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
