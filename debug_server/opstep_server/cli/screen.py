"""Where text goes: plain and stable for files and scripts, coloured on a terminal."""

from __future__ import annotations

import sys
from typing import Literal

from rich.console import Console
from rich.text import Text


class Screen:
    def __init__(self, colour: bool) -> None:
        self._console = Console(highlight=False, soft_wrap=True) if colour else None
        # The script's output stands in the middle of a line.
        self._midline = False

    def line(self, text: str = "", style: str = "") -> None:
        self._fresh_line()
        if self._console is None:
            print(text, flush=True)
        else:
            self._console.print(Text(text, style=style))

    def error(self, message: str) -> None:
        self.line(f"error: {message}", "red")

    def script(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        """The script's own output, as it is."""
        to = sys.stdout if stream == "stdout" else sys.stderr
        to.write(text)
        to.flush()
        self._midline = not text.endswith("\n")

    def _fresh_line(self) -> None:
        if self._midline:
            self._midline = False
            print(flush=True)
