"""Several threads at the prompt: what is told of each, and which of them a command lets go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness import scripted_executor as scripted
from harness.scripted_executor import ScriptedExecutor, op
from opstep_server.cli.input.shell import Shell
from opstep_server.cli.output.screen import Screen
from opstep_server.cli.sessions.launched_session import LaunchedSession
from opstep_server.debugger import LaunchTarget, StoppedEvent
from opstep_server.wire import debug_pb2 as pb


class Both:
    """A session whose script runs in two processes, both of which stand at an op."""

    def __init__(
        self, session: LaunchedSession, one: ScriptedExecutor, two: ScriptedExecutor
    ) -> None:
        self.session = session
        self.shell = Shell(session)
        self.one, self.two = one, two

    def resumed(self) -> tuple[int, int]:
        return len(self.one.of("resume")), len(self.two.of("resume"))


def with_both(test: Callable[[Both], Awaitable[None]]) -> None:
    async def run() -> None:
        async with scripted.session() as s:
            session = LaunchedSession(
                s.debugger, LaunchTarget("x.py"), Screen(colour=False), batch=False
            )
            session._running = True
            one, two = await s.join(pid=1), await s.join(pid=2)
            for index, executor in enumerate((one, two), 1):
                await executor.stop_at(op())
                await s.wait_for(StoppedEvent, index)

                def resume(command: pb.Command, executor: ScriptedExecutor = executor) -> Any:
                    if command.resume.mode != pb.Resume.CONTINUE:
                        stop = executor.stop_at(op(15), reason=pb.STOP_STEP, stop=2)
                        asyncio.get_running_loop().create_task(stop)
                    return {"done": pb.Done()}

                executor.answers["resume"] = resume
            await test(Both(session, one, two))

    asyncio.run(run())


def test_a_stop_of_another_thread_is_told_and_the_view_stays(capsys: Any) -> None:
    async def test(both: Both) -> None:
        await both.shell.execute("info threads")

    with_both(test)
    *told, first, second, one, two = capsys.readouterr().out.splitlines()
    assert all("was started by the script and is debugged too" in line for line in told)
    assert first.startswith("stopped at op #14")
    assert second.startswith("thread 2 (thread 1) stopped at op #14")
    assert [line[:3] for line in (one, two)] == ["* 1", "  2"]


@pytest.mark.parametrize(
    ("command", "resumed"),
    [("stepi", (1, 1)), ("thread 1 stepi", (1, 0)), ("thread 2 stepi", (0, 1)),
     ("thread all stepi", (1, 1))],
)  # fmt: skip
def test_which_threads_a_step_lets_go_on(command: str, resumed: tuple[int, int]) -> None:
    async def test(both: Both) -> None:
        assert await both.shell.execute(command)
        assert both.resumed() == resumed
        others = [e for e in (both.one, both.two) if e.of("resume")]
        modes = [e.of("resume")[0].mode for e in others]
        free = pb.Resume.CONTINUE if command == "stepi" else pb.Resume.INTO
        assert modes[1:] == [free] * (len(modes) - 1)

    with_both(test)


def test_looking_at_another_thread_once_does_not_change_the_view(capsys: Any) -> None:
    async def test(both: Both) -> None:
        assert await both.shell.execute("thread 2 where")
        assert both.session.thread.id == 1
        assert await both.shell.execute("thread 2")
        assert both.session.thread.id == 2
        assert await both.shell.execute("thread all where")
        assert both.session.thread.id == 2

    with_both(test)
    assert "thread 1 (thread 1):" in capsys.readouterr().out


def test_all_are_stopped_already(capsys: Any) -> None:
    async def test(both: Both) -> None:
        assert not await both.shell.execute("thread all pause")
        assert not await both.shell.execute("thread 2 pause")

    with_both(test)
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "error: all threads are stopped already",
        "error: the thread is stopped already",
    ]
