"""Finds lines of files by their text, so that tests need no line numbers."""

from __future__ import annotations

import re
from pathlib import Path


def line_of(path: str | Path, name: str) -> int:
    """The number of the only line with the comment `# @name`."""
    lines = Path(path).read_text().splitlines()
    found = [n for n, line in enumerate(lines, 1) if re.search(rf"# ?@{re.escape(name)}\b", line)]
    assert len(found) == 1, f"{path} has {len(found)} lines with # @{name}"
    return found[0]


def line_with(path: str | Path, text: str) -> int:
    """The number of the first line with the text."""
    lines = Path(path).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line)
