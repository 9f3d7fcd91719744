"""Writes a script with cells as a notebook: `python tools/notebook.py examples/gan.py gan.ipynb`.

A line `# %%` begins a cell; words behind it, and the script's docstring, become text above the
code. `# %% [markdown]` begins a cell of text in comments.
"""

from __future__ import annotations

import argparse
import ast
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

MARK, TEXT = "# %%", "[markdown]"


def notebook(code: str) -> nbformat.NotebookNode:
    """The script's cells, in order."""
    cells = []
    docstring, rest = _docstring(code)
    if docstring:
        cells.append(new_markdown_cell(docstring))
    for title, lines in _parts(rest):
        if title.startswith(TEXT):
            text = [line.removeprefix("#").removeprefix(" ") for line in lines]
            cells.append(new_markdown_cell("\n".join([title.removeprefix(TEXT), *text]).strip()))
            continue
        if title:
            cells.append(new_markdown_cell(title))
        body = "\n".join(lines).strip("\n")
        if body:
            cells.append(new_code_cell(body))
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # equal scripts give equal notebooks
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _docstring(code: str) -> tuple[str, list[str]]:
    """The script's docstring, and the lines after it."""
    lines = code.splitlines()
    module = ast.parse(code)
    docstring = ast.get_docstring(module)
    if docstring is None:
        return "", lines
    return docstring, lines[module.body[0].end_lineno :]


def _parts(lines: list[str]) -> list[tuple[str, list[str]]]:
    """The cells' titles and lines; what stands before the first mark has no title."""
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
    nbformat.write(notebook(args.script.read_text()), args.out)


if __name__ == "__main__":
    main()
