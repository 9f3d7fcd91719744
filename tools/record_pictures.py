"""Writes the README's pictures of the terminal, docs/*.svg, from real runs: `make pictures`.

--check only tests whether the pictures still show the current text.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from pyte.screens import Char
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from opstep_server.cli.output import styled_text

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = "examples/find_the_nan.py"
# The last output of `make demo`.
COMMANDS = ("catch nan", "run", "where", "inputs")
# Without web fonts: any monospaced font will do.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, ", ""
)
# A terminal's names for some colours.
COLOURS = {"brown": "yellow", "brightbrown": "bright_yellow"}


def find_the_nan() -> str:
    """A batch that ends at a NaN, in the colours of a terminal."""
    options = [word for command in COMMANDS for word in ("-ex", command)]
    words = ["debug", "--batch", *options, SCRIPT]
    result = subprocess.run(
        [sys.executable, "-m", "opstep_server", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines: list[styled_text.Line] = [[("bold", f"$ {shlex.join(['opstep', *words])}")]]
    for text in result.stdout.splitlines():
        if text.startswith("(opstep)"):
            lines.append([("bold", text)])
        elif text.startswith("stopped"):
            lines.append(styled_text.stop(text, styled_text.FAULT))
        elif re.match(r"\d", text):
            lines.append(styled_text.source(text, str(ROOT / SCRIPT)))
        else:
            lines.append(styled_text.words(text, "none" if text.startswith("catching") else ""))
    lines += [[("bold", "$ echo $?")], [("", str(result.returncode))]]
    width = 106
    rows = [row for line in lines for row in styled_text.wrap(line, width)]
    return svg([Text.assemble(*((t, s) for s, t in row)) for row in rows], width, "opstep debug")


def full_screen() -> str:
    """The same place in the full screen."""
    sys.path.insert(0, str(ROOT / "tests"))
    from harness.terminal import terminal

    columns, rows = 130, 36
    with (
        tempfile.TemporaryDirectory() as state,
        terminal(
            script=SCRIPT,
            options=("--tui",),
            size=(columns, rows),
            cwd=ROOT,
            XDG_STATE_HOME=state,
        ) as t,
    ):
        t.shows(r"^\(opstep\)$")
        t.type("catch nan\r")
        t.shows("catching nan")
        t.press("F5")
        t.shows(r"^ stopped .* NaN: ")
        t.type("print X.min(), isnan(out).sum()\r")
        t.shows(r"^isnan\(out\)\.sum\(\) = 5")
        t.shows(r"^\(opstep\)$")
        lines = [_row(t.screen.buffer[y], columns) for y in range(rows)]
    return svg(lines, columns, "opstep debug --tui")


def log_view() -> str:
    """A tap log, and one of its sources."""
    sys.path.insert(0, str(ROOT / "tests"))
    from harness.log_folder import network
    from harness.terminal import terminal

    columns, rows = 130, 18
    with tempfile.TemporaryDirectory() as folder:
        network(Path(folder) / "logs")
        with terminal(
            command="log", options=("view",), script="logs", size=(columns, rows), cwd=Path(folder)
        ) as t:
            t.shows("1,040 records")
            t.press("End", "Up", "Up", "Up")
            t.receives("\x1b[0;7mloss_0.log")
            lines = [_row(t.screen.buffer[y], columns) for y in range(rows)]
            t.resize(columns, rows + 8)
            t.press("Enter")
            t.shows(r"^ +0 │")
            lines += [_row(t.screen.buffer[y], columns) for y in range(rows + 8)]
    return svg(lines, columns, "opstep log view logs")


def _row(row: Mapping[int, Char], columns: int) -> Text:
    line = Text()
    for style, chars in itertools.groupby((row[x] for x in range(columns)), _style):
        line.append("".join(char.data for char in chars), style)
    return line


def _style(char: Char) -> str:
    words = ["bold"] * char.bold + ["reverse"] * char.reverse + ["underline"] * char.underscore
    colour = char.fg
    if colour != "default":
        colour = COLOURS.get(colour, colour.replace("bright", "bright_"))
        words.append(f"#{colour}" if re.fullmatch(r"[0-9a-f]{6}", colour) else colour)
    return " ".join(words)


def svg(lines: list[Text], width: int, title: str) -> str:
    console = Console(
        record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for line in lines:
        console.print(line, soft_wrap=True)
    return console.export_svg(
        title=title, code_format=FORMAT, unique_id=title.split()[-1].strip("-")
    )


def text(picture: str) -> str:
    """The text of a picture."""
    rows: dict[float, list[tuple[float, str]]] = defaultdict(list)
    for group in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}g"):
        if not group.get("class", "").endswith("-matrix"):
            continue
        for piece in group:
            place = float(piece.get("x", 0)), (piece.text or "").replace("\xa0", " ")
            rows[float(piece.get("y", 0))].append(place)
    lines = ("".join(word for _, word in sorted(rows[y])) for y in sorted(rows))
    return "\n".join(line.rstrip() for line in lines)


PICTURES = {
    "find_the_nan.svg": find_the_nan,
    "full_screen.svg": full_screen,
    "log_view.svg": log_view,
}


def main() -> int:
    stale = []
    for name, record in PICTURES.items():
        path = ROOT / "docs" / name
        picture = record()
        if "--check" not in sys.argv:
            path.write_text(picture)
        elif text(path.read_text()) != text(picture):
            stale.append(name)
    if stale:
        print(f"{', '.join(stale)}: not what is shown today: write 'make pictures'")
    return 1 if stale else 0


if __name__ == "__main__":
    os.environ.setdefault("OPSTEP_DOORBELL", "0")
    sys.exit(main())
