"""The command `catch`: stops at ops that make a NaN, an Inf or an overflow, or fail."""

from __future__ import annotations

import fnmatch
import re

from opstep_server import expr
from opstep_server.cli.commands.command import Command
from opstep_server.cli.sessions.fault_settings import FAULT_KINDS
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError, FaultKind, FaultSpec

_FAULTS = f"{', '.join(FAULT_KINDS[:-1])} or {FAULT_KINDS[-1]}"


async def catch(session: TerminalSession, args: str) -> None:
    if not args:
        await info_faults(session, "")
        return
    change(session, args)
    await send(session)


async def info_faults(session: TerminalSession, pattern: str) -> None:
    session.screen.line(fault_line(session), "none")


def change(session: TerminalSession, args: str) -> None:
    """Changes the session's faults without output; `send` applies them."""
    first, _, rest = args.partition(" ")
    if first == "off":
        session.faults.off(_kinds(rest) if rest.strip() else FAULT_KINDS)
        return
    for kind, specs in _parse(args).items():
        session.faults.set(kind, specs)


async def send(session: TerminalSession) -> None:
    await session.send_faults()
    session.screen.line(fault_line(session), "none")
    for pattern in sorted({spec.ops for spec in session.faults.specs()}):
        _tell_no_match(session, pattern)


def fault_line(session: TerminalSession) -> str:
    return "catching " + (", ".join(session.faults.words()) or "nothing")


def _kinds(text: str) -> list[FaultKind]:
    return [_kind(word) for word in text.replace(",", " ").split()]


def _kind(word: str) -> FaultKind:
    for kind in FAULT_KINDS:
        if kind == word:
            return kind
    hint = expr.suggest(word, FAULT_KINDS) or f"there are {_FAULTS}"
    raise DebuggerError(f"there is no fault '{word}': {hint}")


def _parse(args: str) -> dict[FaultKind, list[FaultSpec]]:
    condition, ops = None, [""]
    if match := re.fullmatch(r"(?:(.*?)\s)?if(?:\s+(.*))?", args):
        args, condition = match[1] or "", match[2]
        if not condition:
            raise DebuggerError("there is no condition after 'if'")
        expr.parse(condition)
    if match := re.fullmatch(r"(?:(.*?)\s)?in(?:\s+(.*))?", args):
        args, ops = match[1] or "", (match[2] or "").replace(",", " ").split()
        if not ops:
            raise DebuggerError("there are no ops after 'in': write their type or name, as fc_0*")
    limits = _limits(args.replace(",", " ").split())
    if not limits:
        raise DebuggerError(f"say what to catch: {_FAULTS}")
    return {
        kind: [FaultSpec(kind, pattern, condition, limit) for pattern in ops]
        for kind, limit in limits.items()
    }


def _limits(typed: list[str]) -> dict[FaultKind, float | None]:
    """The faults, and for overflow the number after it."""
    limits: dict[FaultKind, float | None] = {}
    before = ""
    for word in typed:
        number = _number(word)
        if before == "overflow" and number is not None:
            limits["overflow"] = _limit(word, number)
        elif before == "overflow" and word not in FAULT_KINDS:
            raise DebuggerError(
                f"'{word}' is not a limit: write a number, as in 'overflow 1000', or 'in {word}' "
                "for ops of that name"
            )
        elif number is not None:
            raise DebuggerError(f"only overflow has a limit: write 'catch overflow {word}'")
        elif word == "off":
            raise DebuggerError(f"write 'catch off {before}'")
        elif before and word not in FAULT_KINDS:
            hint = expr.suggest(word, FAULT_KINDS)
            meant = f": {hint}" if hint else f"; for chosen ops write 'catch {before} in {word}'"
            raise DebuggerError(f"there is no fault '{word}'{meant}")
        else:
            limits[_kind(word)] = None
        before = word
    return limits


def _limit(word: str, number: float) -> float:
    if not 0 < number < float("inf"):
        raise DebuggerError(f"{word} is not a limit: write a number above 0")
    return number


def _number(word: str) -> float | None:
    if word in FAULT_KINDS:
        return None  # Python reads `nan` and `inf` as numbers.
    try:
        return float(word)
    except ValueError:
        return None


def _tell_no_match(session: TerminalSession, pattern: str) -> None:
    known = session.names.ops | session.names.types
    wanted = pattern.removeprefix("grad:")
    if not wanted or not known or fnmatch.filter(known, wanted):
        return
    hint = expr.suggest(wanted, known)
    session.screen.line(
        f"no op matches '{wanted}' so far" + (f": {hint}" if hint else ""), "yellow"
    )


COMMANDS = (
    Command(
        "catch", (), "catch [FAULT…] [in OPS…] [if CONDITION]",
        "stop at the first op that makes a NaN or an Inf, or that fails",
        "FAULT is nan, inf, overflow, 'overflow LIMIT' or error; failing ops are caught from the "
        "start.\n"
        "An op is at fault when its inputs had none.\n"
        "OPS are types or names of ops, with * and ?; without them, all ops are looked at.\n"
        "Without a LIMIT, numbers beyond 65504 are too large: the largest of float16.\n"
        "A second 'catch' of the same FAULT takes the place of the first.\n"
        "'catch off' ends all, 'catch off nan' one of them, and 'catch' alone shows them.",
        catch, "catch",
    ),
)  # fmt: skip
