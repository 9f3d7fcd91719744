"""Breakpoints in files of commands: save, restore and source."""

from __future__ import annotations

import os
from collections.abc import Iterator

from opstep_server.cli.commands import breakpoint_arguments, fault_commands
from opstep_server.cli.commands.command import Command
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import (
    BlockWhere,
    BreakpointState,
    DataWhere,
    DebuggerError,
    ListingWhere,
    PatternWhere,
    SourceWhere,
)

# How deep files may read one another.
_DEEPEST = 10
_HEADER = "# opstep breakpoints"
# The commands in a file of breakpoints.
_SAVED = ("break", "tbreak", "watch", "catch", "disable", "commands")


async def source(session: TerminalSession, args: str) -> None:
    await _run(session, _file_name(args, "source FILE"))


async def _run(session: TerminalSession, file: str, only: tuple[str, ...] = ()) -> None:
    # Imported here: the table of commands imports this file.
    from opstep_server.cli.input import dispatch

    lines = _read(file).splitlines()
    path = os.path.realpath(os.path.expanduser(file))
    if path in session.reading:
        raise DebuggerError(f"{file} is being read already: it cannot read itself")
    if len(session.reading) == _DEEPEST:
        raise DebuggerError(
            f"{file} is not read: {_DEEPEST} files that read one another are enough"
        )
    session.reading.append(path)
    try:
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            try:
                if session.macros.take(text):
                    continue
                command, args = await dispatch.meaning(session, text)
                if only and command.name not in only:
                    raise DebuggerError(
                        f"'{command.name}' sets no breakpoint: 'source' runs any commands"
                    )
                if only and command.name == "catch":
                    fault_commands.change(session, args)  # The executors get them all at the end.
                else:
                    await dispatch.do(session, command, args)
            except DebuggerError as error:
                raise DebuggerError(f"{file}:{number}: {error}") from error
            if session.interrupted:
                raise DebuggerError(f"{file}:{number}: Ctrl-C, what follows is not run")
            if session.quitting:
                return
        session.macros.check_ended()
    finally:
        session.macros.collecting = None
        session.reading.pop()


def _read(file: str) -> str:
    try:
        with open(os.path.expanduser(file), encoding="utf-8") as text:
            return text.read()
    except OSError as error:
        raise DebuggerError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DebuggerError(f"cannot read {file}: it is not text") from error


def _file_name(args: str, usage: str) -> str:
    file = args[1:-1] if len(args) > 1 and args[0] == args[-1] in "'\"" else args
    if not file:
        raise DebuggerError(f"write '{usage}'")
    return file


# ---- breakpoints ---------------------------------------------------------------------------------


async def save(session: TerminalSession, args: str) -> None:
    usage = "save breakpoints FILE"
    what, _, rest = args.partition(" ")
    if not "breakpoints".startswith(what):
        raise DebuggerError(f"only breakpoints can be saved: write '{usage}'")
    file = _file_name(rest.strip(), usage)
    path = os.path.expanduser(file)
    if os.path.exists(path) and not (os.path.isfile(path) and _read(path).startswith(_HEADER)):
        raise DebuggerError(f"{file} is there and holds no breakpoints: choose another name")
    _write(path, "".join(f"{line}\n" for line in _lines(session)))
    session.screen.line(f"{_count(session)} saved to {file}")


async def restore(session: TerminalSession, args: str) -> None:
    file = _file_name(args, "restore FILE")
    if not _read(file).startswith(_HEADER):
        raise DebuggerError(f"{file} was not written by 'save breakpoints': 'source' runs it")
    debugger = session.debugger
    before = [state.id for state in debugger.breakpoints]
    if before and not await session.sure(f"replace {_count(session)} by those of {file}?"):
        return
    caught = session.faults.specs()
    session.faults.replace([])
    try:
        await _run(session, file, only=_SAVED)
    except DebuggerError:
        # All of it or nothing.
        for state in [state for state in debugger.breakpoints if state.id not in before]:
            await debugger.remove_breakpoint(state.id)
        session.faults.replace(caught)
        await session.send_faults()
        raise
    for id in before:
        await debugger.remove_breakpoint(id)
    await fault_commands.send(session)
    session.screen.line(f"{_count(session)} restored from {file}")


def _count(session: TerminalSession) -> str:
    count = len(session.debugger.breakpoints)
    return f"{count} breakpoint{'' if count == 1 else 's'}"


def _write(path: str, text: str) -> None:
    """Writes the whole file or nothing."""
    try:
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.new", path)
    except OSError as error:
        raise DebuggerError(f"cannot write {path}: {error.strerror}") from error


def _lines(session: TerminalSession) -> Iterator[str]:
    yield f"{_HEADER}: 'restore' puts them in the place of others, 'source' adds them"
    for words in session.faults.words() or ["off"]:
        yield f"catch {words}"
    for state in session.debugger.breakpoints:
        yield typed(session, state)
        if not state.spec.enabled:
            yield "disable $"
        if commands := session.macros.commands.get(state.id):
            yield from ("commands $", *commands, "end")


def typed(session: TerminalSession, state: BreakpointState) -> str:
    """The command that sets the breakpoint again."""
    spec = state.spec
    place = _quoted(_place(session, state))
    where = spec.where
    if isinstance(where, DataWhere):
        text = f"tbreak var:{place}" if spec.temporary else f"watch {place}"
        text += " changed" if where.changed else ""
    else:
        text = f"{'tbreak' if spec.temporary else 'break'} {place}"
        pattern = isinstance(where, PatternWhere) and where.pattern.startswith("grad:")
        text += " grad" if spec.gradients or pattern else ""
    if spec.condition:
        text += f" if {spec.condition}"
    if spec.hit_condition:
        text += f" hits {spec.hit_condition.strip()}"
    return f"{text} log {spec.log_message}" if spec.log_message else text


def _place(session: TerminalSession, state: BreakpointState) -> str:
    where = state.spec.where
    if isinstance(where, SourceWhere):
        return f"{_short(session, where.file)}:{where.line}"
    if isinstance(where, PatternWhere):
        return where.pattern.removeprefix("grad:")
    if isinstance(where, BlockWhere):
        return f"block:{where.block}"
    if isinstance(where, DataWhere):
        return where.variable
    if isinstance(where, ListingWhere):
        program = f"{where.program_name}:" if where.program_name else ""
        return f"listing:{program}{where.line}"
    if where.program_name and state.first is not None:
        # Each process numbers its programs from the start, but their names stay.
        return f"listing:{where.program_name}:{state.first.listing_line}"
    return f"#{where.op}"


def _short(session: TerminalSession, file: str) -> str:
    """The path relative to the script, so that both can be moved together."""
    short = os.path.relpath(file, os.path.dirname(session.script))
    try:
        return short if breakpoint_arguments.find_file(session, short) == file else file
    except DebuggerError:
        return file


def _quoted(place: str) -> str:
    return f'"{place}"' if " " in place else place


COMMANDS = (
    Command(
        "source", (), "source FILE",
        "run the commands in a file",
        "One a line; # begins a comment. The first that fails ends it, and files may read files.",
        source, "file",
    ),
    Command(
        "save", (), "save breakpoints FILE",
        "write the breakpoints and what is caught to a file",
        "As commands, so that it can be read, changed and given to 'source'.", save, ("", "file"),
    ),
    Command(
        "restore", (), "restore FILE",
        "replace the breakpoints by saved ones",
        "FILE is one that 'save breakpoints' wrote. When a line of it is wrong nothing changes.",
        restore, "file",
    ),
)  # fmt: skip
