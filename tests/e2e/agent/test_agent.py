"""The agent in real processes: servers that are absent, go away, come back, refuse, say nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from harness.patience import SECONDS, wait_until_computing
from opstep_server import connection, transport
from opstep_server.debugger import Debugger
from opstep_server.model import (
    BreakpointSpec,
    ContinuedEvent,
    DebuggerError,
    Event,
    ExecutorJoined,
    ExecutorLost,
    LaunchTarget,
    PatternWhere,
    StoppedEvent,
    ThreadEnded,
)
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e

SCRIPT = Path(__file__).resolve().parents[2] / "programs" / "forever.py"
T = TypeVar("T")


class Child:
    """The script in a process of its own, not launched by the Debugger."""

    def __init__(self, folder: Path, address: str, *args: str, **env: str) -> None:
        self.until = folder / "until"
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "--until", str(self.until), *args],
            env={**os.environ, "OPSTEP_SERVER": address, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ends(self, seconds: float = SECONDS) -> str:
        """Everything it printed, after it ended well by itself."""
        output, _ = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, output
        return output

    def prints(self, text: str) -> None:
        """Waits for a line with the text."""
        assert self.process.stdout is not None
        assert any(text in line for line in self.process.stdout)

    def finish(self) -> str:
        self.until.touch()
        return self.ends()

    async def finish_later(self) -> str:
        return await asyncio.to_thread(self.finish)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Watch:
    """A Debugger with its events in a queue."""

    def __init__(self) -> None:
        self.debugger = Debugger()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self.seen: list[Event] = []
        self.debugger.subscribe(self._events.put_nowait)
        self.debugger.subscribe(self.seen.append)

    async def event(self, kind: type[T]) -> T:
        async def wanted() -> T:
            while True:
                event = await self._events.get()
                if isinstance(event, kind):
                    return event

        return await asyncio.wait_for(wanted(), SECONDS)


@contextlib.asynccontextmanager
async def debugging(*patterns: str, path: str | None = None) -> AsyncIterator[tuple[Watch, str]]:
    watch = Watch()
    for pattern in patterns:
        await watch.debugger.add_breakpoint(BreakpointSpec(PatternWhere(pattern)))
    address = await watch.debugger.listen()
    if path is not None:  # the next server shall be found where the last one was
        Path(path).unlink(missing_ok=True)
        Path(path).symlink_to(address.removeprefix("unix:"))
        address = f"unix:{path}"
    try:
        yield watch, address
    finally:
        await watch.debugger.close()


# ---- servers that are not as they should be ------------------------------------------------------


def test_no_server_delays_the_first_run_once(tmp_path: Path) -> None:
    with Child(tmp_path, f"unix:{tmp_path}/nobody") as child:
        output = child.finish()
    assert f"opstep: no debug server answers at unix:{tmp_path}/nobody: running without" in output
    assert output.count("no debug server answers") == 1
    assert "done" in output


def test_a_server_may_be_waited_for_for_ever(tmp_path: Path) -> None:
    path = str(tmp_path / "nobody")

    async def main() -> None:
        with Child(tmp_path, f"unix:{path}", OPSTEP_WAIT="inf") as child:
            child.until.touch()
            # Another one, that began later, has long given up.
            with Child(tmp_path, f"unix:{path}") as other:
                assert "no debug server answers" in await other.finish_later()
            async with debugging("tanh", path=path) as (watch, _):
                await stopped_child(watch)
                await watch.debugger.detach()
                await child.finish_later()

    asyncio.run(main())


def test_a_server_that_says_nothing_stalls_nobody(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "socket"))
        silent.listen()
        with Child(tmp_path, f"unix:{tmp_path}/socket") as child:
            assert "done" in child.finish()


def test_a_server_of_another_version_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "PROTOCOL", 99)
    monkeypatch.setattr(connection, "PROTOCOL", 99)

    async def main() -> None:
        async with debugging() as (_, address):
            with Child(tmp_path, address, OPSTEP_WAIT="100") as child:
                output = await child.finish_later()
        assert output.count("opstep: no debugger: ") == 1, output
        assert "speaks protocol 2 but this debug server speaks 99" in output

    asyncio.run(main())


def test_garbage_instead_of_a_server(tmp_path: Path) -> None:
    async def main() -> None:
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(os.urandom(4096))
            writer.close()

        server = await asyncio.start_unix_server(answer, str(tmp_path / "socket"))
        async with server:
            with Child(tmp_path, f"unix:{tmp_path}/socket") as child:
                assert "done" in await child.finish_later()

    asyncio.run(main())


def test_unknown_commands_are_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with debugging("tanh") as (watch, address):
            with Child(tmp_path, address, OPSTEP_WAIT="100") as child:
                stopped = await watch.event(StoppedEvent)
                connection = stopped.thread.executor.connection
                replies = await asyncio.gather(
                    connection.send_command(pb.Command()),
                    connection.send_command(pb.Command(list_ops=pb.ListOps(program=4711))),
                    connection.send_command(pb.Command(resume=pb.Resume(thread=99))),
                    connection.send_command(
                        pb.Command(
                            get_variables=pb.GetVariables(thread=1, stop=1, frame=50, scope=1)
                        )
                    ),
                    connection.send_command(
                        pb.Command(get_variables=pb.GetVariables(thread=1, stop=77, scope=1))
                    ),
                    connection.send_command(pb.Command(evaluate=pb.Evaluate(thread=1, stop=1))),
                )
                for reply in replies:
                    assert reply.error and reply.WhichOneof("result") is None, reply
                assert "does not know that command" in replies[0].error
                assert "has gone on since stop 77" in replies[4].error
                await watch.debugger.detach()
                await child.finish_later()

    asyncio.run(main())


# ---- servers that go away ------------------------------------------------------------------------


async def stopped_child(watch: Watch) -> StoppedEvent:
    stopped = await watch.event(StoppedEvent)
    assert stopped.stopped.frames[0].op.type == "tanh"
    return stopped


def test_a_stopped_thread_goes_on_when_its_server_is_gone(tmp_path: Path) -> None:
    async def main() -> str:
        async with debugging("tanh") as (watch, address):
            child = Child(tmp_path, address, OPSTEP_WAIT="100")
            await stopped_child(watch)
        with child:
            return await child.finish_later()

    assert "done" in asyncio.run(main())


def test_a_stop_that_is_over_is_not_told_to_the_next_server(tmp_path: Path) -> None:
    """The thread was looking at a large tensor when its server went away."""
    path = str(tmp_path / "socket")
    script = tmp_path / "large.py"
    script.write_text(
        "import numpy as np, opstep\n"
        "y = opstep.layers.tanh(opstep.layers.data('x', [None, 1024]))\n"
        "feed = {'x': np.ones((16384, 1024), np.float32)}\n"
        "opstep.Executor().run(opstep.default_main_program(), feed, [y])\n"
    )

    async def main() -> None:
        async with debugging("tanh", path=path) as (watch, address):
            environment = {**os.environ, "OPSTEP_SERVER": address, "OPSTEP_WAIT": "100"}
            child = subprocess.Popen([sys.executable, str(script)], env=environment)
            thread = (await watch.event(StoppedEvent)).thread.id
            long = "std(exp(x) + log(x) * sqrt(x)) + " * 30 + "0"
            while True:
                looking = asyncio.create_task(watch.debugger.evaluate(thread, 0, long))
                await asyncio.to_thread(wait_until_computing, child.pid)
                if not looking.done():
                    break
                looking.exception()  # It may take 2 s, and we were late.
        with contextlib.suppress(DebuggerError, asyncio.CancelledError):
            await looking
        async with debugging(path=path) as (watch, _):
            assert await asyncio.to_thread(child.wait, SECONDS) == 0
            if watch.debugger.executors:
                await watch.event(ExecutorLost)
            assert not [event for event in watch.seen if isinstance(event, StoppedEvent)]

    asyncio.run(main())


def test_a_stopped_thread_waits_for_the_next_server(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")

    async def main() -> str:
        async with debugging("tanh", path=path) as (watch, address):
            child = Child(tmp_path, address, OPSTEP_WAIT="100", OPSTEP_ON_DISCONNECT="wait")
            first = await stopped_child(watch)
        with child:
            child.until.touch()
            async with debugging(path=path) as (watch, _):
                again = await stopped_child(watch)
                assert again.stopped.stop == first.stopped.stop
                value = await watch.debugger.evaluate(again.thread.id, 0, "X.shape")
                assert value.list.values[0].i == 4
                # Stepping works as if nothing had happened.
                await watch.debugger.resume(again.thread.id, "over", "op")
                step = await watch.event(StoppedEvent)
                assert step.stopped.reason == pb.STOP_STEP
                assert step.stopped.frames[0].op.type == "reduce_sum"
                await watch.debugger.resume(again.thread.id, "continue")
                return await asyncio.to_thread(child.ends)

    assert "done" in asyncio.run(main())


def test_no_pause_lasts_longer_than_allowed(tmp_path: Path) -> None:
    async def main() -> None:
        async with debugging("tanh") as (watch, address):
            with Child(tmp_path, address, OPSTEP_WAIT="100", OPSTEP_MAX_PAUSE="0.5") as child:
                await stopped_child(watch)
                event = await watch.event(ContinuedEvent)
                assert "longest pause" in event.message
                await watch.debugger.detach()
                await child.finish_later()

    asyncio.run(main())


def test_a_server_that_comes_late_is_found(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")

    async def main() -> None:
        with Child(tmp_path, f"unix:{path}") as child:
            await asyncio.to_thread(child.prints, "first run")
            async with debugging("tanh", path=path) as (watch, _):
                await stopped_child(watch)
                await watch.debugger.detach()
                await child.finish_later()

    asyncio.run(main())


# ---- the process's own life ----------------------------------------------------------------------


def test_ctrl_c_ends_a_run_that_is_stopped(tmp_path: Path) -> None:
    async def main() -> None:
        async with debugging("tanh") as (watch, address):
            with Child(tmp_path, address, OPSTEP_WAIT="100") as child:
                first = await stopped_child(watch)
                await watch.debugger.resume(first.thread.id, "continue")
                await stopped_child(watch)
                child.process.send_signal(signal.SIGINT)
                event = await watch.event(ContinuedEvent)  # of our own resume
                if not event.message:
                    event = await watch.event(ContinuedEvent)
                assert "interrupted" in event.message
                output = await asyncio.to_thread(child.ends)
                assert "interrupted" in output

    asyncio.run(main())


def test_one_thread_stops_and_the_others_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with debugging() as (watch, address):
            with Child(tmp_path, address, "--threads", "3", OPSTEP_WAIT="100") as child:
                while len(watch.debugger.threads) < 4:  # main had the first run
                    await asyncio.sleep(0.05)
                names = [thread.name for thread in watch.debugger.threads]
                assert names.count("main") == 1
                two, three = [t for t in watch.debugger.threads if t.name != "main"][:2]
                await watch.debugger.pause(two.id)
                stopped = await watch.event(StoppedEvent)
                assert stopped.thread.id == two.id and stopped.stopped.reason == pb.STOP_PAUSE
                await watch.debugger.evaluate(two.id, 0, "step")
                assert [t for t in watch.debugger.threads if t.stopped is not None] == [two]
                await watch.debugger.pause(three.id)
                assert (await watch.event(StoppedEvent)).thread.id == three.id
                # Each answers for itself.
                for thread in (two, three):
                    value = await watch.debugger.evaluate(thread.id, 0, "step")
                    assert value.i >= 1
                    await watch.debugger.resume(thread.id, "continue")
                with pytest.raises(DebuggerError, match="is running"):
                    await watch.debugger.evaluate(two.id, 0, "step")
                child.until.touch()
                ended = [await watch.event(ThreadEnded) for _ in range(4)]
                assert {event.thread.name for event in ended} == set(names)
                await asyncio.to_thread(child.ends)

    asyncio.run(main())


FORKING = """
import os, sys
import numpy as np
import opstep
from opstep import layers

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    y = layers.reduce_sum(layers.tanh(layers.data("x", shape=[4])))
exe = opstep.Executor()
feed = {"x": np.ones(4, np.float32)}
exe.run(main, feed=feed, fetch_list=[y])
pid = os.fork()
exe.run(main, feed=feed, fetch_list=[y])
if pid == 0:
    assert not opstep.debug.attached()
    try:
        opstep.debug.connect()
    except opstep.Error as error:
        assert "forked" in str(error), error
    else:
        raise AssertionError("connect worked in a forked child")
    sys.exit(7)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print("child", status, opstep.debug.attached(), flush=True)
