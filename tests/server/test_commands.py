"""The table of commands, the help, the completion and docs/commands.md agree."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from opstep_server.cli import docs, paint
from opstep_server.cli.commands import COMMANDS, find, help_lines
from opstep_server.cli.completion import candidates
from opstep_server.cli.screen import Screen
from opstep_server.cli.session import Session
from opstep_server.debugger import BreakpointSpec, Debugger, LaunchTarget, PatternWhere
from opstep_server.functions import FUNCTIONS


def test_the_page_is_what_the_table_says(root: Path):
    assert (root / "docs" / "commands.md").read_text() == docs.markdown(), (
        "write it again: python -m opstep_server.cli.docs > docs/commands.md"
    )


def test_every_command_is_in_help_and_has_its_own():
    overview = "\n".join(help_lines())
    for command in COMMANDS:
        assert f"{command.usage}  " in overview
        assert command.usage.split()[0] == command.name
        text = help_lines(command.name)
        assert text[0] == command.usage
        assert command.short in text[1]


def test_names_and_aliases_are_unique_and_found():
    words = [word for c in COMMANDS for word in (c.name, *c.aliases)]
    assert len(words) == len(set(words))
    for command in COMMANDS:
        for word in (command.name, *command.aliases):
            assert find(word) is command


@pytest.mark.parametrize(
    ("typed", "name"),
    [("c", "continue"), ("n", "next"), ("s", "step"), ("p", "print"), ("bt", "where"),
     ("b", "break"), ("q", "quit"), ("r", "run"), ("cont", "continue"), ("cond", "condition"),
     ("dis", "disable"), ("w", "where"), ("fin", "finish"), ("out", "outputs"), ("si", "stepi"),
     ("del", "delete"), ("i", "info"), ("tb", "tbreak")],
)  # fmt: skip
def test_short_forms(typed: str, name: str):
    assert find(typed).name == name


def test_the_lines_of_help_fit_a_terminal():
    for topic in ("", "expressions", *(c.name for c in COMMANDS)):
        for line in help_lines(topic):
            assert len(line) <= 110, line


def wrap(text: str, width: int, hard: bool = False) -> list[str]:
    return [paint.plain(row) for row in paint.wrap([("", text)], width, hard)]


def test_wrapped_lines_keep_their_column():
    text = "  name  what it is, in more words than fit"
    assert wrap(text, 24) == ["  name  what it is, in", "        more words than", "        fit"]
    assert wrap("one two three", 8) == ["one two", "    three"]
    assert wrap("x" * 30 + " y", 8) == ["x" * 30, "    y"]
    assert wrap("x" * 10 + " y", 8, hard=True) == ["x" * 8, "    xx y"]
    assert wrap("", 8) == [""]
    assert wrap(text, 80) == [text]


def completed(session: Session, text: str) -> list[str]:
    return [word for word, _ in candidates(session, text)]


def test_completion():
    async def run() -> None:
        debugger = Debugger()
        session = Session(debugger, LaunchTarget("x.py"), Screen(colour=False), batch=False)
        session.names.ops |= {"fc_0.matmul", "fc_0.add", "relu_0"}
        session.names.types |= {"matmul", "add", "relu"}
        session.names.variables |= {"fc_0.w", "fc_0.out"}
        await debugger.add_breakpoint(BreakpointSpec(PatternWhere("add")))
        assert completed(session, "con") == ["condition", "continue"]
        assert set(completed(session, "")) == {command.name for command in COMMANDS}
        assert completed(session, "b fc") == ["fc_0.add", "fc_0.matmul"]
        assert completed(session, "break add if fc_0.o") == ["fc_0.out"]
        assert list(candidates(session, "p 1 + fc_0.w")) == [("fc_0.w", -6)]
        assert completed(session, "print isn") == ["isnan"]
        assert set(FUNCTIONS) <= set(completed(session, "print "))
        assert completed(session, "catch n") == ["nan"]
        assert completed(session, "info p") == ["programs"]
        assert completed(session, "help ca") == ["catch"]
        assert completed(session, "delete ") == ["1"]
        assert completed(session, "nonsense x") == []

    asyncio.run(run())
