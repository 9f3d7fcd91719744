"""The rows of the benchmark: measured, printed as a table, written to build/bench.json."""

from __future__ import annotations

import json
import os
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
    """Best time in seconds of each."""

    def ratio(self, ours: str, peer: str) -> float:
        """How many times faster we are."""
        return self[peer] / self[ours]


# With threads: end after _STEADY rounds in which no time gets better, after _MOST in any case.
_STEADY, _MOST = 8, 48


def interleaved(runs: Mapping[str, Callable[[], object]], *, seconds: float = 1.5) -> Times:
    """The best time of each, taken in turns so that a noisy moment hits all of them.

    With threads each turn begins with a rest: after its work a library's threads spin on, ONNX
    Runtime's for some 50 ms, OpenMP's for 200 ms, and would take a core from the next run.
    A virtual machine's two cores may for a turn be two threads of one, and all work takes up to
    twice as long: rounds go on until nobody's best time gets better.
    """
    rest = 0.35 if int(os.environ.get("OPSTEP_NUM_THREADS", "1")) > 1 else 0
    for run in runs.values():  # warm caches, compile plans
        run()
        run()
    best = Times({name: float("inf") for name in runs})
    end = time.perf_counter() + seconds * len(runs)
    rounds = steady = 0
    while time.perf_counter() < end or rounds < 7 or (rest and steady < _STEADY and rounds < _MOST):
        before = Times(best)
        for name, run in runs.items():
            if rest:
                time.sleep(rest)
                run()  # wakes its threads
            for _ in range(10):
                start = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - start)
        rounds += 1
        steady = steady + 1 if all(best[name] > 0.99 * before[name] for name in runs) else 0
    return best


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
