"""The table of a tap log as plain text, the same for the same files."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence

from opstep_server.taps.log_files import row_choice
from opstep_server.taps.log_files.counts import age, describe
from opstep_server.taps.log_files.tap_log import Row, TapLog

_NUMBERS = ("mean", "std", "min", "max", "l2")
_HEAD = (
    "PROCESS", "TAP", "PROGRAM", "OP", "VARIABLE", "STEP", "RECORDS", *map(str.upper, _NUMBERS),
    "NAN", "INF", "ZEROS",
)  # fmt: skip
# The number of text columns.
_NAMES = 5


def once(log: TapLog, words: str, order: str, statistic: str) -> None:
    log.read_all()
    rows = row_choice.ordered(row_choice.chosen(log.rows.values(), words), order, statistic)
    for text in _table([_HEAD, *map(_cells, rows)]):
        sys.stdout.write(text + "\n")
    sys.stdout.flush()
    for text in told(log):
        print(f"opstep: {text}", file=sys.stderr)


def told(log: TapLog) -> Iterator[str]:
    """Notes on the log beside its rows."""
    if log.problem:
        yield log.problem
    if log.unreadable:
        lines = "line" if log.unreadable == 1 else "lines"
        yield f"{log.unreadable:,} {lines} could not be read"
    if log.left_out:
        yield f"{len(log.left_out):,} more sources have no row: use a directory for each run"
    if log.counts.taps and log.counts.total.dropped:
        yield describe(log.counts.total)
    if log.counts.old:
        yield age(log.counts)


def number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "NaN" if math.isnan(value) else _inf(value)


def whole(value: float) -> str:
    return f"{value:.0f}" if math.isfinite(value) else ""


def share(row: Row) -> str:
    """The share of zeros among the elements."""
    return f"{100 * row.number('zeros') / row.number('count'):.3g}%" if row.measured else ""


def _inf(value: float) -> str:
    return "Inf" if value > 0 else "-Inf"


def _cells(row: Row) -> tuple[str, ...]:
    measured = row.measured
    return (
        *(name or "-" for name in row.key),
        whole(row.number("step")) or "-",
        str(row.records),
        *(number(row.number(name)) if measured else "-" for name in _NUMBERS),
        *(whole(row.number(name)) if measured else "-" for name in ("nan", "inf")),
        share(row) or "-",
    )


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if at < _NAMES else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
