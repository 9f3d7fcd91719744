"""The pane of one source: its newest record, and its numbers as a larger plot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from opstep_server.cli.full_screen.panes import Pane
from opstep_server.cli.log.live.text_plots import Marks, plot
from opstep_server.cli.log.log_table import number, share, whole
from opstep_server.cli.output import styled_text
from opstep_server.cli.output.styled_text import FAINT, FAULT, NAME, Line
from opstep_server.taps.log_files import log_records
from opstep_server.taps.log_files.tap_log import Row
from opstep_server.taps.records import STATISTICS

_HEIGHT = 8
# The most sampled elements, and characters of a text.
_SHOWN = 32


class DetailPane(Pane):
    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self.row: Row | None = None
        self.statistic = "mean"
        self._top = 0
        self._count = 0

    def scroll(self, rows: int) -> None:
        self._top = max(min(self._top + rows, self._count - self.height), 0)

    def rows(self, width: int, height: int) -> Sequence[Line]:
        if self.row is None:
            return []
        lines = [
            part
            for line in self._lines(self.row, width, height)
            for part in styled_text.wrap(line, width, hard=True)
        ]
        self._count = len(lines)
        self._top = max(min(self._top, len(lines) - height), 0)
        return lines[self._top : self._top + height]

    # ---- inside ----------------------------------------------------------------------------------

    def _lines(self, row: Row, width: int, height: int) -> Iterator[Line]:
        fields = row.fields()
        for name, text in _about(row, fields):
            yield [(NAME, f"  {name:<8}  "), *styled_text.words(text)]
        yield _newest(row)
        bins = log_records.histogram(fields)
        drawings = 2 if bins else 1
        # The rows below the text, shared by the drawings and their titles.
        room = (height - 8) // drawings - 2
        tall = min(max(room, 3), _HEIGHT * (3 - drawings))
        values = row.drawn(self.statistic).tolist()
        yield []
        if values:
            shown = min(len(values), max(width - 12, 1))
            what = self.statistic if row.measured else "value"
            yield [("bold", f"{what} in the last {shown} of {row.records:,} records")]
            yield from plot(values, width, tall, self._marks)
        else:
            yield [(FAINT, f"no {self.statistic} to draw")]
        if bins:
            yield []
            title = f"histogram: {len(bins.counts)} bins from {number(bins.low)} to "
            yield [("bold", title + number(bins.high))]
            yield from plot(_fewer(bins.counts, width - 12), width, tall, self._marks, True)


def _about(row: Row, fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    about = {**fields, **row.about}
    say = log_records.printable
    yield "op", f"{row.key.op} ({row.type})" + (" of the gradient" if about.get("gradient") else "")
    dims = about.get("dims")
    shape = f"[{', '.join(map(say, dims))}]" if isinstance(dims, list) else ""
    kind = f"  {say(about['dtype'])}{shape}" if "dtype" in about else ""
    slot = f", slot {say(about['slot'])}" if about.get("slot") else ""
    yield "variable", f"{row.key.variable or '-'}{kind}{slot}"
    program = f", program {row.key.program}" if row.key.program else ""
    yield "tap", f"{row.key.tap}, process {row.key.process or '-'}{program}"
    if about.get("file"):
        yield "line", f"{say(about['file'])}:{say(about.get('line', '?'))}"
    if not row.last:
        yield "newest", "no records yet"
        return
    faulty = f", {row.faulty:,} with NaN or Inf" if row.faulty else ""
    yield "newest", f"step {whole(row.number('step'))}, {say(row.time)}{faulty}"
    if "value" in fields:
        yield "value", say(fields["value"])[: _SHOWN * 8]
    if "error" in fields:
        yield "error", say(fields["error"])[: _SHOWN * 8]
    samples = fields.get("samples")
    if isinstance(samples, dict) and isinstance(samples.get("values"), list):
        elements = samples["values"]
        more = ", …" if len(elements) > _SHOWN else ""
        yield "samples", ", ".join(_element(e) for e in elements[:_SHOWN]) + more


def _element(value: object) -> str:
    return number(value) if isinstance(value, float) else log_records.printable(value)


def _newest(row: Row) -> Line:
    """All statistics of the newest record."""
    if not row.measured:
        return []
    line: Line = []
    for name in STATISTICS:
        value = row.number(name)
        counted = name in ("count", "nan", "inf", "zeros")
        bad = not math.isfinite(value) or (name in ("nan", "inf") and value > 0)
        text = share(row) if name == "zeros" else whole(value) if counted else number(value)
        line += [(NAME, f"  {name} "), (FAULT if bad else "", text)]
    return line


def _fewer(counts: Sequence[int], columns: int) -> list[float]:
    """Merges neighbouring bins until they fit the columns."""
    together = -(-len(counts) // max(columns, 1))
    return [float(sum(counts[at : at + together])) for at in range(0, len(counts), together)]
