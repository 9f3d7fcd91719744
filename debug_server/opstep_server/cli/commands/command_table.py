"""The table of all commands, for running, help, completion and documentation."""

from __future__ import annotations

from opstep_server import expr, functions
from opstep_server.cli.commands import (
    breakpoint_commands,
    examine_commands,
    execution_commands,
    graph_commands,
    info_commands,
    layout_commands,
    listing_commands,
    macro_commands,
    print_commands,
    process_commands,
    saved_breakpoints,
    stack_commands,
    tensor_commands,
    thread_commands,
)
from opstep_server.cli.commands.command import Command
from opstep_server.cli.commands.foreign_words import FOREIGN
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError


async def help_(session: TerminalSession, args: str) -> None:
    titles = {f"{title}:" for title, _ in GROUPS}
    for line in help_lines(args.strip()):
        session.screen.line(line, "bold" if line in titles else "none")


_HELP = Command(
    "help", ("h", "?"), "help [COMMAND|expressions]",
    "show the commands, or one of them", "", help_, "command",
)  # fmt: skip

# In the order in which help shows them.
GROUPS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    (
        "where to stop",
        (*breakpoint_commands.COMMANDS, macro_commands.AT_STOPS, *saved_breakpoints.COMMANDS),
    ),
    ("the script", process_commands.COMMANDS),
    ("going on", execution_commands.COMMANDS),
    (
        "where it stopped",
        (*stack_commands.COMMANDS, *thread_commands.COMMANDS, *listing_commands.COMMANDS),
    ),
    ("values", (*print_commands.COMMANDS, *examine_commands.COMMANDS, *tensor_commands.COMMANDS)),
    ("ops and the graph", (*info_commands.COMMANDS, *graph_commands.COMMANDS)),
    ("the debugger", (*layout_commands.COMMANDS, *macro_commands.COMMANDS, _HELP)),
)
COMMANDS: tuple[Command, ...] = tuple(command for _, group in GROUPS for command in group)

BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}


def matching(word: str) -> list[Command]:
    """The commands whose names begin with the word."""
    return [command for command in COMMANDS if command.name.startswith(word)]


def find(word: str) -> Command:
    """The command with that name, alias or unambiguous prefix."""
    if word in BY_NAME:
        return BY_NAME[word]
    if word in FOREIGN:
        raise DebuggerError(f"there is no '{word}' here: {FOREIGN[word]}")
    found = matching(word)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(command.name for command in found)
        raise DebuggerError(f"'{word}' may be {names}: write more of it")
    hint = expr.suggest(word, BY_NAME) or "'help' lists them"
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
        lines.append(
            "Anything else is an expression, whose value is shown, or an assignment: w *= 0."
        )
        lines.append("'help COMMAND' says more; 'help expressions' is about what can be computed.")
        return lines
    if "expressions".startswith(topic) and len(topic) > 3:
        return functions.help_lines()
    command = find(topic)
    lines = [command.usage, f"  {command.short}"]
    if command.aliases:
        lines.append("  short: " + ", ".join(command.aliases))
    lines += [f"  {line}".rstrip() for line in command.long.splitlines()]
    return lines
