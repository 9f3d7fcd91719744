"""Styled text: lines cut into pieces, each with its style.

Styles are rich's words, such as "bold red"; the full-screen mode translates them.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable

# A style and its text.
Piece = tuple[str, str]
Line = list[Piece]

FAULT = "bold red"
FAINT = "bright_black"
NAME = "cyan"

# NaN and Inf in texts of values: `nan` and `-inf` among elements, `5 NaN` in a summary.
_NOT_FINITE = re.compile(r"(?<![\w.@'*/])(?:[-+]?(?:nan|inf)|\d+ (?:NaN|Inf))(?![\w.@'*/])")
# `=> 12  `, or without the mark.
_NUMBERED = re.compile(r"(?P<mark>=>| >|  )?[ ●○]*(?P<number>\d+) +")
_STOP = re.compile(
    r"(?P<how>(?:thread \d+ \(.*?\) )?stopped (?:at|after) op )(?P<op>#\d+ \S+)(?P<rest>.*)"
)
_LISTING = re.compile(
    r"(?P<comment>\s#\s.*$)"
    r"|(?P<id>^\s*#\d+)"
    r"|(?P<type>\b(?:bfloat|float|uint|int|bool)\d*\[[^\]]*\])"
    r"|(?P<op>\b[a-z_]\w*(?=\())"
    r"|(?P<slot>\b\w+(?==))"
    r"|(?P<number>(?<![\w.@])-?\d[\w.+-]*)"
)
_LISTING_STYLES = {
    "comment": FAINT,
    "id": FAINT,
    "type": "green",
    "op": "bold",
    "slot": "cyan",
    "number": "magenta",
}
_TREE = re.compile(
    r"(?P<branch>[┌├└│─]+|[←→…;])"
    r"|(?P<mark>^=>)"
    r"|(?P<op>#\d+ \S+)"
    r"|(?P<type>\b(?:bfloat|float|uint|int|bool)\d*\[[^\]]*\])"
    r"|(?P<place>(?<=, )\S+:\d+)"
)
_TREE_STYLES = {
    "branch": FAINT,
    "mark": "bold yellow",
    "op": NAME,
    "type": "green",
    "place": FAINT,
}
# By the beginning of a token's name; the first that fits.
_PYTHON_STYLES = (
    ("Token.Comment", FAINT),
    ("Token.Keyword", "magenta"),
    ("Token.Operator.Word", "magenta"),
    ("Token.Literal.String", "green"),
    ("Token.Literal.Number", "cyan"),
    ("Token.Name.Function", "bold"),
    ("Token.Name.Class", "bold"),
    ("Token.Name.Decorator", "yellow"),
    ("Token.Name.Builtin", "cyan"),
)


def plain(line: Line) -> str:
    return "".join(text for _, text in line)


def words(text: str, style: str = "") -> Line:
    """Highlights NaN and Inf; the style "none" is for text that only mentions them."""
    return _found(text, _NOT_FINITE, lambda _: FAULT, style) if style != "none" else [("", text)]


def stop(text: str, style: str) -> Line:
    """A stop's line, whose beginning has the colour of its kind."""
    match = _STOP.fullmatch(text)
    if match is None:
        return [(style, text)]
    rest, colon, why = match["rest"].partition(": ")
    return [(style, match["how"] + match["op"]), ("", rest + colon), (style, why)]


def source(text: str, file: str) -> Line:
    """A numbered line of the file, as `render.numbered` or `render.source_line` gives it."""
    match = _NUMBERED.match(text)
    if match is None:
        return [("", text)]
    lines = python(file)
    number = int(match["number"])
    rest = text[match.end() :]
    # The pattern may have taken its indent for blanks after the number.
    painted = lines[number - 1] if number <= len(lines) else []
    code = plain(painted).rstrip()
    if not code or not text.endswith(code):
        painted, code = [("", rest)], rest
    return [*_head(text[: len(text) - len(code)], match["mark"] == "=>"), *painted]


