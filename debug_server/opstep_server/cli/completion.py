"""Completion at the prompt, from the table of commands and from what the program holds."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from opstep_server.cli.breaking import CATCHES
from opstep_server.cli.command import Completes
from opstep_server.cli.commands import COMMANDS, find
from opstep_server.cli.looking import INFO
from opstep_server.cli.session import Session
from opstep_server.debugger import DebuggerError
from opstep_server.functions import FUNCTIONS, SPECIAL_NAMES

# Op and variable names have dots in them.
_EXPRESSION_WORD = re.compile(r"[\w.@]*$")


class CommandCompleter(Completer):
    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        for word, start in candidates(self._session, document.text_before_cursor):
            yield Completion(word, start_position=start)


def candidates(session: Session, text: str) -> Iterable[tuple[str, int]]:
    """Each possible word with the position, from the cursor, where it begins."""
    text = text.lstrip()
    if " " not in text:
        yield from _matching([command.name for command in COMMANDS], text)
        return
    word, _, args = text.partition(" ")
    try:
        kind = find(word).completes
    except DebuggerError:
        return
    if kind == "where" and re.search(r"\sif\s", args):
        kind = "expression"
    if kind == "expression":
        match = _EXPRESSION_WORD.search(args)
        typed = match[0] if match else ""
    else:
        typed = args.rpartition(" ")[2]
    yield from _matching(_words(session, kind), typed)


def _words(session: Session, kind: Completes) -> Iterable[str]:
    names = session.names
    if kind == "where":
        return [*names.types, *names.ops]
    if kind == "breakpoint":
        return [str(state.id) for state in session.debugger.breakpoints]
    if kind == "catch":
        return [*CATCHES, "off"]
    if kind == "expression":
        return [*names.variables, *FUNCTIONS, *SPECIAL_NAMES]
    if kind == "info":
        return INFO
    if kind == "command":
        return [*(command.name for command in COMMANDS), "expressions"]
    return []


def _matching(words: Iterable[str], typed: str) -> Iterable[tuple[str, int]]:
    return ((word, -len(typed)) for word in sorted(set(words)) if word.startswith(typed))
