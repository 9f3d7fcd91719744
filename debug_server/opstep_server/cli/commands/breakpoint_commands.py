"""Commands for breakpoints: break, watch, delete, enable, condition, log and others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from opstep_server.cli.commands import breakpoint_arguments, fault_commands
from opstep_server.cli.commands.command import Command
from opstep_server.cli.output import descriptions
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import BreakpointSpec, BreakpointState, DebuggerError, OpWhere

_NONE = "no breakpoints: set one with 'break'"
_TAIL = "[if CONDITION] [hits HITS] [log MESSAGE]"


async def break_(session: TerminalSession, args: str) -> None:
    await _add(session, args, "break", temporary=False)


async def tbreak(session: TerminalSession, args: str) -> None:
    await _add(session, args, "tbreak", temporary=True)


async def _add(session: TerminalSession, args: str, word: str, temporary: bool) -> None:
    if not args and session.stopped is not None:
        spec = _here(session)
    else:
        usage = f"{word} WHERE [grad] {_TAIL}', see 'help {word}"
        spec = await breakpoint_arguments.parse(session, args, usage)
    spec.temporary = temporary
    if temporary and spec.log_message:
        raise DebuggerError(
            "a log point never stops, and so is never gone: write 'break WHERE hits 1 log MESSAGE'"
        )
    session.show_breakpoint(await session.debugger.add_breakpoint(spec))


def _here(session: TerminalSession) -> BreakpointSpec:
    """A breakpoint at the op of the frame in view."""
    thread, stopped = session.stop
    frame = stopped.frames[session.frame]
    if not frame.HasField("op"):
        raise DebuggerError("this frame has no op: write where to stop, or go to 'frame 0'")
    return BreakpointSpec(
        OpWhere(frame.program, frame.op.id, thread.executor.id, frame.program_name)
    )


async def watch(session: TerminalSession, args: str) -> None:
    spec = await breakpoint_arguments.parse_watch(
        session, args, f"watch VARIABLE [changed] {_TAIL}"
    )
    session.show_breakpoint(await session.debugger.add_breakpoint(spec))


# ---- changing them -------------------------------------------------------------------------------


async def delete(session: TerminalSession, args: str) -> None:
    every = args in ("", "all")
    ids = numbers(session, "" if every else args)
    count = f"{len(ids)} breakpoint{'' if len(ids) == 1 else 's'}"
    if ids and not args and not await session.sure(f"delete {count}?"):
        return
    await _remove(session, ids)
    if every and ids:
        session.screen.line(f"{count} deleted")
    else:
        _confirm(session, ids, "deleted")


async def clear(session: TerminalSession, args: str) -> None:
    if not args or args == "all" or re.match(r"\d+(?!\S*:)|\$", args):
        await delete(session, args)
        return
    spec = await breakpoint_arguments.parse(session, args, "clear [NUMBER… | WHERE]")
    place = descriptions.where(spec)
    states = session.debugger.breakpoints
    ids = [state.id for state in states if descriptions.where(state.spec) == place]
    if not ids:
        raise DebuggerError(f"there is no breakpoint at {place}: see 'info breakpoints'")
    await _remove(session, ids)
    _confirm(session, ids, "deleted")


async def _remove(session: TerminalSession, ids: Sequence[int]) -> None:
    for id in ids:
        await session.debugger.remove_breakpoint(id)
        session.macros.commands.pop(id, None)


async def enable(session: TerminalSession, args: str) -> None:
    await _enable(session, args, True)


async def disable(session: TerminalSession, args: str) -> None:
    await _enable(session, args, False)


async def _enable(session: TerminalSession, args: str, enabled: bool) -> None:
    ids = numbers(session, args)
    for id in ids:
        await session.debugger.update_breakpoint(id, enabled=enabled)
    _confirm(session, ids, "enabled" if enabled else "disabled")


def _confirm(session: TerminalSession, ids: Sequence[int], done: str) -> None:
    plural = "" if len(ids) == 1 else "s"
    session.screen.line(f"breakpoint{plural} {_some(ids)} {done}" if ids else _NONE)


async def condition(session: TerminalSession, args: str) -> None:
    id, text = _id_and_text(session, args, "condition NUMBER [CONDITION]")
    text = text.removeprefix("if ") if text else text
    session.show_breakpoint(await session.debugger.update_breakpoint(id, condition=text))


async def hits(session: TerminalSession, args: str) -> None:
    id, text = _id_and_text(session, args, "hits NUMBER [HITS]")
    session.show_breakpoint(await session.debugger.update_breakpoint(id, hit_condition=text))


async def log(session: TerminalSession, args: str) -> None:
    id, text = _id_and_text(session, args, "log NUMBER [MESSAGE]")
    if text and _state(session, id).spec.temporary:
        raise DebuggerError(
            f"breakpoint {id} is gone after its first stop: 'break' sets a log point"
        )
    session.show_breakpoint(await session.debugger.update_breakpoint(id, log_message=text))


async def ignore(session: TerminalSession, args: str) -> None:
    id, text = _id_and_text(session, args, "ignore NUMBER VISITS")
    if text is None or not text.isdecimal():
        what = f"'{text}' is not a number of visits" if text else "how many visits"
        raise DebuggerError(f"{what}: write 'ignore {id} 3' to go past the next 3")
    state = _state(session, id)
    before = state.spec.hit_condition or ""
    if before and not re.fullmatch(r"> \d+", before):
        raise DebuggerError(
            f"breakpoint {id} has 'hits {before.strip()}' already: 'hits {id}' takes that away"
        )
    # A change of the condition restarts the count of visits, even to the same condition.
    await session.debugger.update_breakpoint(id, hit_condition=None)
    visits = int(text)
    if visits:
        await session.debugger.update_breakpoint(id, hit_condition=f"> {visits}")
    what = "logs" if state.spec.log_message else "stops"
    which = "always"
    if visits:
        which = "after its next visit" if visits == 1 else f"after its next {visits} visits"
    session.screen.line(f"breakpoint {id} {what} {which}")


def _id_and_text(session: TerminalSession, args: str, usage: str) -> tuple[int, str | None]:
    words = args.split(maxsplit=1)
    if not words:
        raise DebuggerError(f"write '{usage}'")
    if "-" in words[0] or "," in words[0]:
        raise DebuggerError(f"'{words[0]}' is not one breakpoint: write '{usage}'")
    (id,) = numbers(session, words[0])
    return id, words[1].strip() if len(words) > 1 else None


def _state(session: TerminalSession, id: int) -> BreakpointState:
    return next(state for state in session.debugger.breakpoints if state.id == id)


def numbers(session: TerminalSession, text: str) -> list[int]:
    """The numbers in `1 3-5`; $ is the newest, and an empty text means all."""
    known = [state.id for state in session.debugger.breakpoints]
    ids: list[int] = []
    for word in text.replace(",", " ").split():
        match = re.fullmatch(r"(\d+)(?:-(\d+))?|(\$)", word)
        if match is None:
            raise DebuggerError(f"'{word}' is not a breakpoint number: see 'info breakpoints'")
        if not known:
            raise DebuggerError(f"there is no breakpoint {word}, nor any other: 'break' sets one")
        first = known[-1] if match[3] else int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first:
            raise DebuggerError(f"'{word}' goes backwards: write {last}-{first}")
        wanted = [id for id in known if first <= id <= last]
        if not wanted or (not match[2] and first not in known):
            there = f"there {'is' if len(known) == 1 else 'are'} {_some(known)}"
            raise DebuggerError(f"there is no breakpoint {word}: {there}")
        ids += [id for id in wanted if id not in ids]
    return ids if text else known


def _some(ids: Sequence[int]) -> str:
    shown = [str(id) for id in ids]
    if len(shown) > 8:
        return f"{', '.join(shown[:7])}, … {shown[-1]}"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


# ---- info ----------------------------------------------------------------------------------------


async def info_breakpoints(session: TerminalSession, pattern: str) -> None:
    states = session.debugger.breakpoints
    for line in descriptions.breakpoint_table(states, [session.hint(state) for state in states]):
        session.screen.line(line, "bold" if line.startswith("num") else "")
    if not states:
        session.screen.line(_NONE)
    for id, lines in sorted(session.macros.commands.items()):
        session.screen.line(f"breakpoint {id} runs: {'; '.join(lines)}", "none")
    session.screen.line(fault_commands.fault_line(session), "none")


async def info_taps(session: TerminalSession, pattern: str) -> None:
    states = [state for state in session.debugger.breakpoints if state.spec.log_message]
    rows = [("num", "lines", "where", "what it wrote last")] if states else []
    rows += [_tap(session, state) for state in states]
    for line in descriptions.table(rows, indent=""):
        session.screen.line(line, "bold" if line.startswith("num") else "")
    if not states:
        session.screen.line("no log points: 'break WHERE log MESSAGE' sets one")
    if session.dropped_logs:
        plural = "" if session.dropped_logs == 1 else "s"
        session.screen.line(
            f"{session.dropped_logs} line{plural} dropped: they came faster than they can be shown"
        )


def _tap(session: TerminalSession, state: BreakpointState) -> tuple[str, str, str, str]:
    last = session.last_logs.get(state.id, "nothing yet")
    return str(state.id), str(state.hits), descriptions.where(state.spec), last


_WHERE = """\
WHERE is one of
  matmul            every op of that type
  fc_0*             every op whose name matches; * and ? stand for any characters
  train.py:12       every op that was made on that line of Python
  12                the same, in the script; of a saved program that line of its listing
  listing:7         the op on that line of the program's listing; listing:NAME:7 names the program
  #14               the op with that number
  block:while_0     the first op of the block that this op runs, each time that it is entered;
                    block:cond_0.true_block is one of several, block:2 the block with that number
  var:fc_0.w        every op that writes the variable, as 'watch' does
