"""The one table of commands: what runs them, helps with them, completes and documents them."""

from __future__ import annotations

from opstep_server import expr, targets
from opstep_server.cli import (
    breaking,
    ending,
    going,
    graph,
    listing,
    looking,
    printing,
    showing,
    stack,
    stored,
    tensors,
    threads,
)
from opstep_server.cli.command import Command
from opstep_server.cli.session import Session
from opstep_server.debugger import DebuggerError
from opstep_server.functions import FUNCTIONS, SPECIAL_NAMES


async def help_(session: Session, args: str) -> None:
    titles = {f"{title}:" for title, _ in GROUPS}
    for line in help_lines(args.strip()):
        session.screen.line(line, "bold" if line in titles else "none")


_HELP = Command(
    "help", ("h", "?"), "help [COMMAND|expressions]",
    "show the commands, or one of them", "", help_, "command",
)  # fmt: skip

# In the order in which help shows them.
GROUPS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    ("where to stop", (*breaking.COMMANDS, *stored.COMMANDS)),
    ("the script", ending.COMMANDS),
    ("going on", going.COMMANDS),
    ("where it stopped", (*stack.COMMANDS, *threads.COMMANDS, *listing.COMMANDS)),
    ("values", (*printing.COMMANDS, *tensors.COMMANDS)),
    ("ops and the graph", (*looking.COMMANDS, *graph.COMMANDS)),
    ("the debugger", (*showing.COMMANDS, _HELP)),
)
COMMANDS: tuple[Command, ...] = tuple(command for _, group in GROUPS for command in group)

_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


def find(word: str, line: str = "") -> Command:
    """By name, alias or unambiguous prefix; the line may be an assignment instead."""
    if meant := targets.spelt_out(line) or (line if targets.assignment(line) else ""):
        raise DebuggerError(f"'{line}' is no command: write 'set {meant}'")
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
        lines: list[str] = []
        for title, group in GROUPS:
            lines += [*([""] if lines else []), f"{title}:"]
            for command in group:
                if len(command.usage) <= width:
                    lines.append(f"  {command.usage:<{width}}  {command.short}")
                else:
                    lines += [f"  {command.usage}", f"  {'':<{width}}  {command.short}"]
        lines.append("")
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
        "Names are the op's slots and attributes, variables, which may have dots: fc_0.w, and what",
        "the Python code that called the run calls them: loss, self.loss. Other values of Python,",
        "such as its numbers and arrays, are not known here.",
        "Names of the place:",
        *(f"  {name:<{width}}  {doc}" for name, doc in SPECIAL_NAMES.items()),
        "Functions, which are methods too (max(x) is x.max()):",
        *(f"  {f.usage:<{width}}  {f.doc}" for f in FUNCTIONS.values()),
    ]
