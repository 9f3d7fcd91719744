"""Dispatch of a typed line: to a command, an alias, an assignment or an expression."""

from __future__ import annotations

import re

from opstep_server import assignment, expr
from opstep_server.cli.commands.command import Command, split
from opstep_server.cli.commands.command_table import BY_NAME, find, matching
from opstep_server.cli.commands.foreign_words import FOREIGN
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError
from opstep_server.functions import FUNCTIONS, SPECIAL_NAMES
from opstep_server.wire import debug_pb2 as pb

# After a word that is both a command and a variable: `w + 1`.
_OPERATION = re.compile(r"(?:\*\*|//|[<>=!]=|[-+*/@%<>&|^])\s+\S")


async def run(session: TerminalSession, text: str) -> tuple[Command, str] | None:
    """Runs the line; returns the command and its arguments, None for a line that is only kept."""
    if session.macros.take(text):
        return None
    command, args = await meaning(session, text)
    await do(session, command, args)
    return command, args


async def do(session: TerminalSession, command: Command, args: str) -> None:
    """Runs the command, and then the commands of the breakpoints where it stopped."""
    waits = session.waits
    await _handle(session, command, args)
    while session.waits != waits and session.stopped is not None:
        waits = session.waits
        if session.stopped.reason != pb.STOP_BREAKPOINT or session.interrupted:
            return
        for line in session.macros.at(session.stopped):
            if line != "silent":
                command, args = await meaning(session, line)
                await _handle(session, command, args)
            if session.waits != waits or session.quitting:
                break


async def _handle(session: TerminalSession, command: Command, args: str) -> None:
    session.notes.clear()
    await command.handler(session, args)
    session.show_notes()


async def meaning(session: TerminalSession, text: str) -> tuple[Command, str]:
    """The command of the line and its arguments."""
    text = session.macros.expanded(text.strip())
    if text.startswith("!"):
        return BY_NAME["print"], text[1:].strip()
    if assignment.assignment(text) or assignment.spelt_out(text):
        return BY_NAME["set"], text
    word, slash, args = split(text)
    found = BY_NAME.get(word)
    if found is not None and _is_command(found, slash, args, text):
        return found, f"{slash}{args}".strip()
    begun = matching(word) if found is None and not slash else []
    if begun and text == word and word in await _visible(session):
        begun = []  # A variable's whole name wins over a prefix of a command.
    if begun or (word in FOREIGN and text.split() and word == text.split()[0]):
        return find(word), args.strip()
    if not _is_expression(text):
        return find(word), args.strip()  # Raises: there is no such command.
    if text.isidentifier() and text not in FUNCTIONS:
        await _check_there(session, text)
    return BY_NAME["print"], text


def _is_command(command: Command, slash: str, args: str, text: str) -> bool:
    """Whether it is not an expression with a variable of that name: `w / 2`, `w + 1`, bare `x`."""
    if slash:
        return command.form
    if command.only_form:
        return not _is_expression(text)
    takes = command.completes if isinstance(command.completes, tuple) else (command.completes,)
    return not (
        _OPERATION.match(args.strip()) and "expression" not in takes and _is_expression(text)
    )


def _is_expression(text: str) -> bool:
    try:
        expr.parse(text)
    except expr.ExprError as error:
        # Commands contain no brackets and dots.
        return bool(re.match(r"[\w.@]+[(\[]|[(\[]", text)) and error.column > 1
    return True


async def _visible(session: TerminalSession) -> set[str]:
    """The names that expressions may use at the stop."""
    if session.stopped is None:
        return set()
    try:
        names = await session.debugger.names(session.thread.id, session.frame)
    except DebuggerError:
        names = pb.Names()  # The frame is Python's.
    python = (each.name for each in names.python)
    return {*names.variables, *names.slots, *names.attributes, *python}


async def _check_there(session: TerminalSession, name: str) -> None:
    visible = await _visible(session)
    if session.stopped is None:
        find(name)
    if not visible or name in visible or name in SPECIAL_NAMES or name in ("nan", "inf"):
        return
    hint = expr.suggest(name, {*BY_NAME, *visible}) or "'help' lists the commands,"
    raise DebuggerError(
        f"there is no command or variable '{name}' here: {hint} 'info locals' and 'info vars' "
        "show the variables"
    )
