"""Arguments of `break`: the place, options and condition, as text to a spec."""

from __future__ import annotations

import fnmatch
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from opstep_server import expr, inspection
from opstep_server.cli.commands import focus
from opstep_server.cli.output import descriptions
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import (
    BlockWhere,
    BreakpointSpec,
    DataWhere,
    DebuggerError,
    ListingWhere,
    OpWhere,
    PatternWhere,
    SourceWhere,
)
from opstep_server.notebook_cells import is_cell

# The most folders that are searched for a file.
_FOLDERS = 1000
_CLAUSES = ("if", "hits", "log")
# A part of a variable, or an assignment.
_PART = re.compile(r"[^\[\](),=]+[\[(,=].*")


async def parse(session: TerminalSession, args: str, usage: str) -> BreakpointSpec:
    """`WHERE [grad] [if CONDITION] [hits HITS] [log MESSAGE]`."""
    place, rest = _first_word(args)
    _check_place(place, usage)
    tail = _tail(place, rest)
    if place.startswith("var:"):
        spec = await _variable(session, place[4:], tail.changed)
    else:
        spec = await _where(session, place, tail.gradients)
    if tail.gradients and not isinstance(spec.where, PatternWhere | SourceWhere):
        raise DebuggerError(
            f"'grad' goes with a line or a name of ops, not with '{place}': leave it out"
        )
    if tail.changed and not isinstance(spec.where, DataWhere):
        raise DebuggerError(f"'changed' goes with a variable: write 'watch {place} changed'")
    if isinstance(spec.where, DataWhere):
        spec.where = DataWhere(spec.where.variable, tail.changed)
    return tail.complete(spec)


async def parse_watch(session: TerminalSession, args: str, usage: str) -> BreakpointSpec:
    """`VARIABLE [changed] [if CONDITION] [hits HITS] [log MESSAGE]`."""
    place, rest = _first_word(args)
    _check_place(place, usage)
    if re.match(r"[-+*/<>=!]", rest):
        raise DebuggerError(
            f"a variable is watched, not an expression: write 'watch {place} if {args}'"
        )
    tail = _tail(place, rest)
    if tail.gradients:
        raise DebuggerError(f"a gradient is a variable of its own: write 'watch {place}@grad'")
    name = place.removeprefix("var:")
    is_op = name not in session.names.variables and _is_op(session, name)
    try:
        spec = (
            None
            if is_op and session.stopped is None
            else await _variable(session, name, tail.changed)
        )
    except DebuggerError:
        if not is_op:
            raise
        spec = None
    if spec is None:
        raise DebuggerError(f"'{name}' is an op, not a variable: write 'break {name}'")
    return tail.complete(spec)


def _check_place(place: str, usage: str) -> None:
    if place == "if":
        raise DebuggerError(f"there is no place before 'if': write '{usage}'")
    if not place:
        raise DebuggerError(f"write '{usage}'")


async def _variable(session: TerminalSession, name: str, changed: bool) -> BreakpointSpec:
    """At a stop by the names of expressions; `var("x")` and other times by its own name."""
    if not name:
        raise DebuggerError("there is no name after 'var:': write var:fc_0.w")
    if own := inspection.own_name(name):
        return BreakpointSpec(DataWhere(own, changed))
    if session.stopped is not None and not _PART.fullmatch(name):
        return BreakpointSpec(DataWhere((await focus.variable(session, name)).variable, changed))
    if whole := re.match(r"([^\[\](),=]+)[\[(,=]", name):
        raise DebuggerError(
            f"'{name}' is not a variable name: 'watch {whole[1]}' takes all of it, and a condition "
            "may look at a part"
        )
    return BreakpointSpec(DataWhere(name, changed))


# ---- options of a place --------------------------------------------------------------------------


@dataclass
class _Tail:
    gradients: bool = False
    changed: bool = False
    condition: str | None = None
    hits: str | None = None
    log: str | None = None

    def complete(self, spec: BreakpointSpec) -> BreakpointSpec:
        spec.condition, spec.hit_condition, spec.log_message = self.condition, self.hits, self.log
        return spec


def _tail(place: str, rest: str) -> _Tail:
    tail = _Tail()
    while rest:
        word, _, after = rest.partition(" ")
        rest = after.strip()
        if word in ("grad", "changed"):
            tail.gradients |= word == "grad"
            tail.changed |= word == "changed"
        elif word not in _CLAUSES:
            raise DebuggerError(
                f"'{word}' is not understood after '{place}': what may follow are grad, "
                "if CONDITION, hits HITS and log MESSAGE"
            )
        elif not rest:
            missing = {"if": "condition", "hits": "number of hits", "log": "message"}
            raise DebuggerError(f"there is no {missing[word]} after '{word}'")
        elif word == "if":
            tail.condition, rest = _condition(rest)
        elif word == "hits":
            tail.hits, rest = _hits(rest)
        else:
            tail.log, rest = rest, ""
    return tail


def _condition(text: str) -> tuple[str, str]:
    """The condition and what follows it; `log` and `hits` may also be names in it."""
    for clause in re.finditer(r"\s+(?=(?:log|hits)(?:\s|$))", text):
        try:
            expr.parse(text[: clause.start()])
        except DebuggerError:
            continue
        return text[: clause.start()], text[clause.end() :]
    return text, ""


