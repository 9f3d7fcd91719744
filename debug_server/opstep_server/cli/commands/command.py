"""The type of a command; tables of commands are beside their handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from opstep_server.cli.sessions.terminal_session import TerminalSession

Handler = Callable[[TerminalSession, str], Awaitable[None]]
# The kinds of completion for a command's arguments.
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
    # Further help; may be empty.
    long: str
    handler: Handler
    # One for each argument; the last is also for all further ones.
    completes: Completes | tuple[Completes, ...] = ""
    # An empty line repeats it.
    repeats: bool = False
    # `/FORMAT` may directly follow the name; with `only_form` it must, as in `x/4 w`.
    form: bool = False
    only_form: bool = False


def split(text: str) -> tuple[str, str, str]:
    """`print/x w` to the command, the slash, if there is one, and the rest."""
    word, _, args = text.partition(" ")
    name, slash, form = word.partition("/")
    return (name, slash, f"{form} {args}") if slash else (word, "", args)
