"""The table of commands, the help, the completion and docs/commands.md agree."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path

import pytest

from opstep_server.cli import command_docs
from opstep_server.cli.commands.command_table import BY_NAME, COMMANDS, find, help_lines
from opstep_server.cli.input.completion import candidates
from opstep_server.cli.output import styled_text
from opstep_server.cli.output.screen import Screen
from opstep_server.cli.sessions.launched_session import LaunchedSession
from opstep_server.debugger import (
    BreakpointSpec,
    Debugger,
    DebuggerError,
    LaunchTarget,
    PatternWhere,
)
from opstep_server.functions import FUNCTIONS
from opstep_server.wire import debug_pb2 as pb


def test_the_page_is_what_the_table_says(root: Path):
    assert (root / "docs" / "commands.md").read_text() == command_docs.markdown(), (
        "write it again: .venv/bin/python -m opstep_server.cli.command_docs > docs/commands.md"
    )


def test_every_command_is_in_help_and_has_its_own():
    overview = "\n".join(help_lines())
    for command in COMMANDS:
        assert f"  {command.usage}" in overview and f"  {command.short}\n" in overview
        assert command.usage.split()[0] == command.name
        text = help_lines(command.name)
        assert text[0] == command.usage
        assert command.short in text[1]


def test_names_and_aliases_are_unique_and_found():
    words = [word for c in COMMANDS for word in (c.name, *c.aliases)]
    assert [word for word, count in Counter(words).items() if count > 1] == []
    for command in COMMANDS:
        for word in (command.name, *command.aliases):
            assert find(word) is command


@pytest.mark.parametrize(
    ("typed", "name"),
    [("c", "continue"), ("n", "next"), ("s", "step"), ("p", "print"), ("bt", "where"),
     ("b", "break"), ("q", "quit"), ("r", "return"), ("cont", "continue"), ("cond", "condition"),
     ("u", "up"), ("d", "down"), ("l", "list"), ("ll", "longlist"), ("a", "args"),
     ("unt", "until"), ("h", "help"), ("cl", "clear"), ("pp", "print"), ("ptype", "whatis"),
     ("restart", "run"), ("backtrace", "where"),
     ("dis", "disable"), ("w", "where"), ("fin", "finish"), ("out", "outputs"), ("si", "stepi"),
     ("del", "delete"), ("i", "info"), ("tb", "tbreak")],
)  # fmt: skip
def test_short_forms(typed: str, name: str):
    assert find(typed).name == name


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [("jump", "ops run in their order"), ("j", "ops run in their order"),
     ("rwatch", "'consumers VARIABLE'"), ("awatch", "'consumers VARIABLE'"),
     ("interact", "evaluated as it is typed"), ("rv", "'outputs'")],
)  # fmt: skip
def test_words_of_other_debuggers_say_what_to_write(typed: str, sentence: str):
    with pytest.raises(DebuggerError, match=re.escape(sentence)):
        find(typed)
    assert typed not in BY_NAME


@pytest.mark.parametrize(
    ("typed", "hint"),
    [("whats", "'whatis'"), ("contniue", "'continue'"), ("brek", "'break'"),
     ("hsit", "'hist'"), ("whois", "'whatis'"), ("thesis", "'help' lists them")],
)  # fmt: skip
def test_hints_are_near(typed: str, hint: str):
    with pytest.raises(DebuggerError) as wrong:
        find(typed)
    assert str(wrong.value).startswith(f"there is no command '{typed}': ")
    assert hint in str(wrong.value)
    assert str(wrong.value).count("'") <= 4


def test_the_lines_of_help_fit_a_terminal():
    for topic in ("", "expressions", *(c.name for c in COMMANDS)):
        for line in help_lines(topic):
            assert len(line) <= 110, line


def wrap(text: str, width: int, hard: bool = False) -> list[str]:
    return [styled_text.plain(row) for row in styled_text.wrap([("", text)], width, hard)]


def test_wrapped_lines_keep_their_column():
    text = "  name  what it is, in more words than fit"
    assert wrap(text, 24) == ["  name  what it is, in", "        more words than", "        fit"]
    assert wrap("one two three", 8) == ["one two", "    three"]
    assert wrap("x" * 30 + " y", 8) == ["x" * 30, "    y"]
    assert wrap("x" * 10 + " y", 8, hard=True) == ["x" * 8, "    xx y"]
    assert wrap("", 8) == [""]
    assert wrap(text, 80) == [text]


def completed(session: LaunchedSession, text: str, visible: pb.Names | None = None) -> list[str]:
    return [candidate.word for candidate in candidates(session, text, visible)]


def test_completion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("x.py", "train.py", "notes.txt", "ops/deep.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one\ntwo\n")

    async def run() -> None:
        debugger = Debugger()
        session = LaunchedSession(debugger, LaunchTarget("x.py"), Screen(colour=False), batch=False)
        session.names.ops |= {"fc_0.matmul", "fc_0.add", "relu_0"}
        session.names.types |= {"matmul", "add", "relu"}
        session.names.variables |= {"fc_0.w", "fc_0.out"}
        session.names.blocks |= {"cond_0", "cond_0.true_block"}
        session.names.lines[str(tmp_path / "train.py")] = {2, 1}
        await debugger.add_breakpoint(BreakpointSpec(PatternWhere("add")))
        assert completed(session, "con") == ["condition", "consumers", "continue"]
        assert set(completed(session, "")) == {command.name for command in COMMANDS}
        assert completed(session, "b fc") == ["fc_0.add", "fc_0.matmul"]
        assert completed(session, "b tr") == ["train.py:"]
        assert completed(session, "b x") == ["x.py:"]
        assert completed(session, "b op") == ["ops/"]
        assert completed(session, "b ops/") == ["ops/deep.py:"]
        lines = list(candidates(session, "b train.py:"))
        assert lines == [("1", 0, "one"), ("2", 0, "two")]
        assert completed(session, "break add i") == ["if"]
        assert completed(session, "break add if fc_0.o") == ["fc_0.out"]
        assert completed(session, "log 1 loss {fc_0.w") == ["fc_0.w"]
        assert [(c.word, c.start) for c in candidates(session, "p 1 + fc_0.w")] == [("fc_0.w", -6)]
        assert completed(session, "print isn") == ["isnan"]
        assert completed(session, "print fc_0.w.arg") == ["argmax", "argmin"]
        assert completed(session, "print fc_0.w[0].ndi") == ["ndim"]
        assert completed(session, "print nothing.ndi") == []
        assert completed(session, "print ou", pb.Names(slots=["out"])) == ["out"]
        assert set(FUNCTIONS) <= set(completed(session, "print "))
        assert completed(session, "catch n") == ["nan"]
        assert completed(session, "catch nan i") == ["if", "in", "inf"]
        assert completed(session, "catch nan in rel") == ["relu", "relu_0"]
        assert completed(session, "catch nan in relu if fc_0.o") == ["fc_0.out"]
        assert completed(session, "watch fc") == ["fc_0.out", "fc_0.w"]
        assert completed(session, "watch fc_0.w h") == ["hits"]
        assert completed(session, "watch fc_0.w if fc_0.o") == ["fc_0.out"]
        assert completed(session, "b block:") == ["block:cond_0", "block:cond_0.true_block"]
        assert completed(session, "b var:fc_0.w") == ["var:fc_0.w"]
        assert completed(session, "advance re") == ["relu", "relu_0"]
        assert completed(session, "info p") == ["programs"]
        assert completed(session, "help ca") == ["catch"]
        assert completed(session, "delete ") == ["1", "all"]
        assert completed(session, "nonsense x") == []
        # What the usage says to type as it stands there.
        assert completed(session, "quit ") == ["detach", "terminate"]
        assert completed(session, "finish i") == ["iteration"]
        assert completed(session, "save ") == ["breakpoints"]
        assert completed(session, "thread a") == ["all"]

    asyncio.run(run())