def _hits(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"([=!<>%]*\s*\S+)(?:\s+(.*))?", text)
    return (match[1], match[2] or "") if match else (text, "")


def _first_word(text: str) -> tuple[str, str]:
    """The first word and the rest; quotes may enclose a word with spaces."""
    match = re.fullmatch(r"\s*(?:([\"'])(.*?)\1(\S*)|(\S*))\s*(.*)", text)
    if match is None:
        return "", ""
    return (match[2] + match[3] if match[1] else match[4]), match[5].strip()


# ---- the place -----------------------------------------------------------------------------------


async def _where(session: TerminalSession, text: str, gradients: bool) -> BreakpointSpec:
    if text.startswith("#"):
        return BreakpointSpec(_op(session, text))
    if text.isdecimal() and session.target.module:
        # A saved program has no script.
        return BreakpointSpec(_listing(session, f"listing:{text}"))
    if text.isdecimal():
        return _line(session, session.target.program, int(text), gradients)
    if text == "listing" or text.startswith("listing:"):
        return BreakpointSpec(_listing(session, text))
    if text.startswith("block:"):
        if text == "block:":
            raise DebuggerError("write the op that runs the block, or its number: block:while_0")
        return BreakpointSpec(BlockWhere(text.removeprefix("block:")))
    if re.fullmatch(r"-\d+", text):
        raise DebuggerError(f"there is no line {text}: lines count from 1")
    file, colon, line = text.rpartition(":")
    if colon and line.isdecimal():
        return _line(session, file, int(line), gradients)
    if colon and file.endswith(".py"):
        raise DebuggerError(f"'{line}' is not a line number: write {file}:12")
    if text.endswith(".py"):
        raise DebuggerError(f"'{text}' is a file: write one of its lines too, {text}:12")
    if text in session.names.variables and not gradients and not _is_op(session, text):
        return await _variable(session, text, False)
    return BreakpointSpec(PatternWhere(f"grad:{text}" if gradients else text))


def _is_op(session: TerminalSession, text: str) -> bool:
    names = session.names
    return text in names.types or bool(fnmatch.filter(names.ops, text))


def _op(session: TerminalSession, text: str) -> OpWhere:
    if not text[1:].isdecimal():
        raise DebuggerError(
            f"'{text}' is not an op: write # and its number, as 'info ops' shows it"
        )
    number = int(text[1:])
    if not session.debugger.programs:
        return OpWhere(0, number)
    program = session.program()
    return OpWhere(program.event.program, number, program.executor.id, program.event.name)


def _listing(session: TerminalSession, text: str) -> ListingWhere:
    match = re.fullmatch(r"listing:(?:(.+):)?(\d+)", text)
    if match is None:
        wrong = text.rpartition(":")[2] if ":" in text else ""
        if not wrong:
            raise DebuggerError("write a line of the listing: listing:7, or listing:PROGRAM:7")
        start = text.rpartition(":")[0]
        raise DebuggerError(f"'{wrong}' is not a line number: write {start}:12")
    name = match[1] or (session.program().event.name if session.debugger.programs else "")
    return ListingWhere(name, int(match[2]))


def _line(session: TerminalSession, file: str, line: int, gradients: bool) -> BreakpointSpec:
    if line < 1:
        raise DebuggerError(f"there is no line {line}: lines count from 1")
    if is_cell(file):
        return BreakpointSpec(SourceWhere(file, line), gradients=gradients)
    found = find_file(session, file)
    try:
        with open(found, "rb") as lines:
            count = sum(1 for _ in lines)
    except OSError as error:
        raise DebuggerError(f"cannot read {file}: {error.strerror}") from error
    if line > count:
        plural = "" if count == 1 else "s"
        raise DebuggerError(f"there is no line {line}: {file} has {count} line{plural}")
    return BreakpointSpec(SourceWhere(found, line), gradients=gradients)


def find_file(session: TerminalSession, file: str) -> str:
    folders = (os.getcwd(), os.path.dirname(session.script))
    for folder in folders:
        candidate = os.path.join(folder, os.path.expanduser(file))
        if os.path.isfile(candidate):
            return os.path.realpath(candidate)
    # Before the script runs, files of its folders; later also the files where ops were made.
    known = session.names.files | set(_python_files(os.path.dirname(session.script)))
    ending = os.sep + os.path.normpath(file)
    found = sorted({os.path.realpath(path) for path in known if path.endswith(ending)})
    if len(found) > 1:
        raise DebuggerError(f"'{file}' may be " + " or ".join(map(descriptions.path, found)))
    if not found:
        raise DebuggerError(f"there is no file {file} here, below the script or among its sources")
    return found[0]


def _python_files(folder: str) -> Iterator[str]:
    """The Python files below the folder; of a very large tree only the first."""
    for path, folders, files in itertools.islice(os.walk(folder), _FOLDERS):
        # Hidden folders, environments and caches do not hold the user's sources.
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "__"))
            and not os.path.exists(os.path.join(path, name, "pyvenv.cfg"))
        )
        yield from (os.path.join(path, file) for file in files if file.endswith(".py"))
