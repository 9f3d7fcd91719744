"""Completion at the prompt, from the table of commands and the names of the program."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from opstep_server.cli.commands.command import Completes
from opstep_server.cli.commands.command_table import COMMANDS, find
from opstep_server.cli.commands.info_commands import INFO
from opstep_server.cli.commands.layout_commands import PANES
from opstep_server.cli.output import descriptions
from opstep_server.cli.sessions.fault_settings import FAULT_KINDS
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError
from opstep_server.functions import FUNCTIONS, SPECIAL_NAMES
from opstep_server.wire import debug_pb2 as pb

# Names of ops and variables contain dots.
_EXPRESSION_WORD = re.compile(r"[\w.@]*$")
# The literal words in a usage: `quit [detach | terminate]`.
_OWN_WORD = re.compile(r"(?<![\w'])[a-z]+(?!\w)")
_NO_METHODS = ("where", "grad")
# Words that may follow a place.
_CLAUSES = {
    "if": "a condition",
    "grad": "the gradients",
    "hits": "which visits count",
    "log": "a message instead of a stop",
}
_PYTHON = (".py",)


class Candidate(NamedTuple):
    word: str
    # Its start relative to the cursor: 0 or less.
    start: int
    # A description.
    about: str = ""


class CommandCompleter(Completer):
    def __init__(self, session: TerminalSession) -> None:
        self._session = session

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        return map(_shown, candidates(self._session, document.text_before_cursor))

    async def get_completions_async(
        self, document: Document, event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        text = document.text_before_cursor
        for candidate in candidates(self._session, text, await _visible(self._session)):
            yield _shown(candidate)


def _shown(candidate: Candidate) -> Completion:
    return Completion(
        candidate.word, start_position=candidate.start, display_meta=candidate.about or None
    )


async def _visible(session: TerminalSession) -> pb.Names:
    """The names that expressions may use in the frame in view."""
    if session.stopped is None:
        return pb.Names()
    try:
        return await session.debugger.names(session.thread.id, session.frame)
    except DebuggerError:
        return pb.Names()  # It went on, or the frame is Python's.


def candidates(
    session: TerminalSession, text: str, visible: pb.Names | None = None
) -> Iterator[Candidate]:
    """The completions of the word at the end of the text."""
    text = text.lstrip()
    if " " not in text:
        found = list(_matching({c.name: c.short for c in COMMANDS}, text))
        yield from found or _in_expression(session, text, visible or pb.Names())
        return
    word, _, args = text.partition(" ")
    try:
        command = find(word.partition("/")[0])
    except DebuggerError:
        yield from _in_expression(session, text, visible or pb.Names())
        return
    kind = _kind(command.completes, args)
    if kind == "expression":
        yield from _in_expression(session, args, visible or pb.Names())
        return
    typed = args.rpartition(" ")[2]
    if kind == "where":
        yield from _places(session, typed)
    elif kind == "file":
        yield from _files(typed)
    else:
        own = dict.fromkeys(_OWN_WORD.findall(command.usage.partition(" ")[2]), "")
        yield from _matching({**own, **_words(session, kind)}, typed)


def _kind(kinds: Completes | tuple[Completes, ...], args: str) -> Completes:
    """The kind of the last word; words after the last kind have that kind too."""
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    words = args.split(" ")
    if len(words) > 1 and {"where", "variable", "catch"} & set(kinds):
        if "if" in words[:-1] or "{" in args:
            return "expression"
        if "catch" not in kinds:
            return "clause"
        return "op" if "in" in words[:-1] else "catch"
    return kinds[min(len(words), len(kinds)) - 1]


def _words(session: TerminalSession, kind: Completes) -> dict[str, str]:
    """The words of that kind, each with a description."""
    if kind == "breakpoint":
        return {str(b.id): descriptions.where(b.spec) for b in session.debugger.breakpoints}
    if kind == "thread":
        return {str(thread.id): thread.name for thread in session.debugger.threads}
    if kind == "frame":
        frames = session.stopped.frames if session.stopped is not None else ()
        return {str(index): descriptions.frame_line(frame) for index, frame in enumerate(frames)}
    if kind == "display":
        return {str(each.number): each.text for each in session.displays.all.values()}
    if kind == "catch":
        return {**dict.fromkeys((*FAULT_KINDS, "off"), ""), "if": "a condition", "in": "chosen ops"}
    if kind == "op":
        return _ops(session)
    if kind == "variable":
        return {name: session.names.about.get(name, "") for name in session.names.variables}
    if kind == "node":
        return {**_ops(session), **_words(session, "variable")}
    if kind == "clause":
        return _CLAUSES
    if kind == "info":
        return dict.fromkeys(INFO, "")
    if kind == "layout":
        return {"off": "back to lines", **dict.fromkeys(PANES, "a pane")}
    if kind == "command":
        commands = {command.name: command.short for command in COMMANDS}
        return {**commands, "expressions": "what can be computed"}
    return {}


def _in_expression(session: TerminalSession, text: str, visible: pb.Names) -> Iterator[Candidate]:
    match = _EXPRESSION_WORD.search(text)
    typed = match[0] if match else ""
    slots = dict.fromkeys((*visible.slots, *visible.attributes), "of the op")
    names = {python.name: python.variable for python in visible.python}
    for name in (*visible.variables, *session.names.variables):
        names.setdefault(name, session.names.about.get(name, ""))
    functions = {name: function.doc for name, function in FUNCTIONS.items()}
    # The nearest come first, as a name means the first that has it.
    told: set[str] = set()
    for words in (slots, names, SPECIAL_NAMES, functions):
        yield from _matching({w: words[w] for w in words if w not in told}, typed)
        told.update(words)
    names |= slots
    # The text before the last dot may be a value, which has functions as methods.
    before, dot, method = typed.rpartition(".")
    if dot and (before in names or text[: -len(typed)].endswith(("]", ")"))):
        methods = {name: doc for name, doc in functions.items() if name not in _NO_METHODS}
        yield from _matching(methods, method)


def _places(session: TerminalSession, typed: str) -> Iterator[Candidate]:
    """Types and names of ops; Python files, and after the colon their lines that made ops."""
    names = session.names
    for start, known_names in (("block:", names.blocks), ("var:", names.variables)):
        if typed.startswith(start):
            about = {f"{start}{name}": names.about.get(name, "") for name in known_names}
            yield from _matching(about, typed)
            return
    file, colon, line = typed.rpartition(":")
    if colon:
        known = {descriptions.path(each): each for each in session.names.lines}
        found = known.get(file, os.path.realpath(file))
        lines = sorted(session.names.lines.get(found, ()))
        about = {str(number): linecache.getline(found, number).strip() for number in lines}
        yield from _matching(about, line, order=False)
        return
    words = _ops(session)
    words |= {"block:": "the entries of a block", "var:": "what writes a variable"}
    words |= {f"{descriptions.path(each)}:": "" for each in names.files | {session.script}}
    yield from _matching(words, typed)
    if typed:
        for path in _files(typed, _PYTHON):
            word = path.word if path.word.endswith(os.sep) else f"{path.word}:"
            if word not in words:
                yield Candidate(word, path.start)


def _ops(session: TerminalSession) -> dict[str, str]:
    names = session.names
    ops = {name: names.about.get(name, "") for name in names.ops}
    return ops | dict.fromkeys(names.types, "all ops of the type")


def _files(typed: str, endings: tuple[str, ...] = ()) -> Iterator[Candidate]:
    """Paths that begin with the text; folders end with a slash."""
    folder, name = os.path.split(typed)
    try:
        there = sorted(os.listdir(os.path.expanduser(folder) or "."))
    except OSError:
        return
    for last in there:
        # Hidden files only after a dot was typed.
        if not last.startswith(name) or (last[0] == "." and not name):
            continue
        word = os.path.join(folder, last)
        if os.path.isdir(os.path.expanduser(word)):
            yield Candidate(word + os.sep, -len(typed))
        elif not endings or last.endswith(endings):
            yield Candidate(word, -len(typed))


def _matching(words: dict[str, str], typed: str, order: bool = True) -> Iterator[Candidate]:
    for word in sorted(words) if order else words:
        if word.startswith(typed):
            yield Candidate(word, -len(typed), words[word])
