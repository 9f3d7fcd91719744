"""Hundreds of thousands of wild messages over the real wire: nobody crashes, hangs or spins."""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import sys
from pathlib import Path

import grpc
import grpc.aio
import pytest
from test_nothing_perturbed import SCRIPTS, undisturbed

from harness.patience import SECONDS
from harness.scripted_executor import ScriptedExecutor, session
from harness.wild_messages import Wild
from opstep_server import connection
from opstep_server.debugger import Debugger, ExecutorJoined
from opstep_server.wire import debug_pb2 as pb

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MESSAGES = 30_000
# Those that cannot be read end the stream, and another one takes time.
STREAMS = 150
METHOD = "/opstep.proto.DebugServer/Attach"


def test_a_server_that_is_told_nonsense(capfd: pytest.CaptureFixture[str]) -> None:
    async def flood(address: str, wild: Wild) -> None:
        sent, streams = 0, 0
        messages = wild.stream(pb.FromExecutor)
        async with grpc.aio.insecure_channel(address) as channel:
            while sent < MESSAGES:
                # Raw bytes: what cannot be read has to go over the wire too.
                call = channel.stream_stream(METHOD)()
                hello = pb.Hello(protocol=connection.PROTOCOL, pid=os.getpid())
                await call.write(pb.FromExecutor(hello=hello).SerializeToString())
                await call.read()
                drain = asyncio.create_task(_drain(call))
                streams += 1
                try:
                    for data, message in messages:
                        if message is None and streams >= STREAMS:
                            continue
                        sent += 1
                        await call.write(data)
                        if message is None or message.HasField("goodbye") or sent == MESSAGES:
                            break
                except (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
                    pass
                call.cancel()
                await drain
        assert streams > 50

    async def run() -> None:
        async with session() as s:
            wild = Wild(1)
            s.events = _Forgetful()
            await flood(s.address, wild)
            # The next one is served as if nothing had been.
            s.events = []
            executor = ScriptedExecutor(s.address, pid=77)
            assert not (await executor.connect()).error
            assert (await s.wait_for(ExecutorJoined)).executor.pid == 77
            await executor.send(stopped=pb.Stopped(thread=1, stop=1))
            await executor.close()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    asyncio.run(run())
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000, f"{grown} KiB more than before"
    assert "Traceback" not in capfd.readouterr().err


class _Forgetful(list):  # type: ignore[type-arg]
    """Keeps no event: the flood's are nobody's concern."""

    def append(self, event: object) -> None:
        pass


async def _drain(call: grpc.aio.StreamStreamCall) -> None:
    try:
        while await call.read() is not grpc.aio.EOF:
            pass
    except (grpc.RpcError, asyncio.CancelledError):
        pass


class WildServer:
    """Welcomes each executor, then sends it wild messages."""

    def __init__(self, wild: Wild, *, spare: tuple[str, ...], messages: int) -> None:
        self._messages = wild.stream(pb.ToExecutor)
        next(self._messages)  # The stock is made now, and not while an executor waits.
        self._spare = spare
        self._wanted = messages
        self.sent = self.streams = self.replies = 0
        self.done = asyncio.Event()

    async def start(self, folder: Path) -> tuple[grpc.aio.Server, str]:
        server = grpc.aio.server()
        handler = grpc.stream_stream_rpc_method_handler(self._attach)
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("opstep.proto.DebugServer", {"Attach": handler})]
        )
        address = f"unix:{folder}/socket"
        server.add_insecure_port(address)
        await server.start()
        return server, address

    async def _attach(self, _requests: object, context: grpc.aio.ServicerContext) -> None:
        self.streams += 1
        await context.read()
        welcome = pb.Welcome(protocol=connection.PROTOCOL, present=True)
        await context.write(pb.ToExecutor(welcome=welcome).SerializeToString())
        reading = asyncio.create_task(self._read(context))
        ids = itertools.count(1)
        try:
            for data, message in self._messages:
                if message is None:
                    if self.streams >= STREAMS:
                        continue
                elif message.WhichOneof("message") == "command":
                    if message.command.WhichOneof("command") in self._spare:
                        continue
                    message.command.id = next(ids)
                    data = message.SerializeToString()
                if len(data) > connection.MESSAGE_LIMIT - 1024:
                    continue
                await context.write(data)
                self.sent += 1
                if self.sent >= self._wanted and self.replies > 50:
                    self.done.set()
                    break
                if self.sent % 64 == 0:
                    await asyncio.sleep(0)
        finally:
            reading.cancel()

    async def _read(self, context: grpc.aio.ServicerContext) -> None:
        while (data := await context.read()) is not grpc.aio.EOF:
            message = pb.FromExecutor.FromString(data)
            for part in message.batch.messages or [message]:
                self.replies += part.WhichOneof("message") == "reply"


@pytest.mark.parametrize("policy", ["observe", "full"])
def test_an_executor_that_is_told_nonsense(policy: str, tmp_path: Path) -> None:
    """It trains on; where it may not be changed, to the same parameters."""
    # Those are obeyed: the debugger is gone then, or the process.
    spare = ("detach", "terminate", "set_presence")
    # Many commands are refused to those who may only observe.
    messages = MESSAGES // 6 if policy == "observe" else MESSAGES

    async def run() -> str:
        wild = WildServer(Wild(2), spare=spare, messages=messages)
        server, address = await wild.start(tmp_path)
        settings = {"OPSTEP_SERVER": address, "OPSTEP_POLICY": policy, "OPSTEP_MAX_PAUSE": "0.01"}
        program = SCRIPTS["digest"] if policy == "observe" else (FOREVER,)
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *map(str, (*program, "--until", until)),
            env={**os.environ, **settings},
            stdout=asyncio.subprocess.PIPE,
        )
        await asyncio.wait_for(wild.done.wait(), SECONDS * 4)
        until.touch()
        output, _ = await child.communicate()
        assert child.returncode == 0
        await server.stop(None)
        return output.decode()

    until = tmp_path / "until"
    output = asyncio.run(run())
    if policy == "observe":
        assert output.split()[1:] == [undisturbed("digest")]


FOREVER = Path(__file__).resolve().parents[2] / "programs" / "forever.py"


def test_a_debugger_outlives_an_executor_of_nonsense() -> None:
    """Every wild message in the middle of a stop: the answers to questions are wild too."""

    async def run() -> None:
        debugger = Debugger()
        address = await debugger.listen()
        wild = Wild(3)
        executor = ScriptedExecutor(address)
        for kind in pb.Command.DESCRIPTOR.oneofs_by_name["command"].fields:
            executor.answers[kind.name] = lambda _: {"value": wild.message(pb.Value, 3)}
        await executor.connect()
        for number in range(300):
            stopped = wild.message(pb.Stopped)
            stopped.thread, stopped.stop = 1, number
            await executor.send(stopped=stopped)
            while not (debugger.threads and debugger.threads[0].stopped is not None):
                await asyncio.sleep(0.001)
            await debugger.evaluate(debugger.threads[0].id, 0, "x + 1")
            await executor.send(continued=pb.Continued(thread=1))
            while debugger.threads[0].stopped is not None:
                await asyncio.sleep(0.001)
        await executor.close()
        await debugger.close()

    asyncio.run(run())
