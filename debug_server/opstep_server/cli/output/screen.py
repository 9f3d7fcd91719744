"""The screen that gets all text: plain for files and scripts, coloured for terminals.

Handlers write lines to the one `Screen` of a session; its sink shows them, and is replaced when the
full-screen mode begins or ends.
"""

from __future__ import annotations

import shutil
import sys
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from opstep_server.cli.output import descriptions, styled_text
from opstep_server.cli.output.styled_text import Line

if TYPE_CHECKING:
    from rich.console import Console


_SAID = 200


class Sink(Protocol):
    @property
    def colour(self) -> bool:
        """Whether the sink shows colours."""

    @property
    def width(self) -> int: ...

    def line(self, line: Line) -> None: ...

    def output(self, text: str) -> None:
        """Output of the script, which need not be whole lines."""

    def flow(self) -> None:
        """The script runs: output is not held back for pages."""


class Screen:
    def __init__(self, colour: bool) -> None:
        self.sink: Sink = TerminalSink() if colour else PlainSink()
        # Whether a terminal shows long output of a command in pages.
        self.paging = True

    @property
    def width(self) -> int:
        return self.sink.width

    def line(self, text: str = "", style: str = "") -> None:
        """Shows lines; the style "none" is for text that mentions NaN without having one."""
        for part in text.split("\n"):
            self.sink.line(styled_text.words(part, style) if self.sink.colour else [("", part)])

    def painted(self, line: Line) -> None:
        self.sink.line(line)

    def echo(self, text: str) -> None:
        """Shows a command that did not come from the prompt."""
        self.sink.line([("bold", text)])

    def stop(self, text: str, style: str) -> None:
        self.sink.line(styled_text.stop(text, style))

    def source(self, text: str, file: str) -> None:
        """A numbered line of a Python file."""
        self.sink.line(styled_text.source(text, file) if self.sink.colour else [("", text)])

    def listing(self, text: str) -> None:
        """A numbered line of a program's listing."""
        self.sink.line(styled_text.listing(text) if self.sink.colour else [("", text)])

    def tree(self, text: str) -> None:
        """A line of a drawing of ops and variables."""
        self.sink.line(styled_text.tree(text) if self.sink.colour else [("", text)])

    def table(self, rows: Sequence[Sequence[str]], indent: str = "  ") -> None:
        """Aligned columns; the first names the row."""
        for row, text in zip(rows, descriptions.table(rows, indent), strict=True):
            end = len(indent) + len(row[0])
            self.sink.line([(styled_text.NAME, text[:end]), *styled_text.words(text[end:])])

    def error(self, message: str) -> None:
        self.line(f"error: {message}", "red")

    def output(self, text: str) -> None:
        self.sink.output(text)

    def flow(self) -> None:
        self.sink.flow()


class PlainSink:
    """The script writes to the same descriptors by itself, so every line is flushed at once."""

    colour = False
    width = 80

    def line(self, line: Line) -> None:
        # In one write, or the script's output might come between the text and its end.
        sys.stdout.write(styled_text.plain(line) + "\n")
        sys.stdout.flush()

    def output(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def flow(self) -> None:
        pass


class TerminalSink:
    """Writes below earlier output. With pages, the rest of a command's output waits."""

    def __init__(self) -> None:
        self._console: Console | None = None
        # Rows that may still be shown before the next page; None: all.
        self._room: int | None = None
        self.waiting: list[Line] = []
        # The last lines and the script's output between them, with which the full screen begins.
        self.said: deque[Line | str] = deque(maxlen=_SAID)
        # The script left the cursor in the middle of a line.
        self._inside = False
        # A prompt is below, which only whole lines may move.
        self.prompting = False

    @property
    def colour(self) -> bool:
        return not self.console.no_color and self.console.is_terminal

    @property
    def width(self) -> int:
        return self.console.width

    @property
    def page(self) -> int:
        """The rows of a page; the last row is for the question."""
        return max(shutil.get_terminal_size().lines - 1, 1)

    @property
    def console(self) -> Console:
        # Imported here: output to a file starts faster without the library.
        if self._console is None:
            from rich.console import Console

            self._console = Console(highlight=False, soft_wrap=True)
        return self._console

    def begin_pages(self) -> None:
        self._room = self.page

    def end_pages(self) -> None:
        """Ends the pages; the caller shows the waiting lines."""
        self._room = None

    def flow(self) -> None:
        self._room = None
        rows, self.waiting = self.waiting, []
        for row in rows:
            self.show(row)

    def line(self, line: Line) -> None:
        self.said.append(line)
        for row in styled_text.wrap(line, self.width):
            if self._room is None:
                self.show(row)
            elif self._room > 0:
                self._room -= 1
                self.show(row)
            else:
                self.waiting.append(row)

    def show(self, row: Line) -> None:
        from rich.text import Text

        if self._inside:
            self._inside = False
            self.console.print()
        self.console.print(Text.assemble(*((text, style or "none") for style, text in row)))

    def output(self, text: str) -> None:
        self.said.append(text)
        self._inside = not text.endswith("\n")
        sys.stdout.write(text)
        if not self.prompting:
            sys.stdout.flush()
