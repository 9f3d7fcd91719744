"""Line numbers of keys in a TOML file, which the standard library's parser does not give."""

from __future__ import annotations

import re

Path = tuple[str | int, ...]

_PIECE = re.compile(
    r'"""(?:\\.|[^\\])*?"""|'
    + r"'''.*?'''|"
    + r'"(?:\\.|[^"\\\n])*"|'
    + r"'[^'\n]*'|"
    + r"#[^\n]*|.",
    re.DOTALL,
)
_KEY = re.compile(r"""\s*("(?:\\.|[^"\\])*"|'[^']*'|[A-Za-z0-9_-]+)\s*(\.)?""")


class Lines:
    """The lines of a text that TOML's parser has accepted."""

    def __init__(self, text: str) -> None:
        self._known: dict[Path, int] = {}
        table: Path = ()
        counts: dict[Path, int] = {}
        for number, line in _logical_lines(text):
            if line.startswith("[["):
                name = self._inside(_keys(line[2:])[0], counts)
                index = counts[name] = counts.get(name, -1) + 1
                table = (*name, index)
                self._known.setdefault(name, number)
                self._known[table] = number
            elif line.startswith("["):
                table = self._inside(_keys(line[1:])[0], counts)
                self._known[table] = number
            else:
                keys, rest = _keys(line)
                if keys and rest.lstrip().startswith("="):
                    for end in range(1, len(keys) + 1):
                        self._known.setdefault((*table, *keys[:end]), number)

    def of(self, path: Path) -> int:
        """The line of that key, or of the nearest thing around it."""
        while path and path not in self._known:
            path = path[:-1]
        return self._known.get(path, 1)

    @staticmethod
    def _inside(keys: Path, counts: dict[Path, int]) -> Path:
        """`[tap.more]` below `[[tap]]` belongs to the last of them."""
        path: Path = ()
        for key in keys:
            path = (*path, key)
            if path in counts and len(path) < len(keys):
                path = (*path, counts[path])
        return path


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Logical lines without comments, with their first number; a value may span several."""
    lines: list[tuple[int, str]] = []
    number = start = 1
    depth = 0
    line = ""
    for piece in _PIECE.findall(text):
        if piece == "\n" and not depth:
            lines.append((start, line.strip()))
            line, start = "", number + 1
        elif not piece.startswith("#"):
            depth += piece in ("[", "{")
            depth = max(depth - (piece in ("]", "}")), 0)
            line += " " if piece == "\n" else piece
        number += piece.count("\n")
    lines.append((start, line.strip()))
    return [(at, found) for at, found in lines if found]


def _keys(text: str) -> tuple[Path, str]:
    """`a."b c".d = 1` to its keys and what follows them."""
    keys: list[str] = []
    at = 0
    while match := _KEY.match(text, at):
        word = match[1]
        keys.append(word[1:-1] if word[0] in "\"'" else word)
        at = match.end()
        if not match[2]:
            break
    return tuple(keys), text[at:]
