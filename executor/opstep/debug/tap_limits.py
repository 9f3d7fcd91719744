"""Limits for taps in this process, whatever a debug server asks for.

The environment sets it without a change to the program: OPSTEP_TAP_ALLOW (patterns over op names
and types, with commas between), OPSTEP_TAP_FULL (1 or 0: whole tensors), OPSTEP_TAP_CPU (a share of
one core's time, such as 0.05), OPSTEP_TAP_BYTES_PER_SECOND and OPSTEP_TAP_QUEUE (sizes such as
10MB) and OPSTEP_AUDIT (a file that gets a line for each change of a tap).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from opstep import _core
from opstep._core import Error

_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3}
_SMALLEST_QUEUE = 64 << 10

T = TypeVar("T")

# The arguments of limit_taps().
_said: dict[str, Any] = {}


def limit_taps(
    *,
    allow: Sequence[str] | None = None,
    full_tensors: bool | None = None,
    cpu_share: float | None = None,
    bytes_per_second: int | str | None = None,
    queue: int | str | None = None,
    audit: str | os.PathLike[str] | None = None,
) -> None:
    """Say what taps may do in this process; before its first Executor and before `connect`.

    Only ops whose name or type is `allow`ed can be tapped, whole tensors only with `full_tensors`
    (the default unless the policy is log-only). If taps together take more than `cpu_share` of a
    core's time, or make more than `bytes_per_second`, the busiest of them ends and says so.
    No more than `queue` bytes wait to be sent. `audit` gets a JSON line for each change of a tap:
    who, what and when.
    """
    told = {
        "allow": allow,
        "full_tensors": full_tensors,
        "cpu_share": cpu_share,
        "bytes_per_second": bytes_per_second,
        "queue": queue,
        "audit": audit,
    }
    before = dict(_said)
    _said.update({name: value for name, value in told.items() if value is not None})
    try:
        limits(_core.TapLimits(), "full")
    except Error:
        _said.clear()
        _said.update(before)
        raise


def limits(to: _core.TapLimits, policy: str) -> _core.TapLimits:
    """Filled from the arguments of `limit_taps` and from the environment."""
    allow = _value("allow", "OPSTEP_TAP_ALLOW", _patterns)
    full = _value("full_tensors", "OPSTEP_TAP_FULL", _yes)
    share = _value("cpu_share", "OPSTEP_TAP_CPU", _share)
    rate = _value("bytes_per_second", "OPSTEP_TAP_BYTES_PER_SECOND", _size)
    queue = _value("queue", "OPSTEP_TAP_QUEUE", _size)
    audit = _value("audit", "OPSTEP_AUDIT", os.fspath)
    to.allowed = list(allow or ())
    to.full_tensors = policy != "log-only" if full is None else full
    to.cpu_share = share or 0.0
    to.bytes_per_second = float(rate or 0)
    if queue is not None:
        if queue < _SMALLEST_QUEUE:
            raise Error(f"the queue of taps has at least {_SMALLEST_QUEUE} bytes, not {queue}")
        to.queue_bytes = queue
    to.audit_file = os.path.abspath(audit) if audit else ""
    return to


def _value(name: str, variable: str, read: Callable[[Any], T]) -> T | None:
    if name in _said:
        where, value = name, _said[name]
    elif os.environ.get(variable):
        where, value = variable, os.environ[variable]
    else:
        return None
    try:
        return read(value)
    except (ValueError, TypeError):
        raise Error(f"{where}: {value!r} is not understood: {_EXPECTED[name]}") from None


_EXPECTED = {
    "allow": "give patterns such as conv*",
    "full_tensors": "give 1 or 0",
    "cpu_share": "give a share of a core's time, such as 0.05",
    "bytes_per_second": "give a size such as 10MB",
    "queue": "give a size such as 10MB",
    "audit": "give the name of a file",
}


def _patterns(value: str | Sequence[str]) -> list[str]:
    words = value.split(",") if isinstance(value, str) else value
    return [str(word).strip() for word in words if str(word).strip()]


def _yes(value: str | bool) -> bool:
    if str(value).lower() in ("1", "true", "yes"):
        return True
    if str(value).lower() in ("0", "false", "no"):
        return False
    raise ValueError


def _share(value: str | float) -> float:
    share = float(value)
    if not 0 < share <= 1:
        raise ValueError
    return share


def _size(value: str | int) -> int:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKmMgG]?)[bB]?\s*", str(value))
    if match is None:
        raise ValueError
    return int(float(match[1]) * _UNITS[match[2].lower()])
