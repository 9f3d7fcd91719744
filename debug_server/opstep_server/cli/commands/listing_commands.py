"""The command `list`: lines of Python files and of program listings."""

from __future__ import annotations

import ast
import linecache
import os
import re
from dataclasses import dataclass

from opstep_server import expr
from opstep_server.cli.commands import focus, graph_commands
from opstep_server.cli.commands.command import Command
from opstep_server.cli.output import descriptions, margin
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError, ProgramRef
from opstep_server.notebook_cells import is_cell

# Lines shown at a time.
_LINES = 11
_USAGE = (
    "write 'list', 'list -', 'list LINE', 'list FIRST,LAST', 'list FILE:LINE', 'list #OP' "
    "or 'list listing'"
)
_PLACE = re.compile(r"(?:(?P<file>.+):)?(?P<first>\d+)(?:\s*,\s*(?P<last>\d+))?")


@dataclass
class Listed:
    """The lines shown last, from which 'list' continues."""

    # A file, or a program.
    what: str | ProgramRef
    first: int
    last: int
    # The place in view then; when it changes, 'list' starts there.
    seen: tuple[object, ...]


async def list_(session: TerminalSession, args: str) -> None:
    before = session.listed
    if before is not None and before.seen != _seen(session):
        before = session.listed = None
    if args in ("", "+", "-") and before is not None:
        await _go_on(session, before, args)
    elif args in ("", "source", "+", "-"):
        await _show_source(session, args)
        if args == "" and session.stopped is not None:
            await _show_listing(session, focus.listing_line(session))
    elif args == "listing" or args.startswith("listing "):
        number = args.removeprefix("listing").strip()
        if number and not number.isdecimal():
            raise DebuggerError(f"'{number}' is not a line of the listing: {_USAGE}")
        line = int(number) if number else _listing_line(session)
        await _show_listing(session, line, last=True)
    elif args.startswith("#"):
        op = await graph_commands.find(session, args)
        readable = bool(op.stack) and not is_cell(op.stack[0].file)
        if readable:
            await _show_file(session, op.stack[0].file, op.stack[0].line, asked=True)
        await _show_listing(session, op.listing_line, last=not readable)
    else:
        await _show_place(session, args)


async def longlist(session: TerminalSession, args: str) -> None:
    if args:
        raise DebuggerError("'ll' takes nothing after it: 'list FIRST,LAST' shows those lines")
    file, line = session.line_in_view if session.stopped is not None else (session.script, 1)
    if not file or is_cell(file):
        raise DebuggerError("no file is in view: 'list listing' shows the ops")
    lines = await _lines(session, file)
    await _show(session, file, *_function(lines, line))


def _function(lines: list[str], line: int) -> tuple[int, int]:
    """The lines of the innermost function around that line; without one, all lines."""
    first, last = 1, len(lines)
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return first, last
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            start = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            end = node.end_lineno or node.lineno
            if start <= line <= end and end - start < last - first:
                first, last = start, end
    return first, last


async def _show_source(session: TerminalSession, args: str) -> None:
    if session.stopped is None:
        await _show_file(session, session.script, 1)
        return
    file, line = session.line_in_view
    if is_cell(file) and args:
        raise DebuggerError(f"{file} is a notebook's cell: 'list listing' shows the ops")
    if file and not is_cell(file):
        await _show_file(session, file, line)
    elif args:
        raise DebuggerError("no Python line made this op: 'list listing' shows it")


async def _show_place(session: TerminalSession, args: str) -> None:
    match = _PLACE.fullmatch(args)
    if match is None:
        hint = expr.suggest(args, ("source", "listing")) or _USAGE
        raise DebuggerError(f"'{args}' is not a place to list: {hint}")
    first, last = int(match["first"]), int(match["last"] or 0)
    if not first:
        raise DebuggerError("there is no line 0: lines count from 1")
    if last and last < first:
        raise DebuggerError(f"line {last} is before line {first}: write 'list {last},{first}'")
    if match["file"]:
        file = file_of(session, match["file"])
    else:
        file = session.script
        if isinstance(session.listed, Listed) and isinstance(session.listed.what, str):
            file = session.listed.what
        elif session.stopped is not None:
            file = session.line_in_view[0] or file
    if last:
        await _show(session, file, first, last)
    else:
        await _show_file(session, file, first, asked=True)


