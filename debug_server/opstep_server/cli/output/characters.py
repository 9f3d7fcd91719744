"""Replacements for characters that a file or a terminal cannot show."""

from __future__ import annotations

import codecs
import io
import sys

_INSTEAD = {
    "→": "->",
    "←": "<-",
    "…": "...",
    "●": "*",
    "○": "o",
    "│": "|",
    "─": "-",
    "└": "`",
    "├": "|",
    "┌": ",",
    "×": "x",
    **dict.fromkeys("▏▎▍", "."),
    **dict.fromkeys("▌▋▊▉█", "#"),
}


def replace_unknown() -> None:
    """Makes output replace characters that it cannot show, instead of failing."""
    codecs.register_error("opstep", _instead)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="opstep")


def writable(text: str) -> bool:
    """Whether the terminal has all these characters."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _instead(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    return "".join(_INSTEAD.get(each, "?") for each in unknown), error.end
