"""Macros of a session: aliases, and commands that run when a breakpoint stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from opstep_server.debugger import DebuggerError
from opstep_server.wire import debug_pb2 as pb

PROMPT = "(opstep) "
# The prompt while the lines of 'commands' are typed.
_COLLECTING = ">"
# The first line of a breakpoint's commands: its stop is not shown.
SILENT = "silent"
_DEEPEST = 10


@dataclass
class MacroLines:
    """Lines that are being typed for breakpoints, up to `end`."""

    breakpoints: tuple[int, ...]
    lines: list[str] = field(default_factory=list)


@dataclass
class Macros:
    aliases: dict[str, str] = field(default_factory=dict)
    # By breakpoint.
    commands: dict[int, tuple[str, ...]] = field(default_factory=dict)
    collecting: MacroLines | None = None

    @property
    def prompt(self) -> str:
        return PROMPT if self.collecting is None else _COLLECTING

    def take(self, text: str) -> bool:
        """Whether the line belongs to a list of commands that is being typed."""
        if self.collecting is None:
            return False
        if text != "end":
            self.collecting.lines.append(text)
            return True
        done, self.collecting = self.collecting, None
        lines = tuple(line for line in done.lines if line)
        for id in done.breakpoints:
            if lines:
                self.commands[id] = lines
            else:
                self.commands.pop(id, None)
        return True

    def check_ended(self) -> None:
        """Raises when the `end` is missing at the end of input."""
        if self.collecting is not None:
            ids = ", ".join(map(str, self.collecting.breakpoints))
            self.collecting = None
            raise DebuggerError(f"'commands {ids}' has no 'end': its lines are not kept")

    def at(self, stopped: pb.Stopped) -> list[str]:
        """The commands to run at the stop."""
        return [line for id in stopped.breakpoints for line in self.commands.get(id, ())]

    def silent(self, stopped: pb.Stopped) -> bool:
        lines = self.at(stopped)
        return bool(lines) and lines[0] == SILENT

    def expanded(self, text: str) -> str:
        """The line with its alias replaced by the alias's text."""
        for _ in range(_DEEPEST):
            word, _, rest = text.partition(" ")
            meant = self.aliases.get(word)
            if meant is None:
                return text
            text = _filled(meant, rest.split())
            if text.partition(" ")[0] == word:
                return text  # An alias of the command with the same name.
        raise DebuggerError(f"the alias '{word}' stands for itself: 'unalias {word}' removes it")


def _filled(meant: str, words: Sequence[str]) -> str:
    """%1 to %9 are the words after the alias, %* all of them; without these they follow."""
    if "%" not in meant:
        return " ".join([meant, *words])
    filled = meant.replace("%*", " ".join(words))
    for number in range(9, 0, -1):
        if f"%{number}" in filled:
            if number > len(words):
                wanted = "a word" if number == 1 else f"{number} words"
                raise DebuggerError(f"'{meant}' needs {wanted} behind the alias")
            filled = filled.replace(f"%{number}", words[number - 1])
    return filled
