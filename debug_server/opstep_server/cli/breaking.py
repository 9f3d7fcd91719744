"""Handlers of the commands that say where to stop."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator

from opstep_server.cli import render
from opstep_server.cli.command import Command
from opstep_server.cli.session import Session
from opstep_server.debugger import (
    BreakpointSpec,
    DataWhere,
    DebuggerError,
    ListingWhere,
    OpWhere,
    PatternWhere,
    SourceWhere,
)

# How many folders are looked through for a file.
_FOLDERS = 1000
CATCHES = ("nan", "inf", "overflow", "error")


async def break_(session: Session, args: str) -> None:
    await _add(session, args, temporary=False)


async def tbreak(session: Session, args: str) -> None:
    await _add(session, args, temporary=True)


async def _add(session: Session, args: str, temporary: bool) -> None:
    place, condition = _split_condition(args)
    words = place.split()
    gradients = len(words) == 2 and words[1] == "grad"
    if len(words) != 1 and not gradients:
        raise DebuggerError("write 'break WHERE [grad] [if CONDITION]', see 'help break'")
    spec = parse_where(session, words[0], gradients)
    spec.condition = condition
    spec.temporary = temporary
    state = await session.debugger.add_breakpoint(spec)
    session.show_breakpoint(state)


def parse_where(session: Session, text: str, gradients: bool) -> BreakpointSpec:
    if text.startswith("#"):
        if not text[1:].isdecimal():
            raise DebuggerError(
                f"'{text}' is no op: write # and its number, as 'info ops' shows it"
            )
        program = session.program()
        where = OpWhere(program.event.program, int(text[1:]), program.executor.id)
        return BreakpointSpec(where)
    if text.isdecimal():
        return _line(session, session.target.program, int(text), gradients)
    listing = re.fullmatch(r"listing:(?:(.+):)?(\d+)", text)
    if listing:
        name = listing[1] or session.program().event.name
        return BreakpointSpec(ListingWhere(name, int(listing[2])))
    if re.fullmatch(r"-\d+", text):
        raise DebuggerError(f"there is no line {text}: lines count from 1")
    file, colon, line = text.rpartition(":")
    if colon and line.isdecimal():
        return _line(session, file, int(line), gradients)
    if colon and (file == "listing" or file.startswith("listing:") or file.endswith(".py")):
        raise DebuggerError(f"'{line}' is no line's number: write {file}:12")
    return BreakpointSpec(PatternWhere(f"grad:{text}" if gradients else text))


def _line(session: Session, file: str, line: int, gradients: bool) -> BreakpointSpec:
    found = _find_file(session, file)
    if line < 1:
        raise DebuggerError(f"there is no line {line}: lines count from 1")
    try:
        with open(found, "rb") as lines:
            count = sum(1 for _ in lines)
    except OSError as error:
        raise DebuggerError(f"cannot read {file}: {error.strerror}") from error
    if line > count:
        plural = "" if count == 1 else "s"
        raise DebuggerError(f"there is no line {line}: {file} has {count} line{plural}")
    return BreakpointSpec(SourceWhere(found, line), gradients=gradients)


def _find_file(session: Session, file: str) -> str:
    folders = (os.getcwd(), os.path.dirname(session.script))
    for folder in folders:
        candidate = os.path.join(folder, os.path.expanduser(file))
        if os.path.isfile(candidate):
            return os.path.realpath(candidate)
    # Before the script runs its folders say what it may import, then the ops where they were made.
    known = session.names.files | set(_python_files(os.path.dirname(session.script)))
    ending = os.sep + os.path.normpath(file)
    found = sorted({os.path.realpath(path) for path in known if path.endswith(ending)})
    if len(found) > 1:
        raise DebuggerError(f"'{file}' may be " + " or ".join(map(render.path, found)))
    if not found:
        raise DebuggerError(f"there is no file {file} here, below the script or among its sources")
    return found[0]


def _python_files(folder: str) -> Iterator[str]:
    """Those below the folder; of a very large tree only the first."""
    for path, folders, files in itertools.islice(os.walk(folder), _FOLDERS):
        # Hidden ones, environments and caches hold nobody's own sources.
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "__"))
            and not os.path.exists(os.path.join(path, name, "pyvenv.cfg"))
        )
        yield from (os.path.join(path, file) for file in files if file.endswith(".py"))


async def delete(session: Session, args: str) -> None:
    ids = _ids(args) if args else [b.id for b in session.debugger.breakpoints]
    for id in ids:
        await session.debugger.remove_breakpoint(id)


async def condition(session: Session, args: str) -> None:
    id, text = _id_and_text(args, "condition NUMBER [CONDITION]")
    session.show_breakpoint(await session.debugger.update_breakpoint(id, condition=text))


async def enable(session: Session, args: str) -> None:
    await _enable(session, args, True)


async def disable(session: Session, args: str) -> None:
    await _enable(session, args, False)


async def _enable(session: Session, args: str, enabled: bool) -> None:
    ids = _ids(args) if args else [b.id for b in session.debugger.breakpoints]
    for id in ids:
        await session.debugger.update_breakpoint(id, enabled=enabled)


async def hits(session: Session, args: str) -> None:
    id, text = _id_and_text(args, "hits NUMBER [HITS]")
    session.show_breakpoint(await session.debugger.update_breakpoint(id, hit_condition=text))


async def log(session: Session, args: str) -> None:
    id, text = _id_and_text(args, "log NUMBER [MESSAGE]")
    session.show_breakpoint(await session.debugger.update_breakpoint(id, log_message=text))


async def watch(session: Session, args: str) -> None:
    place, condition = _split_condition(args)
    words = place.split()
    changed = len(words) == 2 and words[1] == "changed"
    if len(words) != 1 and not changed:
        raise DebuggerError("write 'watch VARIABLE [changed] [if CONDITION]'")
    spec = BreakpointSpec(DataWhere(words[0], changed), condition=condition)
    session.show_breakpoint(await session.debugger.add_breakpoint(spec))


async def catch(session: Session, args: str) -> None:
    words = args.replace(",", " ").split()
    limit = _take_limit(words)
    wrong = [word for word in words if word not in (*CATCHES, "off")]
    if wrong or ("off" in words and len(words) > 1):
        raise DebuggerError(
            "write 'catch' and one or more of nan, inf, overflow and error, or 'catch off'"
        )
    for name in CATCHES:
        if name in words or "off" in words:
            setattr(session.catches, name, "off" not in words)
    if "overflow" in words:
        session.catches.limit = limit
    if words:
        await session.send_catches()
    caught = [name for name in CATCHES if getattr(session.catches, name)]
    if session.catches.limit is not None and session.catches.overflow:
        caught[caught.index("overflow")] += f" beyond {session.catches.limit:g}"
    session.screen.line("catching " + (", ".join(caught) or "nothing"), "none")


def _take_limit(words: list[str]) -> float | None:
    """The number behind 'overflow', taken out of the words."""
    at = words.index("overflow") + 1 if "overflow" in words else len(words)
    if at == len(words):
        return None
    try:
        limit = float(words[at])
    except ValueError:
        return None
    del words[at]
    if not 0 < limit < float("inf"):
        raise DebuggerError(f"{limit:g} is no limit: write a number above 0")
    return limit


def _split_condition(args: str) -> tuple[str, str | None]:
    match = re.match(r"(.*?)(?:^|\s)if\s+(.+)$", args)
    if match:
        return match[1], match[2].strip()
    if re.search(r"\sif$", args):
        raise DebuggerError("there is no condition after 'if'")
    return args, None


def _id_and_text(args: str, usage: str) -> tuple[int, str | None]:
    words = args.split(maxsplit=1)
    if not words:
        raise DebuggerError(f"write '{usage}'")
    (id,) = _ids(words[0])
    return id, words[1] if len(words) > 1 else None


def _ids(text: str) -> list[int]:
    words = text.split()
    for word in words:
        if not word.isdecimal():
            raise DebuggerError(f"'{word}' is no breakpoint's number: see 'info breakpoints'")
    return [int(word) for word in words]


_WHERE = """\
WHERE is one of
  matmul            every op of that type
  fc_0*             every op whose name matches; * and ? stand for any characters
  train.py:12       every op that was made on that line of Python
  12                the same, in the script
  listing:7         the op on that line of the program's listing; listing:NAME:7 names the program
  #14               the op with that number
