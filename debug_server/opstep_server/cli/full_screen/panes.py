"""The panes of the full-screen mode: each is a list of lines and shows those that fit.

They keep their lines; `pane_contents.py` fills them.
"""

from __future__ import annotations

import functools
import re
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from prompt_toolkit.layout import Container, Dimension
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Char, Screen, WritePosition
from prompt_toolkit.utils import get_cwidth

from opstep_server.cli.output import styled_text
from opstep_server.cli.output.styled_text import FAINT, Line

# How many lines the console keeps.
_KEPT = 5000
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


@functools.cache
def style(words: str) -> str:
    """A style of rich in prompt_toolkit's words: "bold bright_red on blue"."""
    parts: list[str] = []
    ground = ""
    for word in words.split():
        if word == "on":
            ground = "bg:"
        elif word != "none":
            name = word.removeprefix("bright_")
            if name in _COLOURS:
                word = f"ansi{'bright' if name != word else ''}{name}"
                word = {"ansiwhite": "ansigray", "ansibrightwhite": "ansiwhite"}.get(word, word)
            parts.append(ground + word)
            ground = ""
    return " ".join(parts)


class Pane(Container):
    """Shows exactly what fits, so that nothing else scrolls it.

    It writes the cells of the screen itself: prompt_toolkit's windows do so much more for each cell
    that a step in a large terminal would be slow.
    """

    # The height at the last drawing.
    height = 1
    # Keys move in it.
    active = False

    @abstractmethod
    def rows(self, width: int, height: int) -> Sequence[Line]: ...

    @abstractmethod
    def scroll(self, rows: int) -> None:
        """Scrolls down, or up when negative."""

    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,
        write_position: WritePosition,
        parent_style: str,
        erase_bg: bool,
        z_index: int | None,
    ) -> None:
        at = write_position
        self.height = at.height
        for y, row in enumerate(self.rows(at.width, at.height), at.ypos):
            screen.data_buffer[y].update(_cells(tuple(row), at.xpos, at.width))

    def reset(self) -> None:
        pass

    def preferred_width(self, max_available_width: int) -> Dimension:
        return Dimension()

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        return Dimension(min=1)

    def get_children(self) -> list[Container]:
        return []


# Most rows are the same from one step to the next.
@functools.lru_cache(maxsize=4000)
def _cells(row: tuple[tuple[str, str], ...], x: int, width: int) -> dict[int, Char]:
    cells: dict[int, Char] = {}
    end = x + width
    for words, text in row:
        name = style(words)
        for char in text:
            wide = 1 if char.isascii() else get_cwidth(char)
            if x + wide > end:
                return cells
            if wide > 0:
                cells[x] = Char(char, name)
            for behind in range(x + 1, x + wide):
                cells[behind] = Char("", name)
            x += wide
    return cells


