"""Where text goes: plain and stable for files and scripts, coloured on a terminal.

The script writes to the same descriptors by itself, so every line is flushed at once.
"""

from __future__ import annotations

import re
import textwrap

from rich.console import Console
from rich.text import Text


class Screen:
    def __init__(self, colour: bool) -> None:
        self._console = Console(highlight=False, soft_wrap=True) if colour else None

    def line(self, text: str = "", style: str = "") -> None:
        if self._console is None:
            print(text, flush=True)
        else:
            for part in wrap(text, self._console.width):
                self._console.print(Text(part, style=style))

    def error(self, message: str) -> None:
        self.line(f"error: {message}", "red")


def wrap(text: str, width: int) -> list[str]:
    """The text at words into lines that fit; what follows stands below the last column."""
    if len(text) <= width:
        return [text]
    columns = [match.end() for match in re.finditer(r"(?<=\S)\s{2,}(?=\S)|^\s+", text)]
    indent = max((column for column in columns if column <= width // 2), default=0)
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=" " * (indent or 4),
        break_long_words=False,
        break_on_hyphens=False,
    )