"""


def test_a_forked_child_is_left_alone(tmp_path: Path) -> None:
    script = tmp_path / "forking.py"
    script.write_text(FORKING)

    async def main() -> None:
        async with debugging("tanh") as (watch, address):
            child = subprocess.Popen(
                [sys.executable, str(script)],
                env={**os.environ, "OPSTEP_SERVER": address, "OPSTEP_WAIT": "100"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            try:
                for _ in range(2):  # the parent's two runs, and none of the child's
                    stopped = await watch.event(StoppedEvent)
                    assert stopped.thread.executor.hello.pid == child.pid
                    await watch.debugger.resume(stopped.thread.id, "continue")
                output, _ = await asyncio.to_thread(child.communicate, timeout=SECONDS)
                assert output.strip() == "child 7 True", output
                assert child.returncode == 0
            finally:
                child.kill()

    asyncio.run(main())


def test_leaving_and_connecting_again(tmp_path: Path) -> None:
    script = tmp_path / "again.py"
    script.write_text(
        "import opstep\n"
        "for _ in range(5):\n"
        "    opstep.debug.connect(wait=5)\n"
        "    opstep.Executor().run(opstep.Program('empty'))\n"
        "    assert opstep.debug.attached()\n"
        "    opstep.debug.detach()\n"
        "    assert not opstep.debug.attached()\n"
    )

    async def main() -> None:
        async with debugging() as (watch, _):
            await watch.debugger.launch(LaunchTarget(str(script)))
            for _ in range(5):
                await watch.event(ExecutorJoined)
            assert watch.debugger._process is not None
            await asyncio.wait_for(watch.debugger._process.wait(), SECONDS)
            assert watch.debugger._process._process.returncode == 0

    asyncio.run(main())