def listing(text: str) -> Line:
    """A line of a program's listing, numbered or not."""
    match = _NUMBERED.match(text)
    end = match.end() if match else 0
    head = _head(text[:end], bool(match and match["mark"] == "=>"))
    return [*head, *_found(text[end:], _LISTING, _listing_style)]


def tree(text: str) -> Line:
    """A line of a drawing of ops and variables."""
    return _found(text, _TREE, lambda match: _TREE_STYLES[match.lastgroup or "branch"])


def python(file: str) -> list[Line]:
    """The file's lines; empty when it cannot be read."""
    try:
        status = os.stat(file)
    except OSError:
        return []
    return _python(file, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=64)
def _python(file: str, changed: int, size: int) -> list[Line]:
    # Imported here: batches need no colours.
    from pygments.lexers.python import PythonLexer

    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            text = opened.read()
    except OSError:
        return []
    lines: list[Line] = [[]]
    for token, value in PythonLexer(stripnl=False, ensurenl=False).get_tokens(text):
        style = next((s for name, s in _PYTHON_STYLES if str(token).startswith(name)), "")
        first, *others = value.split("\n")
        lines[-1].append((style, first))
        lines += [[(style, other)] for other in others]
    return lines


def wrap(line: Line, width: int, hard: bool = False) -> list[Line]:
    """Wraps at words into rows that fit; further rows align with the last column.

    A word that is too long stays whole, so that it can be copied, or is cut when that is hard.
    """
    text = plain(line)
    if len(text) <= width:
        return [line]
    rows: list[Line] = []
    for indent, start, end in _rows(text, max(width, 8), hard):
        rows.append([*([("", " " * indent)] if indent else []), *_cut(line, start, end)])
    return rows


def _rows(text: str, width: int, hard: bool) -> list[tuple[int, int, int]]:
    """For each row its indent and its part of the text."""
    columns = [match.end() for match in re.finditer(r"(?<=\S)\s{2,}(?=\S)|^\s+", text)]
    below = max((column for column in columns if column <= width // 2), default=0) or 4
    rows: list[tuple[int, int, int]] = []
    start, indent = 0, 0
    while start < len(text):
        end = _row_end(text, start, width - indent, hard)
        rows.append((indent, start, start + len(text[start:end].rstrip())))
        start = end + len(text[end:]) - len(text[end:].lstrip())
        indent = below
    return rows


def _row_end(text: str, start: int, room: int, hard: bool) -> int:
    if len(text) - start <= room:
        return len(text)
    # Blanks at the beginning of the row are not between words.
    first = start + len(text[start:]) - len(text[start:].lstrip())
    end = text.rfind(" ", first, start + room + 1)
    if end >= 0:
        return end
    if hard:
        return start + room
    end = text.find(" ", max(start + room, first))
    return end if end >= 0 else len(text)


def _cut(line: Line, start: int, end: int) -> Line:
    pieces: Line = []
    at = 0
    for style, text in line:
        part = text[max(start - at, 0) : max(end - at, 0)]
        if part:
            pieces.append((style, part))
        at += len(text)
    return pieces


def _head(text: str, current: bool) -> Line:
    return [("bold yellow" if current else FAINT, text)]


def _listing_style(match: re.Match[str]) -> str:
    return _LISTING_STYLES[match.lastgroup or "comment"]


def _found(
    text: str,
    pattern: re.Pattern[str],
    style_of: Callable[[re.Match[str]], str],
    style: str = "",
) -> Line:
    """Matches of the pattern in their styles, the rest in the given one."""
    pieces: Line = []
    at = 0
    for match in pattern.finditer(text):
        if match.start() > at:
            pieces.append((style, text[at : match.start()]))
        pieces.append((style_of(match), match[0]))
        at = match.end()
    return [*pieces, (style, text[at:])] if at < len(text) or not pieces else pieces
