"""Writes a script with cells as a notebook: `python tools/notebook.py examples/gan.py gan.ipynb`.

A line `# %%` begins a cell; words after it, and the script's docstring, become text above the
code. `# %% [markdown]` begins a cell of text in comments.
"""

from __future__ import annotations

import argparse
import ast
import json
from pathlib import Path
from typing import Any

MARK, TEXT = "# %%", "[markdown]"


def notebook(code: str) -> dict[str, Any]:
    """The script as the content of an .ipynb file."""
    cells = []
    for number, (kind, source) in enumerate(_cells(code)):
        cell: dict[str, Any] = {
            "cell_type": kind,
            "id": f"cell-{number}",
            "metadata": {},
            "source": source,
        }
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        cells.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}


def _cells(code: str) -> list[tuple[str, str]]:
    """The cells' kinds and sources, in order, without empty cells."""
    docstring, rest = _docstring(code)
    cells = [("markdown", docstring)]
    for title, lines in _parts(rest):
        if title.startswith(TEXT):
            text = [line.removeprefix("#").removeprefix(" ") for line in lines]
            cells.append(("markdown", "\n".join([title.removeprefix(TEXT), *text]).strip()))
        else:
            cells += [("markdown", title), ("code", "\n".join(lines).strip("\n"))]
    return [(kind, source) for kind, source in cells if source]


def _docstring(code: str) -> tuple[str, list[str]]:
    """The script's docstring, and the lines after it."""
    lines = code.splitlines()
    module = ast.parse(code)
    docstring = ast.get_docstring(module)
    if docstring is None:
        return "", lines
    return docstring, lines[module.body[0].end_lineno :]


def _parts(lines: list[str]) -> list[tuple[str, list[str]]]:
    """The cells' titles and lines; lines before the first mark have no title."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in lines:
        if line.startswith(MARK):
            parts.append((line.removeprefix(MARK).strip(), []))
        else:
            parts[-1][1].append(line)
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a script with cells as a notebook.")
    parser.add_argument("script", type=Path)
    parser.add_argument("out", type=Path, help="the .ipynb file")
    args = parser.parse_args()
    args.out.write_text(json.dumps(notebook(args.script.read_text()), indent=1) + "\n")


if __name__ == "__main__":
    main()
