"""The one table of commands: what runs them, helps with them, completes and documents them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from opstep_server import expr
from opstep_server.cli import breaking, going, looking
from opstep_server.cli.session import Session
from opstep_server.debugger import DebuggerError
from opstep_server.functions import FUNCTIONS, SPECIAL_NAMES

Handler = Callable[[Session, str], Awaitable[None]]
Completes = Literal["", "where", "breakpoint", "catch", "expression", "info", "command"]


@dataclass(frozen=True)
class Command:
    name: str
    aliases: tuple[str, ...]
    usage: str
    # One line.
    short: str
    # What else there is to know; empty when that line says it all.
    long: str
    handler: Handler
    completes: Completes = ""
    # An empty line does it again.
    repeats: bool = False


async def help_(session: Session, args: str) -> None:
    for line in help_lines(args.strip()):
        session.screen.line(line)


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

_TIMES = "With a number it does so that many times, up to a stop of another kind or Ctrl-C."

COMMANDS: tuple[Command, ...] = (
    Command(
        "break", ("b",), "break WHERE [grad] [if CONDITION]",
        "stop at ops", _WHERE, breaking.break_, "where",
    ),
    Command(
        "tbreak", ("tb",), "tbreak WHERE [grad] [if CONDITION]",
        "stop at ops, once", "As 'break', but gone after its first stop.",
        breaking.tbreak, "where",
    ),
    Command(
        "delete", ("d",), "delete [NUMBER…]",
        "remove breakpoints", "Without a number, all of them.", breaking.delete, "breakpoint",
    ),
    Command(
        "condition", (), "condition NUMBER [CONDITION]",
        "change a breakpoint's condition", "Without a condition, it stops always.",
        breaking.condition, "breakpoint",
    ),
    Command(
        "enable", (), "enable [NUMBER…]",
        "turn breakpoints on", "Without a number, all of them.", breaking.enable, "breakpoint",
    ),
    Command(
        "disable", (), "disable [NUMBER…]",
        "turn breakpoints off", "Without a number, all of them.", breaking.disable, "breakpoint",
    ),
    Command(
        "hits", (), "hits NUMBER [HITS]",
        "choose which visits of a breakpoint count",
        "HITS is a number, or ==, !=, <, <=, >, >= or % and a number: 'hits 1 >= 100', "
        "'hits 1 % 10'.\nA visit is counted, from 1, when the condition holds; a line once for all "
        "its ops.\nWithout HITS, every visit stops.",
        breaking.hits, "breakpoint",
    ),
    Command(
        "log", (), "log NUMBER [MESSAGE]",
        "write a message instead of stopping",
        "Braces hold expressions, with a format if you like: 'log 1 loss {X.mean():.3f} at {step}'."
        "\nWithout a message, the breakpoint stops again.",
        breaking.log, "breakpoint",
    ),
    Command(
        "watch", (), "watch VARIABLE [changed] [if CONDITION]",
        "stop after every op that writes a variable",
        "In any program and block. With 'changed', only when its bytes became others.",
        breaking.watch, "expression",
    ),
    Command(
        "catch", (), "catch [FAULT…] | catch off",
        "stop at the first op that makes a NaN or an Inf, or that fails",
        "FAULT is nan, inf, overflow, 'overflow LIMIT' or error; failing ops are caught from the "
        "start.\n"
        "An op is at fault when its inputs had none.\n"
        "Without a LIMIT, numbers beyond 65504 are too large: the largest of float16.",
        breaking.catch, "catch",
    ),
    Command(
        "run", ("r",), "run",
        "start the script and wait until it stops or ends",
        "Its arguments stand after it on the command line: opstep debug SCRIPT ARGS…", going.run,
    ),
    Command(
        "continue", ("c",), "continue [TIMES]",
        "go on to the next stop",
        "Ctrl-C pauses a running script at its next op.\n" + _TIMES, going.continue_, repeats=True,
    ),
    Command(
        "pause", (), "pause", "stop at the next op, whichever thread runs it", "", going.pause,
    ),
    Command(
        "step", ("s",), "step [TIMES]",
        "to the next Python line that made ops, into blocks", _TIMES, going.step, repeats=True,
    ),
    Command(
        "next", ("n",), "next [TIMES]",
        "to the next Python line that made ops, over blocks", _TIMES, going.next_, repeats=True,
    ),
    Command(
        "stepi", ("si",), "stepi [TIMES]",
        "to the next op, into blocks", _TIMES, going.stepi, repeats=True,
    ),
    Command(
        "nexti", ("ni",), "nexti [TIMES]",
        "to the next op, over blocks", _TIMES, going.nexti, repeats=True,
    ),
    Command(
        "finish", ("fin",), "finish [iteration | run]",
        "out of the block, to the op after the one that runs it",
        "With 'iteration', to the block's next iteration, or behind the loop when there is none.\n"
        "With 'run', after the last op of the run.",
        going.finish,
    ),
    Command(
        "where", ("w", "bt", "backtrace"), "where",
        "show the stack: the op, its blocks, the run, the Python frames",
        "The frame in view is marked with *.", looking.where,
    ),
    Command(
        "frame", ("f",), "frame [NUMBER]",
        "look at a frame of the stack", "Expressions and 'list' use that frame.", looking.frame,
    ),
    Command(
        "up", (), "up [FRAMES]",
        "look at the next frame outwards", "With a number, that many frames further.", looking.up,
    ),
    Command(
        "down", (), "down [FRAMES]",
        "look at the next frame inwards", "With a number, that many frames further.", looking.down,
    ),
    Command(
        "thread", (), "thread NUMBER",
        "look at another thread", "'info threads' shows them.", looking.thread,
    ),
    Command(
        "list", ("l",), "list [source|listing]",
        "show the source around the line and the listing around the op",
        "The current place is marked with =>.", looking.list_,
    ),
    Command(
        "print", ("p",), "print EXPRESSION[, EXPRESSION…]",
        "show the value of expressions", "See 'help expressions'.", looking.print_, "expression",
    ),
    Command(
        "inputs", (), "inputs", "show what goes into the op", "", looking.inputs,
    ),
    Command(
        "outputs", (), "outputs", "show what the op made",
        "Before the op has run there is nothing to see.", looking.outputs,
    ),
    Command(
        "info", ("i",), "info breakpoints|op|ops [PATTERN]|vars [PATTERN]|programs|threads",
        "show what there is",
        "PATTERN is an op's type or a name with * and ?.\n"
        "'info vars' goes from the block of the frame in view outwards.", looking.info, "info",
    ),
    Command(
        "help", ("h", "?"), "help [COMMAND|expressions]",
        "show the commands, or one of them", "", help_, "command",
    ),
    Command("quit", ("q", "exit"), "quit", "end the script and leave", "", going.quit_),
)  # fmt: skip

_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


def find(word: str) -> Command:
    """By name, alias or unambiguous prefix."""
    if word in _BY_NAME:
        return _BY_NAME[word]
    found = [command for command in COMMANDS if command.name.startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(command.name for command in found)
        raise DebuggerError(f"'{word}' may be {names}: write more of it")
    hint = expr.suggest(word, _BY_NAME) or "'help' lists them"
    raise DebuggerError(f"there is no command '{word}': {hint}")


def help_lines(topic: str = "") -> list[str]:
    if not topic:
        width = max(len(command.usage) for command in COMMANDS if len(command.usage) <= 34)
        lines = [f"{c.usage:<{width}}  {c.short}" for c in COMMANDS]
        lines.append(
            "An unambiguous beginning of a name is enough, and an empty line repeats a step."
        )
        lines.append("'help COMMAND' says more; 'help expressions' is about what can be computed.")
        return lines
    if "expressions".startswith(topic) and len(topic) > 3:
        return expression_help()
    command = find(topic)
    lines = [command.usage, f"  {command.short}"]
    if command.aliases:
        lines.append("  short: " + ", ".join(command.aliases))
    lines += [f"  {line}".rstrip() for line in command.long.splitlines()]
    return lines


def expression_help() -> list[str]:
    width = max(len(function.usage) for function in FUNCTIONS.values())
    return [
        "Python's syntax with NumPy's names: out.mean(), x[0, :4], isnan(out).any(), grad(w).",
        "Names are the op's slots and attributes, and variables, which may have dots: fc_0.w.",
        "Names of the place:",
        *(f"  {name:<{width}}  {doc}" for name, doc in SPECIAL_NAMES.items()),
        "Functions, which are methods too (max(x) is x.max()):",
        *(f"  {f.usage:<{width}}  {f.doc}" for f in FUNCTIONS.values()),
    ]
