"""Parsers of durations, sizes, rates and times as users write them; errors are a ValueError."""

from __future__ import annotations

import datetime
import math
import re

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}
_NUMBER = r"(\d+(?:\.\d+)?)"


def seconds(value: object) -> float:
    """`"10m"`, `"1h30m"`, `"500ms"`, or a number of seconds."""
    found = 0.0
    if isinstance(value, str) and re.fullmatch(_NUMBER, value):
        found = float(value)
    elif isinstance(value, str) and re.fullmatch(rf"(?:{_NUMBER}\s*(?:ms|s|m|h|d)\s*)+", value):
        pieces = re.findall(rf"{_NUMBER}\s*(ms|s|m|h|d)", value)
        found = sum(float(amount) * _SECONDS[unit] for amount, unit in pieces)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found = float(value)
    if not (math.isfinite(found) and found > 0):
        raise ValueError(f"{shown(value)} is not a duration: write '90s', '10m' or '1h30m'")
    return found


def size(value: object) -> int:
    """`"64MB"`, `"1.5GiB"`, or a number of bytes."""
    found = 0
    if isinstance(value, str) and (match := re.fullmatch(rf"{_NUMBER}\s*([KMG]?i?B?)", value)):
        if match[2] in _BYTES:
            found = int(float(match[1]) * _BYTES[match[2]])
    elif isinstance(value, int) and not isinstance(value, bool):
        found = value
    if not 0 < found < 1 << 63:
        raise ValueError(f"{shown(value)} is not a size: write '64MB', '1GiB' or a number of bytes")
    return found


def rate(value: object) -> float:
    """`"100/s"`, `"5/m"`, or a number a second."""
    found = 0.0
    if isinstance(value, str) and (match := re.fullmatch(rf"{_NUMBER}\s*(?:/\s*(s|m|h))?", value)):
        found = float(match[1]) / _SECONDS[match[2] or "s"]
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found = float(value)
    if not (math.isfinite(found) and found > 0):
        raise ValueError(f"{shown(value)} is not a rate: write '100/s' or a number a second")
    return found


def moment(value: object) -> float:
    """A date or a date with a time, from TOML or as text; without a zone it is local time."""
    found = value
    if isinstance(value, str):
        text = re.sub(r"[zZ]$", "+00:00", value.strip())
        try:
            found = datetime.datetime.fromisoformat(text)
        except ValueError:
            found = None
    if isinstance(found, datetime.date) and not isinstance(found, datetime.datetime):
        found = datetime.datetime.combine(found, datetime.time())
    if not isinstance(found, datetime.datetime):
        raise ValueError(
            f"{shown(value)} is not a date: write 2026-12-01 or 2026-12-01T18:00:00Z for UTC"
        )
    try:
        return found.timestamp()
    except (OverflowError, ValueError, OSError):
        raise ValueError(f"{shown(value)} is too far away to be a date") from None


def shown(value: object) -> str:
    """The value as text of messages, in the spelling of TOML and JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