With 'grad', a line also takes the gradients of its ops and what first fills its parameters,
and a name only gradients.
The condition is an expression, see 'help expressions'. When it names an output of the op the stop
is after the op, otherwise before it.
A breakpoint that matches nothing yet is pending and binds by itself when such an op appears."""

COMMANDS = (
    Command(
        "break", ("b",), "break WHERE [grad] [if CONDITION]",
        "stop at ops", _WHERE, break_, "where",
    ),
    Command(
        "tbreak", ("tb",), "tbreak WHERE [grad] [if CONDITION]",
        "stop at ops, once", "As 'break', but gone after its first stop.",
        tbreak, "where",
    ),
    Command(
        "delete", ("d",), "delete [NUMBER…]",
        "remove breakpoints", "Without a number, all of them.", delete, "breakpoint",
    ),
    Command(
        "condition", (), "condition NUMBER [CONDITION]",
        "change a breakpoint's condition", "Without a condition, it stops always.",
        condition, ("breakpoint", "expression"),
    ),
    Command(
        "enable", (), "enable [NUMBER…]",
        "turn breakpoints on", "Without a number, all of them.", enable, "breakpoint",
    ),
    Command(
        "disable", (), "disable [NUMBER…]",
        "turn breakpoints off", "Without a number, all of them.", disable, "breakpoint",
    ),
    Command(
        "hits", (), "hits NUMBER [HITS]",
        "choose which visits of a breakpoint count",
        "HITS is a number, or ==, !=, <, <=, >, >= or % and a number: 'hits 1 >= 100', "
        "'hits 1 % 10'.\nA visit is counted, from 1, when the condition holds; a line once for all "
        "its ops.\nWithout HITS, every visit stops.",
        hits, "breakpoint",
    ),
    Command(
        "log", (), "log NUMBER [MESSAGE]",
        "write a message instead of stopping",
        "Braces hold expressions, with a format if you like: 'log 1 loss {X.mean():.3f} at {step}'."
        "\nWithout a message, the breakpoint stops again.",
        log, ("breakpoint", "expression"),
    ),
    Command(
        "watch", (), "watch VARIABLE [changed] [if CONDITION]",
        "stop after every op that writes a variable",
        "In any program and block. With 'changed', only when its bytes became others.",
        watch, ("expression", "clause"),
    ),
    Command(
        "catch", (), "catch [FAULT…] | catch off",
        "stop at the first op that makes a NaN or an Inf, or that fails",
        "FAULT is nan, inf, overflow, 'overflow LIMIT' or error; failing ops are caught from the "
        "start.\n"
        "An op is at fault when its inputs had none.\n"
        "Without a LIMIT, numbers beyond 65504 are too large: the largest of float16.",
        catch, "catch",
    ),
)  # fmt: skip