and, while the script is stopped, the op in view when there is no WHERE.
With 'grad', a line also takes the gradients of its ops and what first fills its parameters,
and a name only gradients.
The condition is an expression, see 'help expressions'. When it names an output of the op the stop
is after the op, otherwise before it.
For HITS see 'help hits', and for MESSAGE, which is all that follows, 'help log'.
A breakpoint that matches nothing yet is pending and binds by itself when such an op appears; the
number of an op and a line of the listing then bind to the first program that does more than give
parameters their first values."""

_NUMBERS = (
    "NUMBER is what 'info breakpoints' shows, 2-4 are three of them, and $ is the newest.\n"
    "Without a number, all of them."
)

_SURE = (
    " A terminal asks first, unless 'all' says it;\nwithout one nobody can be asked, "
    "and they are deleted, as in gdb."
)

COMMANDS = (
    Command(
        "break", ("b",), f"break WHERE [grad] {_TAIL}",
        "stop at ops", _WHERE, break_, "where",
    ),
    Command(
        "tbreak", ("tb",), f"tbreak WHERE [grad] {_TAIL}",
        "stop at ops, once", "As 'break', but gone after its first stop.",
        tbreak, "where",
    ),
    Command(
        "delete", (), "delete [NUMBER… | all]",
        "remove breakpoints", _NUMBERS + _SURE, delete, "breakpoint",
    ),
    Command(
        "clear", ("cl",), "clear [NUMBER… | WHERE]",
        "remove breakpoints, also by their place",
        "'clear train.py:12' removes those that 'break train.py:12' set. Otherwise as 'delete'.",
        clear, "where",
    ),
    Command(
        "condition", (), "condition NUMBER [CONDITION]",
        "change a breakpoint's condition", "Without a condition, it stops always.",
        condition, ("breakpoint", "expression"),
    ),
    Command(
        "ignore", (), "ignore NUMBER VISITS",
        "let the next visits of a breakpoint pass",
        "'ignore 1 3' is 'hits 1 > 3', counted from now; 'ignore 1 0' stops at the next visit.",
        ignore, "breakpoint",
    ),
    Command(
        "enable", (), "enable [NUMBER…]",
        "turn breakpoints on", _NUMBERS, enable, "breakpoint",
    ),
    Command(
        "disable", ("dis",), "disable [NUMBER…]",
        "turn breakpoints off", _NUMBERS, disable, "breakpoint",
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
        "\nWithout a message, the breakpoint stops again. 'info taps' shows what was written.",
        log, ("breakpoint", "expression"),
    ),
    Command(
        "watch", (), f"watch VARIABLE [changed] {_TAIL}",
        "stop after every op that writes a variable",
        "In any program and block; the stop says what was there before and what is now.\n"
        "At a stop VARIABLE is a name as in expressions, and var(\"x\") the program's own x.\n"
        "With 'changed', only when its bytes became others.",
        watch, ("variable", "clause"),
    ),
    *fault_commands.COMMANDS,
)  # fmt: skip
