"""A terminal session with a process that runs already; the process is a scripted executor."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from harness.patience import SECONDS
from harness.scripted_executor import ScriptedExecutor
from opstep_server import doorbell, script_process
from opstep_server.cli.app import process_list
from opstep_server.cli.input.shell import Shell
from opstep_server.cli.output.screen import Screen
from opstep_server.cli.sessions.attached_session import ProcessSession
from opstep_server.debugger import Debugger, DebuggerError
from opstep_server.wire import debug_pb2 as pb

PROGRAM = pb.ProgramEvent(program=1, name="main", version=1, op_count=3, block_count=1)


class Attached:
    def __init__(self, pid: int) -> None:
        self.session = ProcessSession(Debugger(), pid, Screen(colour=False), batch=False)
        self.shell = Shell(self.session)
        self.executor: ScriptedExecutor

    async def lost(self) -> None:
        await self.executor.close()
        while self.session.running:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def attached(
    monkeypatch: pytest.MonkeyPatch, pid: int, *, program: bool = True, **hello: Any
) -> AsyncIterator[Attached]:
    """The process tells of its program a while after it came, or never."""
    there = Attached(pid)
    wait = SECONDS if program else 0.05
    monkeypatch.setattr("opstep_server.cli.sessions.attached_session.PROGRAM_SECONDS", wait)

    async def ring(pid: int, address: str) -> None:
        there.executor = ScriptedExecutor(address, pid=pid)
        there.executor._hello.MergeFrom(pb.Hello(argv=["train.py"], **hello))
        await there.executor.connect()

    monkeypatch.setattr(doorbell, "ring", ring)
    attaching = asyncio.create_task(there.session.begin())
    while not there.session.running:
        await asyncio.sleep(0.01)
    if program:
        assert not attaching.done()
        await there.executor.send(program=PROGRAM)
    await attaching
    try:
        yield there
    finally:
        await there.session.close()
        await there.executor.close()


def test_the_first_command_knows_the_programs(monkeypatch: Any, capsys: Any) -> None:
    async def run() -> None:
        async with attached(monkeypatch, os.getpid()) as there:
            assert await there.shell.execute("info programs")

    asyncio.run(run())
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("(train.py), which runs: 'pause' stops it, 'quit' leaves it")
    assert second.split("  ")[1:4] == ["main", "3 ops", "1 block"]
    assert second.endswith(f"version 1, process {os.getpid()}")


def test_one_that_runs_nothing_is_not_to_be_started(monkeypatch: Any, capsys: Any) -> None:
    async def run() -> None:
        async with attached(monkeypatch, os.getpid(), program=False) as there:
            for command in ("info programs", "info threads", "where", "run"):
                assert not await there.shell.execute(command)

    asyncio.run(run())
    assert capsys.readouterr().out.splitlines()[1:] == [
        "error: no program has been compiled since the debugger was attached: "
        "'pause' stops the process at its next op",
        "error: no thread has run an op since the debugger was attached: "
        "'pause' stops the process at its next op",
        *[f"error: process {os.getpid()} is running: 'pause' stops it at its next op"] * 2,
    ]


def test_one_that_never_stops_is_not_offered_to_be_paused(monkeypatch: Any, capsys: Any) -> None:
    async def run() -> None:
        policy = pb.POLICY_LOG_ONLY
        async with attached(monkeypatch, os.getpid(), policy=policy) as there:
            await there.shell.execute("where")

    asyncio.run(run())
    said = capsys.readouterr().out
    assert "which runs: breakpoints with a 'log' message write, 'quit' leaves it" in said
    assert "is running: its policy is never to stop" in said
    assert "pause" not in said


@pytest.mark.parametrize("ended", [True, False])
def test_after_the_process_has_ended_or_left(monkeypatch: Any, capsys: Any, ended: bool) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    commands = ("where", "run", "pause", "info programs", "info threads", "continue")

    async def run() -> None:
        async with attached(monkeypatch, child.pid) as there:
            if ended:
                child.kill()
                # Nobody has waited for it: it has ended nevertheless.
                while script_process.alive(child.pid):
                    await asyncio.sleep(0.01)
            await there.lost()
            for command in commands:
                assert not await there.shell.execute(command)

    try:
        asyncio.run(run())
    finally:
        child.kill()
        child.communicate()
    how = "has ended: 'quit' leaves the debugger"
    if not ended:
        how = f"goes on without the debugger: 'opstep attach {child.pid}' comes back to it"
    said = capsys.readouterr().out.splitlines()[2:]
    assert said == [f"error: process {child.pid} {how}"] * len(commands)


@pytest.mark.parametrize("how", ["goodbye", "close"])
def test_leaving_is_silent_however_the_stream_ends(monkeypatch: Any, capsys: Any, how: str) -> None:
    async def run() -> None:
        async with attached(monkeypatch, os.getpid()) as there:

            def detach(_: pb.Command) -> dict[str, Any]:
                ending.append(asyncio.create_task(getattr(there.executor, how)()))
                return {"done": pb.Done()}

            there.executor.answers["detach"] = detach
            await there.session.close()
            await ending[0]

    ending: list[asyncio.Task[None]] = []
    asyncio.run(run())
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_there_is_no_such_process() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(DebuggerError, match=f"^there is no process {child.pid}: 'opstep ps'"):
        asyncio.run(doorbell.ring(child.pid, "unix:/nowhere"))


@pytest.mark.parametrize(
    ("is_attached", "server", "shown"),
    [(True, "unix:/x", "yes"), (False, "unix:/x", "server"), (False, "", "no")],
)
def test_ps_tells_who_has_a_process(is_attached: bool, server: str, shown: str) -> None:
    row = process_list._row(doorbell.Running(7, ("train.py",), "full", is_attached, server))
    assert row == ("7", "full", shown, "train.py")
