"""Tap records as readable lines on the standard output."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import TextIO

from opstep_server.taps.records import Batch, Extra
from opstep_server.taps.sinks.base import Sink
from opstep_server.values import number

_BARS = "▁▂▃▄▅▆▇█"
_SHOWN = 8


class LinesSink(Sink):
    """`14:03:20.123 run 120  conv2d_0 → conv2d_0.out  mean 0.01 std 0.9 [-2.1, 3.4]`."""

    kind = "lines"
    doc = "lines for people"

    def __init__(self, out: TextIO | None = None) -> None:
        super().__init__(Path("-"), {})
        self._out = out or sys.stdout
        self._width = 0

    def open(self) -> None: ...

    def write(self, batch: Batch) -> None:
        self._out.write("".join(self._line(batch, index) for index in range(len(batch))))

    def flush(self) -> None:
        self._out.flush()

    def _line(self, batch: Batch, index: int) -> str:
        source = batch.sources[index]
        nanoseconds = int(batch.time[index])
        clock = time.strftime("%H:%M:%S", time.localtime(nanoseconds // 10**9))
        what = f"{source.op} → {source.variable}" if source.op else source.variable
        self._width = max(self._width, min(len(what), 60))
        ran = f"run {batch.step[index]}"
        if batch.iteration[index]:
            ran += f" iteration {batch.iteration[index]}"
        parts = [f"{clock}.{nanoseconds // 10**6 % 1000:03} {ran}", what.ljust(self._width)]
        statistics = {name: column[index].item() for name, column in batch.statistics.items()}
        parts += _statistics(statistics)
        if index in batch.extras:
            parts += _extra(batch.extras[index])
        return "  ".join(parts).rstrip() + "\n"


def _statistics(found: dict[str, float]) -> list[str]:
    if not found["count"]:
        return []
    parts = []
    if found["nan"] + found["inf"] < found["count"]:
        parts.append(
            f"mean {number(found['mean'])} std {number(found['std'])} "
            f"[{number(found['min'])}, {number(found['max'])}] l2 {number(found['l2'])}"
        )
    parts += [
        f"{found[name]:,} {word}" for name, word in (("nan", "NaN"), ("inf", "Inf")) if found[name]
    ]
    if found["zeros"]:
        parts.append(f"{found['zeros']:,} of {found['count']:,} zero")
    return parts


def _extra(extra: Extra) -> list[str]:
    parts = []
    if extra.histogram is not None:
        parts.append(sparkline(extra.histogram.counts))
    if extra.samples is not None:
        first = ", ".join(number(value) for value in extra.samples[:_SHOWN].tolist())
        more = ", …" if len(extra.samples) > _SHOWN else ""
        parts.append(f"at {len(extra.samples)} places: {first}{more}")
    if extra.tensor is not None:
        parts.append(f"all {extra.tensor.size:,} elements")
    if extra.value is not None:
        parts.append(extra.value if isinstance(extra.value, str) else number(extra.value))
    if extra.error:
        parts.append(f"<{extra.error}>")
    return parts


def sparkline(counts: tuple[int, ...], width: int = 16) -> str:
    """The bins as bars; of too many, neighbours are merged."""
    width = min(width, len(counts))
    edges = [len(counts) * i // width for i in range(width + 1)] if width else []
    sums = [sum(counts[a:b]) for a, b in itertools.pairwise(edges)]
    most = max(sums, default=0)
    return (
        "".join(_BARS[min(7, 8 * value // most)] if value else " " for value in sums)
        if most
        else ""
    )
