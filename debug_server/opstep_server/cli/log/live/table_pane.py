"""The table of sources: the columns and rows that fit, around the chosen row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opstep_server.cli.full_screen.panes import Pane
from opstep_server.cli.log.live.text_plots import Marks, cells, fit, spark
from opstep_server.cli.log.log_table import number, share, whole
from opstep_server.cli.output import styled_text
from opstep_server.cli.output.styled_text import FAINT, FAULT, NAME, Line
from opstep_server.taps.log_files.tap_log import KEPT, Row

# The least width of the drawing, unless the terminal is narrow.
_SPARK = 20
_NONE = "-"


@dataclass(frozen=True)
class _Column:
    title: str
    width: int
    text: Callable[[Row], str]
    # Columns with a smaller rank get room first.
    rank: int
    # Columns of names share the remaining room.
    name: bool = False
    # Left out when all rows have the same value.
    common: bool = False
    # Whether the text shows a fault.
    faulty: Callable[[Row], bool] = lambda row: False


def _statistic(name: str, rank: int) -> _Column:
    return _Column(
        name.upper(), 10, lambda row: number(row.number(name)) if row.measured else "", rank,
        faulty=lambda row: row.measured and not abs(row.number(name)) < float("inf"),
    )  # fmt: skip


def _count(name: str, rank: int) -> _Column:
    return _Column(
        name.upper(), 6, lambda row: whole(row.number(name)) if row.measured else "", rank,
        faulty=lambda row: row.measured and row.number(name) > 0,
    )  # fmt: skip


_COLUMNS = (
    _Column("PROCESS", 8, lambda row: row.key.process, 6, name=True, common=True),
    _Column("TAP", 6, lambda row: row.key.tap, 7, name=True, common=True),
    _Column("PROGRAM", 8, lambda row: row.key.program, 5, name=True, common=True),
    _Column("OP", 24, lambda row: row.key.op, 0, name=True),
    _Column("VARIABLE", 14, lambda row: row.key.variable, 4, name=True),
    _Column("STEP", 7, lambda row: whole(row.number("step")), 1),
    _Column("RECORDS", 8, lambda row: str(row.records), 8),
    _statistic("mean", 2), _statistic("std", 9), _statistic("min", 10), _statistic("max", 10),
    _statistic("l2", 13), _count("nan", 3), _count("inf", 11),
    _Column("ZEROS", 6, share, 12),
)  # fmt: skip


class TablePane(Pane):
    active = True

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._rows: Sequence[Row] = ()
        self.statistic = "mean"
        # Shown when there are no rows.
        self.empty = ""
        self._chosen: Row | None = None
        self._top = 0

    @property
    def chosen(self) -> Row | None:
        return self._chosen

    def show(self, rows: Sequence[Row]) -> None:
        """Shows the rows; the chosen source stays chosen in its new place."""
        self._rows = rows
        if self._chosen not in rows:
            self._chosen = rows[0] if rows else None

    def scroll(self, rows: int) -> None:
        if self._chosen is not None:
            at = self._rows.index(self._chosen) + rows
            self._chosen = self._rows[min(max(at, 0), len(self._rows) - 1)]

    def rows(self, width: int, height: int) -> Sequence[Line]:
        if not self._rows or self._chosen is None:
            return [[(FAINT, self.empty)]]
        room = max(height - 1, 1)
        at = self._rows.index(self._chosen)
        self._top = min(max(self._top, at - room + 1), at)
        self._top = max(min(self._top, len(self._rows) - room), 0)
        columns, drawn = self._layout(width)
        head: Line = [("bold", "  ".join(self._cell(c.title, c, w) for c, w in columns))]
        head.append(("bold", f"  {self.statistic}"))
        shown = self._rows[self._top : self._top + room]
        return [head, *(self._row(row, columns, drawn, width) for row in shown)]

    # ---- inside ----------------------------------------------------------------------------------

    def _layout(self, width: int) -> tuple[list[tuple[_Column, int]], int]:
        """The columns that fit, with their widths; the drawing gets the rest."""
        spark = min(_SPARK, width // 4)
        left = width - spark
        chosen: dict[_Column, int] = {}
        for column in sorted(_COLUMNS, key=lambda column: column.rank):
            needed = column.width
            if column.name:
                needed = min(needed, self._natural(column), max(width // 3, 8))
            if column.common and len({column.text(row) for row in self._rows}) < 2:
                continue
            if needed + 2 > left:
                break
            chosen[column] = needed
            left -= needed + 2
        for column in sorted(chosen, key=lambda column: column.rank):
            if column.name:
                more = min(left, self._natural(column) - chosen[column])
                chosen[column] += max(more, 0)
                left -= max(more, 0)
        return [(c, chosen[c]) for c in _COLUMNS if c in chosen], min(spark + left, KEPT)

    def _natural(self, column: _Column) -> int:
        texts = max((cells(column.text(row)) for row in self._rows), default=0)
        return max(texts, len(column.title))

    def _cell(self, text: str, column: _Column, width: int) -> str:
        if column.name:
            return fit(text, width, self._marks.more)
        return text.rjust(width) if len(text) <= width else fit(text, width, self._marks.more)

    def _row(self, row: Row, columns: list[tuple[_Column, int]], drawn: int, width: int) -> Line:
        line: Line = []
        for column, size in columns:
            text = self._cell(column.text(row) or _NONE, column, size)
            style = NAME if column.title == "OP" else FAULT if column.faulty(row) else ""
            line += [(style, text), ("", "  ")]
        line += spark(row.drawn(self.statistic).tolist(), drawn, self._marks)
        if row is not self._chosen:
            return line
        # In one colour, like the debugger's current line, except for faults.
        line.append(("", " " * (width - cells(styled_text.plain(line)))))
        return [("reverse bold red" if style == FAULT else "reverse", text) for style, text in line]
