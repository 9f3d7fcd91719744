"""Lines of a tap log: one record or one source each, as the JSON lines sink writes them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from opstep_server.taps.records import STATISTICS, Histogram

RECORDS = r"records-.*\.jsonl"
SOURCES = r"sources\.jsonl"
# The numbers of a record that can be drawn, in this order; `value` is of taps on an expression.
NUMBERS = ("step", *STATISTICS, "value")


class Key(NamedTuple):
    """The identity of a source: programs that are clones have ops of the same names."""

    process: str
    tap: str
    program: str
    op: str
    variable: str


class Unreadable(ValueError):
    """The line is not one of a tap log."""


def numbers_of(fields: Mapping[str, Any]) -> tuple[float, ...]:
    """A record's numbers in the order of NUMBERS: NaN for none, `count` 0 without statistics."""
    get = fields.get
    try:
        if get("count"):
            numbers = tuple([float(get(name, math.nan)) for name in NUMBERS[:-1]])
        else:
            numbers = (float(get("step", math.nan)), 0.0, *_NO_STATISTICS)
        value = get("value", math.nan)
        number = float(value) if isinstance(value, (int, float)) else _special(value)
    except (TypeError, ValueError, OverflowError):
        raise Unreadable from None
    return (*numbers, number)


_NO_STATISTICS = (math.nan,) * (len(STATISTICS) - 1)


def load(line: bytes) -> dict[str, Any]:
    """A record, or a source."""
    try:
        fields = json.loads(line.decode())
    except (ValueError, RecursionError):
        raise Unreadable from None
    if not isinstance(fields, dict) or "tap" not in fields:
        raise Unreadable
    return fields


def key_of(fields: Mapping[str, Any]) -> Key:
    get = fields.get
    return Key(
        printable(get("process", "")),
        printable(get("tap", "")),
        printable(get("program", "")),
        printable(get("op", "")),
        printable(get("variable", "")),
    )


def printable(text: object) -> str:
    """The text without control characters, which a terminal could take as commands."""
    if not isinstance(text, str):
        text = str(text)
    if text.isprintable():
        return text
    escaped = (c if c.isprintable() else c.encode("unicode_escape", "replace") for c in text)
    return "".join(c if isinstance(c, str) else c.decode() for c in escaped)


def histogram(fields: Mapping[str, Any]) -> Histogram | None:
    """The record's histogram, if it has a valid one."""
    bins = fields.get("histogram")
    if not isinstance(bins, dict):
        return None
    try:
        low, high = float(bins["low"]), float(bins["high"])
        counts = tuple(int(count) for count in bins["counts"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    usable = counts and low <= high and math.isfinite(low) and math.isfinite(high)
    return Histogram(low, high, counts) if usable and min(counts) >= 0 else None


def _special(text: object) -> float:
    """A number that JSON lacks; NaN for other text."""
    return float(text) if text in ("NaN", "Infinity", "-Infinity") else math.nan
