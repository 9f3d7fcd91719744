"""The type of a command; tables of commands are beside their handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from opstep_server.cli.sessions.terminal_session import TerminalSession

Handler = Callable[[TerminalSession, str], Awaitable[None]]
# What the words behind a command may become.
Completes = Literal[
    "", "where", "clause", "variable", "op", "breakpoint", "thread", "frame", "display", "catch",
    "expression", "file", "info", "layout", "node", "command",
]  # fmt: skip


@dataclass(frozen=True)
class Command:
    name: str
    aliases: tuple[str, ...]
    usage: str
    # One line.
    short: str
    # What else there is to know; empty when that line says it all.
    long: str
    handler: Handler
    # One for each word; the last is also that of all further ones.
    completes: Completes | tuple[Completes, ...] = ""
    # An empty line does it again.
    repeats: bool = False
    # `/FORMAT` may stand right behind the name; with `only_form` it must, as in `x/4 w`.
    form: bool = False
    only_form: bool = False


def split(text: str) -> tuple[str, str, str]:
    """`print/x w` to the command, the stroke and the rest; mostly there is none."""
    word, _, args = text.partition(" ")
    name, slash, form = word.partition("/")
    return (name, slash, f"{form} {args}") if slash else (word, "", args)
