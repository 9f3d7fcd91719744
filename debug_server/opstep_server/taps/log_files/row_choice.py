"""The choice of rows that are shown, and their order."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterable
from typing import Any

from opstep_server.taps.log_files.tap_log import Row


def chosen(rows: Iterable[Row], text: str) -> list[Row]:
    """The rows with all words somewhere in their names; `*` and `?` are wildcards."""
    patterns = [f"*{word.replace('[', '[[]')}*" for word in text.lower().split()]
    return [row for row in rows if all(fnmatch.fnmatchcase(row.names, each) for each in patterns)]


def ordered(rows: list[Row], order: str, statistic: str) -> list[Row]:
    """Sorts by name, or by a number with the largest first."""
    by_name = sorted(rows, key=lambda row: row.by_name)
    if order == "name":
        return by_name
    return sorted(by_name, key=lambda row: _MOST[order](row, statistic), reverse=True)


def _most(value: float) -> float:
    """A sort key with NaN as the smallest number."""
    return -math.inf if math.isnan(value) else value


_MOST: dict[str, Callable[[Row, str], Any]] = {
    "statistic": lambda row, statistic: _most(row.number(statistic)),
    "records": lambda row, _: row.records,
    "step": lambda row, _: _most(row.number("step")),
    "nan": lambda row, _: (row.number("nan") > 0 or row.number("inf") > 0, row.faulty),
    "newest": lambda row, _: row.time,
}
ORDERS = ("name", *_MOST)