def file_of(session: TerminalSession, name: str) -> str:
    """The file by its name in the stack, or by path."""
    known = {file for file in session.names.files if os.path.basename(file) == name}
    if len(known) == 1:
        return known.pop()
    path = os.path.abspath(os.path.expanduser(name))
    if not os.path.isfile(path):
        hint = expr.suggest(name, [descriptions.path(file) for file in session.names.files])
        raise DebuggerError(f"there is no file '{name}'" + (f": {hint}" if hint else ""))
    return path


async def _show_file(session: TerminalSession, file: str, line: int, asked: bool = False) -> None:
    first = max(1, line - _LINES // 2)
    await _show(session, file, first, first + _LINES - 1, line if asked else 0)


def _listing_line(session: TerminalSession) -> int:
    return focus.listing_line(session) if session.stopped is not None else 1


async def _show_listing(session: TerminalSession, line: int, last: bool = False) -> None:
    """With `last`, 'list' continues from there."""
    before = session.listed
    first = max(1, line - _LINES // 2)
    await _show(session, session.program(), first, first + _LINES - 1, line)
    if not last and before is not None:
        session.listed = before


async def _go_on(session: TerminalSession, before: Listed, args: str) -> None:
    if args == "-":
        if before.first <= 1:
            raise DebuggerError("these were the first lines: 'list LINE' goes elsewhere")
        await _show(session, before.what, max(1, before.first - _LINES), before.first - 1)
    else:
        lines = await _lines(session, before.what)
        if before.last >= len(lines):
            raise DebuggerError("these were the last lines: 'list -' goes back")
        await _show(session, before.what, before.last + 1, before.last + _LINES)


async def _lines(session: TerminalSession, what: str | ProgramRef) -> list[str]:
    if not isinstance(what, str):
        return await session.debugger.listing(what)
    linecache.checkcache(what)
    lines = linecache.getlines(what)
    if not lines:
        raise DebuggerError(f"{descriptions.path(what)} cannot be read")
    return lines


async def _show(
    session: TerminalSession, what: str | ProgramRef, first: int, last: int, asked: int = 0
) -> None:
    """Shows the existing ones of these lines; marks the requested one."""
    lines = await _lines(session, what)
    name = descriptions.path(what) if isinstance(what, str) else f"the listing of {what.event.name}"
    if first > len(lines):
        raise DebuggerError(f"{name} has {len(lines)} lines")
    last = min(last, len(lines))
    session.listed = Listed(what, first, last, _seen(session))
    title = name if isinstance(what, str) else name.removeprefix("the ")
    session.screen.line(f"{title}:", "bold")
    if isinstance(what, str):
        signs = margin.of_source(session.debugger.breakpoints, what)
    else:
        ops = await session.debugger.ops(what)
        signs = margin.of_listing(session.debugger.breakpoints, what, ops)
    marks = {asked: " >", _current(session, what): "=>"}
    for line in descriptions.numbered(lines, first, last, marks, signs):
        if isinstance(what, str):
            session.screen.source(line, what)
        else:
            session.screen.listing(line)


def _current(session: TerminalSession, what: str | ProgramRef) -> int:
    """The line in view, if it is in this file or listing; otherwise 0."""
    if session.stopped is None:
        return 0
    if isinstance(what, str):
        file, line = session.line_in_view
        return line if file and os.path.realpath(file) == os.path.realpath(what) else 0
    return focus.listing_line(session) if what == session.program() else 0


def _seen(session: TerminalSession) -> tuple[object, ...]:
    stopped = session.stopped
    return (stopped.stop if stopped is not None else 0, session.frame, focus.walked(session))


COMMANDS = (
    Command(
        "list", ("l",), "list [PLACE]",
        "show the source around the line and the listing around the op",
        "PLACE is LINE, FIRST,LAST, FILE:LINE, #OP, 'source', 'listing' or 'listing LINE'.\n"
        "Without one it shows the place in view, and then the lines that follow; 'list -' those "
        "before.\n"
        "The place in view is marked with =>, the one asked for with >,\n"
        "breakpoints with ●, or ○ when they cannot stop.",
        list_, "where", repeats=True,
    ),
    Command(
        "longlist", ("ll",), "longlist",
        "show the whole function of the line in view", "Outside of functions, the whole file.",
        longlist,
    ),
)  # fmt: skip
