"""Tools for drawing pictures: numbers, scales, colours, SVG and PNG."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from opstep._core import Error

COLOURS = ("#1f77b4", "#e0662b", "#2ca02c", "#9467bd", "#b8860b", "#d6487e", "#17a2b8", "#7f7f7f")
NOT_FINITE = (255, 0, 255)
NEGATIVE, ZERO, POSITIVE = (33, 102, 172), (247, 247, 247), (178, 24, 43)
# Differences of numbers within this limit are finite.
_LARGEST = 1e300


def numbers(who: str, values: Any) -> np.ndarray:
    """The values as float64; NaN and Inf stay what they are."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "cSUmM":
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise Error(f"[{who}] only numbers can be drawn: give an array of them") from None


def series(who: str, values: Any) -> dict[str, Any]:
    """Several of them by name, or the only one without a name."""
    named = dict(values) if isinstance(values, Mapping) else {"": values}
    if not named:
        raise Error(f"[{who}] there is nothing to draw: give an array, or a dict of arrays")
    return {str(name): value for name, value in named.items()}


def count(number: int, what: str) -> str:
    """`1 value`, `2,000 values`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class Scale:
    """From numbers to places in a picture: `low` is drawn at `start`, `high` at `end`."""

    def __init__(self, values: np.ndarray, start: float, end: float) -> None:
        finite = np.clip(values[np.isfinite(values)], -_LARGEST, _LARGEST)
        self.low = float(finite.min()) if finite.size else 0.0
        self.high = float(finite.max()) if finite.size else 1.0
        if self.high - self.low <= abs(self.high) * 1e-12:  # all the same: in the middle
            half = abs(self.high) / 10 or 1.0
            self.low, self.high = self.low - half, self.high + half
        self.start, self.end = start, end

    def __call__(self, values: np.ndarray) -> np.ndarray:
        share = (np.clip(values, -_LARGEST, _LARGEST) - self.low) / (self.high - self.low)
        return np.asarray(self.start + share * (self.end - self.start))

    def ticks(self, about: int = 4) -> list[float]:
        """Round numbers, roughly `about` of them."""
        rough = (self.high - self.low) / about
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(m * size for m in (1, 2, 5, 10) if m * size >= rough * 0.75)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


def svg(width: float, height: float, parts: list[str], label: str) -> str:
    # At most as wide as its cell; text has the page's colour, light or dark.
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}" '
        'style="max-width:100%;height:auto" font-family="sans-serif" font-size="11">'
        + "".join(parts)
        + "</svg>"
    )


def text(x: float, y: float, words: str, anchor: str = "start", more: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor"{more}>'
        f"{escape(words)}</text>"
    )


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    """A line of a grid."""
    return (
        f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="currentColor" '
        'stroke-opacity="0.18"/>'
    )


def png(pixels: np.ndarray) -> str:
    """The address of an image that carries its data: uint8[height, width, 3]."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + width * 3), np.uint8)  # each begins with its filter: none
    rows[:, 1:] = pixels.reshape(height, width * 3)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return "data:image/png;base64," + base64.b64encode(data).decode()


def heat(values: np.ndarray) -> np.ndarray:
    """Colours of numbers: blue below zero, red above it, magenta where they are not finite."""
    finite = np.isfinite(values)
    largest = np.abs(values[finite]).max(initial=0.0) or 1.0
    share = np.where(finite, values, 0.0) / largest
    zero = np.array(ZERO, np.float64)
    ends = np.where(share[..., None] < 0, np.array(NEGATIVE), np.array(POSITIVE))
    colours = zero + np.abs(share)[..., None] * (ends - zero)
    colours[~finite] = NOT_FINITE
    return colours.astype(np.uint8)


def shrunk(table: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """A table of at most that size; its elements are means, so that one NaN is still seen."""
    if table.dtype.kind not in "biuf" or table.size < 1_000_000:
        table = numbers("tensor", table)
    for axis, limit in ((0, rows), (1, columns)):
        size = table.shape[axis]
        if size > limit:
            starts = np.arange(limit) * size // limit
            counts = np.diff(np.append(starts, size))
            counts = counts[:, None] if axis == 0 else counts
            with np.errstate(all="ignore"):  # Inf - Inf
                table = np.add.reduceat(table, starts, axis=axis, dtype=np.float64) / counts
    return table
