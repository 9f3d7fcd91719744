"""Where text goes: plain and stable for files and scripts, coloured on a terminal.

The script writes to the same descriptors by itself, so every line is flushed at once.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text


class Screen:
    def __init__(self, colour: bool) -> None:
        self._console = Console(highlight=False, soft_wrap=True) if colour else None

    def line(self, text: str = "", style: str = "") -> None:
        if self._console is None:
            print(text, flush=True)
        else:
            self._console.print(Text(text, style=style))

    def error(self, message: str) -> None:
        self.line(f"error: {message}", "red")