class CodePane(Pane):
    """Numbered lines around a cursor, with the current one and breakpoints marked."""

    def __init__(self, empty: str, stopped: Callable[[], bool]) -> None:
        self._empty = empty
        # Whether the script is stopped at the current line; otherwise it has left it.
        self._stopped = stopped
        self._lines: Sequence[Line] = ()
        self.current = 0
        # The line for F9, from 1.
        self.cursor = 1
        # By line, the sign of a breakpoint.
        self.marks: Mapping[int, str] = {}
        self._top = 0

    def show(self, lines: Sequence[Line], current: int) -> None:
        """Shows the lines; `current` 0: there is no current line."""
        moved = current != self.current or lines is not self._lines
        self._lines = lines
        self.current = current
        if moved and (current or self.cursor > len(lines)):
            self.cursor = current or 1

    def scroll(self, rows: int) -> None:
        self.cursor = min(max(self.cursor + rows, 1), max(len(self._lines), 1))

    def rows(self, width: int, height: int) -> Sequence[Line]:
        if not self._lines:
            return [[(FAINT, self._empty)]]
        self._top = self._first(height)
        digits = len(str(len(self._lines)))
        return [
            self._row(number, digits, width)
            for number in range(self._top + 1, min(self._top + height, len(self._lines)) + 1)
        ]

    def _first(self, height: int) -> int:
        """The number of lines above; unchanged while the cursor is well inside."""
        margin = min(3, (height - 1) // 2)
        at = self.cursor - 1
        last = max(len(self._lines) - height, 0)
        if not self._top + margin <= at < self._top + height - margin:
            far = not self._top - height <= at < self._top + 2 * height
            above = (
                height // 2 if far else margin if at < self._top + margin else height - margin - 1
            )
            return min(max(at - above, 0), last)
        return min(self._top, last)

    def _row(self, number: int, digits: int, width: int) -> Line:
        here = number == self.current
        mark = self.marks.get(number, " ")
        arrow = "▶" if here else " "
        current = here and self._stopped()
        row: Line = [
            ("bold red", mark),
            (FAINT, f"{arrow}{number:>{digits}}  "),
            *self._lines[number - 1],
        ]
        chosen = self.active and number == self.cursor
        if not current and not chosen:
            return row
        # In one colour, without the colours of words.
        ground = " ".join(["reverse"] * current + ["underline"] * chosen)
        return [row[0], (ground, styled_text.plain(row[1:]).ljust(width - 1))]


class TextPane(Pane):
    """Given lines, wrapped."""

    def __init__(self) -> None:
        self._lines: Sequence[Line] = ()
        self._top = 0
        self._rows = 0

    def show(self, lines: Sequence[Line]) -> None:
        self._lines = lines

    def scroll(self, rows: int) -> None:
        self._top = max(min(self._top + rows, self._rows - self.height), 0)

    def rows(self, width: int, height: int) -> Sequence[Line]:
        rows = [row for line in self._lines for row in styled_text.wrap(line, width, hard=True)]
        self._rows = len(rows)
        self._top = max(min(self._top, len(rows) - height), 0)
        return rows[self._top : self._top + height]


class Console(Pane):
    """All output, the newest below: a sink of the session's screen."""

    colour = True

    def __init__(self, changed: Callable[[], None]) -> None:
        self.width = 80
        self._changed = changed
        self._lines: deque[Line] = deque()
        # The rows of each line at this width.
        self._wrapped: deque[list[Line]] = deque()
        self._count = 0
        # The script's unfinished line.
        self._open: Line | None = None
        # The number of rows below the last visible one.
        self.below = 0

    def line(self, line: Line) -> None:
        self._open = None
        self._append(line)

    def output(self, text: str) -> None:
        text = _ESCAPES.sub("", text).replace("\r\n", "\n").expandtabs()
        for index, part in enumerate(text.split("\n")):
            if index:
                self._open = None
            if self._open is not None:
                part = styled_text.plain(self._open) + part
            elif not part:
                continue
            # A carriage return overwrites the line, as progress bars do.
            part = _CONTROL.sub("", part.rstrip("\r").rpartition("\r")[2])
            if self._open is not None:
                self._drop_last()
            self._open = [("", part)]
            self._append(self._open)

    def flow(self) -> None:
        pass

    def scroll(self, rows: int) -> None:
        self.below = max(min(self.below - rows, self._count - self.height), 0)

    def rows(self, width: int, height: int) -> Sequence[Line]:
        if width != self.width:
            self.width = width
            self._wrapped = deque(styled_text.wrap(line, width, hard=True) for line in self._lines)
            self._count = sum(map(len, self._wrapped))
        self.below = max(min(self.below, self._count - height), 0)
        wanted = self.below + height
        newest: list[Line] = []
        for rows in reversed(self._wrapped):
            newest[:0] = rows
            if len(newest) >= wanted:
                break
        shown = newest[: len(newest) - self.below] if self.below else newest
        # The newest is above the prompt.
        return [[]] * (height - len(shown)) + shown[-height:]

    def _append(self, line: Line) -> None:
        rows = styled_text.wrap(line, self.width, hard=True)
        self._lines.append(line)
        self._wrapped.append(rows)
        self._count += len(rows)
        if self.below:
            self.below += len(rows)  # A user who looks at older lines still sees them.
        if len(self._lines) > _KEPT:
            self._lines.popleft()
            self._count -= len(self._wrapped.popleft())
        self._changed()

    def _drop_last(self) -> None:
        self._lines.pop()
        self._count -= len(self._wrapped.pop())
