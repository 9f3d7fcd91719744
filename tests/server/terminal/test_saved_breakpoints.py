"""Breakpoints as commands in a file: what was set is set again, in each of its parts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from opstep_server.cli.commands.command_table import find
from opstep_server.cli.output.screen import Screen
from opstep_server.cli.sessions.launched_session import LaunchedSession
from opstep_server.debugger import BreakpointSpec, Debugger, DebuggerError, FaultSpec, LaunchTarget

COMMANDS = [
    "break matmul",
    "break fc_0* grad",
    "break train.py:2",
    "break 3 grad if norm(out) > 1",
    "tbreak models/net.py:1",
    'break "models/my net.py:1"',
    "break #14",
    "break listing:7 if step > 1 hits >= 3",
    "break listing:main:7",
    "break block:while_0 if iteration == 3",
    "break block:2 log in",
    "tbreak var:fc_0.w changed",
    "watch fc_0.w",
    "watch fc_0.w changed if step > 3 hits % 10",
    "break log if log(X).max() > 1 hits 2 log mean {X.mean():.3f}, if any, hits 3",
    'break add if op == "a log b" log say',
    "break relu log {step}",
    "ignore $ 3",
    "break sum",
    "disable $",
    "catch nan, overflow 1e6 in fc_* relu if step > 3",
    "catch inf in grad:fc_0*",
]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    models = tmp_path / "models"
    models.mkdir()
    for file in (tmp_path / "train.py", models / "net.py", models / "my net.py"):
        file.write_text("one\ntwo\nthree\n")
    return tmp_path / "train.py"


def new_session(script: Path) -> LaunchedSession:
    return LaunchedSession(Debugger(), LaunchTarget(str(script)), Screen(colour=False), batch=False)


async def run(session: LaunchedSession, *commands: str) -> None:
    for text in commands:
        word, _, args = text.partition(" ")
        await find(word).handler(session, args)


def all_of(session: LaunchedSession) -> tuple[list[BreakpointSpec], list[FaultSpec]]:
    return [state.spec for state in session.debugger.breakpoints], session.faults.specs()


@pytest.mark.parametrize("word", ["restore", "source"])
def test_what_is_saved_is_what_is_set_again(script: Path, tmp_path: Path, word: str):
    async def body() -> None:
        session = new_session(script)
        await run(session, *COMMANDS, f"save breakpoints {tmp_path / 'saved'}")
        again = new_session(script)
        await run(again, f"{word} {tmp_path / 'saved'}")
        assert all_of(again) == all_of(session)
        assert len(session.debugger.breakpoints) == 18
        # And it says the same once more.
        before = (tmp_path / "saved").read_text()
        await run(again, f"save breakpoints {tmp_path / 'saved'}")
        assert (tmp_path / "saved").read_text() == before

    asyncio.run(body())


def test_the_file_holds_what_a_person_would_type(script: Path, tmp_path: Path):
    async def body() -> None:
        session = new_session(script)
        await run(session, "break train.py:2 if step > 1", "disable 1", "catch nan in fc_0* relu")
        await run(session, f"save breakpoints {tmp_path / 'saved'}")
        assert (tmp_path / "saved").read_text().splitlines()[1:] == [
            "catch nan in fc_0* relu",
            "catch error",
            "break train.py:2 if step > 1",
            "disable $",
        ]

    asyncio.run(body())


def test_restore_takes_the_place_of_what_there_is(script: Path, tmp_path: Path):
    async def body() -> None:
        session = new_session(script)
        saved = tmp_path / "saved"
        await run(session, "break add", "catch off", f"save breakpoints {saved}")
        await run(session, "break mul", "catch nan", f"restore {saved}")
        states, caught = all_of(session)
        assert [state.where.pattern for state in states] == ["add"]
        assert caught == []

    asyncio.run(body())


def test_a_wrong_line_changes_nothing(script: Path, tmp_path: Path):
    async def body() -> None:
        session = new_session(script)
        saved = tmp_path / "saved"
        await run(session, "break add", "catch inf", f"save breakpoints {saved}")
        saved.write_text(saved.read_text() + "catch nan\nbreak nowhere.py:3\n")
        await run(session, "break mul")
        before = all_of(session)
        with pytest.raises(DebuggerError, match=r"saved:6: there is no file nowhere.py"):
            await run(session, f"restore {saved}")
        assert all_of(session) == before

    asyncio.run(body())


def test_files_read_one_another_only_so_deep(script: Path, tmp_path: Path):
    for i in range(12):
        (tmp_path / f"{i}").write_text(f"break b{i}\nsource {tmp_path / str(i + 1)}\n")

    async def body() -> None:
        session = new_session(script)
        with pytest.raises(DebuggerError, match="10 is not read: 10 files"):
            await run(session, f"source {tmp_path / '0'}")
        assert len(session.debugger.breakpoints) == 10
        assert session.reading == []

    asyncio.run(body())


def test_ctrl_c_ends_a_file(script: Path, tmp_path: Path):
    (tmp_path / "file").write_text("break add\nbreak mul\n")

    async def body() -> None:
        session = new_session(script)
        session.interrupted = True
        with pytest.raises(DebuggerError, match="file:1: Ctrl-C, what follows is not run"):
            await run(session, f"source {tmp_path / 'file'}")
        assert len(session.debugger.breakpoints) == 1

    asyncio.run(body())


def test_what_is_no_text_is_refused(script: Path, tmp_path: Path):
    (tmp_path / "data").write_bytes(b"\xff\xfe\x00")

    async def body() -> None:
        with pytest.raises(DebuggerError, match=r"cannot read .*data: it is not text"):
            await run(new_session(script), f"source {tmp_path / 'data'}")

    asyncio.run(body())
