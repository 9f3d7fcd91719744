"""Plots of numbers as text, with the characters that the terminal has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from prompt_toolkit.utils import get_cwidth

from opstep_server.cli.log.log_table import number
from opstep_server.cli.output import characters
from opstep_server.cli.output.styled_text import FAINT, FAULT, Line

# The same as in the debugger's heat map.
NAN, INF = "?", "!"
# The width of a plot's axis.
_LABEL = 10


@dataclass(frozen=True)
class Marks:
    # From the smallest to the largest.
    ramp: str
    more: str
    line: str
    side: str
    arrows: str


_BLOCKS = Marks("▁▂▃▄▅▆▇█", "…", "─", "│", "↑↓")
_PLAIN = Marks("_.:-=+*#", "~", "-", "|", "Up/Dn")


def marks() -> Marks:
    b = _BLOCKS
    every = b.ramp + b.more + b.line + b.side + b.arrows
    return _BLOCKS if characters.writable(every) else _PLAIN


def spark(values: Sequence[float], width: int, marks: Marks) -> Line:
    """The last values, one in each cell; NaN and Inf are highlighted."""
    shown = values[-width:] if width > 0 else []
    low, high = _range(shown)
    line: Line = []
    for value in shown:
        style, char = "", ""
        if math.isfinite(value):
            char = marks.ramp[_level(value, low, high, len(marks.ramp))]
        else:
            style, char = FAULT, NAN if math.isnan(value) else INF
        if line and line[-1][0] == style:
            line[-1] = style, line[-1][1] + char
        else:
            line.append((style, char))
    return line


def plot(
    values: Sequence[float], width: int, height: int, marks: Marks, from_zero: bool = False
) -> list[Line]:
    """A plot with the ends of its axis beside it."""
    columns = max(width - _LABEL - 2, 1)
    shown = values[-columns:]
    low, high = _range(shown)
    if from_zero:
        low = min(low, 0.0)
    # The width of each value.
    times = max(columns // max(len(shown), 1), 1)
    steps = len(marks.ramp)
    none = 0.0 if from_zero else math.nan
    levels = [
        _level(value, low, high, height * steps) + 1
        if math.isfinite(value) and value != none
        else 0
        for value in shown
    ]
    rows: list[Line] = []
    for row in reversed(range(height)):
        label = number(high) if row == height - 1 else number(low) if row == 0 else ""
        line: Line = [(FAINT, f"{label:>{_LABEL}} {marks.side}")]
        for value, level in zip(shown, levels, strict=True):
            full = level - row * steps
            if not math.isfinite(value) and row == 0:
                line.append((FAULT, (NAN if math.isnan(value) else INF) * times))
            else:
                char = marks.ramp[min(full, steps) - 1] if full > 0 else " "
                line.append(("cyan", char * times))
        rows.append(_joined(line))
    return rows


def fit(text: str, width: int, more: str) -> str:
    """The text in exactly this width: a long one loses its middle."""
    wide = cells(text)
    if wide <= width:
        return text + " " * (width - wide)
    if width <= len(more):
        return more[:width]
    left = (width - len(more)) // 2
    head = _taken(text, left)
    tail = _taken(text[::-1], width - len(more) - left)[::-1]
    return (head + more + tail).ljust(width - cells(head + tail) + len(head + tail))


def cells(text: str) -> int:
    return len(text) if text.isascii() else sum(max(get_cwidth(char), 0) for char in text)


def _taken(text: str, width: int) -> str:
    """The beginning of the text that fits."""
    if text.isascii():
        return text[:width]
    taken = ""
    for char in text:
        width -= max(get_cwidth(char), 0)
        if width < 0:
            break
        taken += char
    return taken


def _range(values: Sequence[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)]
    return min(finite, default=0.0), max(finite, default=0.0)


def _level(value: float, low: float, high: float, levels: int) -> int:
    # Halves: the whole span of very large numbers would overflow.
    span = high / 2 - low / 2
    part = (value / 2 - low / 2) / span if span > 0 else 0.5
    return min(max(int(part * levels), 0), levels - 1)


def _joined(line: Line) -> Line:
    """Joins neighbouring pieces of the same style."""
    joined: Line = []
    for style, text in line:
        if joined and joined[-1][0] == style:
            joined[-1] = style, joined[-1][1] + text
        else:
            joined.append((style, text))
    return joined
