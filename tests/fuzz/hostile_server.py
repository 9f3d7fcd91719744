"""Fuzz: an executor whose debug server says anything: it runs on and ends in order.

PYTHONPATH=tests python -m fuzz.hostile_server --seconds 60 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import grpc
import grpc.aio

from harness.wild_messages import Wild
from opstep_server import connection
from opstep_server.wire import debug_pb2 as pb

FOREVER = Path(__file__).resolve().parents[1] / "programs" / "forever.py"
# Those are obeyed: the debugger is gone then, or the process.
SPARED = ("detach", "terminate")
# Messages in one stream; the next one begins with another welcome.
STREAM = 2000


class HostileServer:
    def __init__(self, seed: int, most: int) -> None:
        self._wild = Wild(seed)
        self._choose = random.Random(seed)
        self._messages = self._wild.stream(pb.ToExecutor)
        next(self._messages)  # The stock is made now, and not while an executor waits.
        self._most = most
        self.sent = self.streams = 0
        self.done = asyncio.Event()

    async def start(self, address: str) -> grpc.aio.Server:
        server = grpc.aio.server()
        handler = grpc.stream_stream_rpc_method_handler(self._attach)
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("opstep.proto.DebugServer", {"Attach": handler})]
        )
        server.add_insecure_port(address)
        await server.start()
        return server

    async def _attach(self, _requests: object, context: grpc.aio.ServicerContext) -> None:
        self.streams += 1
        await context.read()
        # Its breakpoints, filters and taps are wild too; not what would send the executor away.
        welcome = self._wild.message(pb.Welcome)
        welcome.protocol, welcome.error, welcome.present = connection.PROTOCOL, "", True
        await context.write(pb.ToExecutor(welcome=welcome).SerializeToString())
        reading = asyncio.create_task(_read(context))
        ids = itertools.count(1)
        try:
            for data, message in itertools.islice(self._messages, STREAM):
                # It ends the stream, and the next one takes a while.
                if message is None and self._choose.random() < 0.98:
                    continue
                if message is not None and message.WhichOneof("message") == "command":
                    if message.command.WhichOneof("command") in SPARED:
                        continue
                    message.command.id = next(ids)
                    data = message.SerializeToString()
                if len(data) > connection.MESSAGE_LIMIT - 1024:
                    continue
                await context.write(data)
                self.sent += 1
                if self.sent >= self._most:
                    self.done.set()
                    return
        finally:
            reading.cancel()


async def _read(context: grpc.aio.ServicerContext) -> None:
    while await context.read() is not grpc.aio.EOF:
        pass


async def one(seed: int, most: int, seconds: float = 200) -> HostileServer:
    """One executor until so many messages were sent or the time is over; raises when it crashes."""
    hostile = HostileServer(seed, most)
    with tempfile.TemporaryDirectory() as folder:
        address, until = f"unix:{folder}/socket", Path(folder) / "until"
        server = await hostile.start(address)
        settings = {"OPSTEP_SERVER": address, "OPSTEP_MAX_PAUSE": "0.01"}
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, str(FOREVER), "--until", str(until)),
            env={**os.environ, **settings},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(hostile.done.wait(), seconds)
        until.touch()
        output, said = await asyncio.wait_for(child.communicate(), 300)
        await server.stop(None)
        assert child.returncode == 0, (seed, child.returncode, said.decode()[-2000:])
        assert b"done" in output, (seed, output[-500:])
    return hostile


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    sent = 0
    for seed in itertools.count(options.seed):
        left = end - time.monotonic()
        if left <= 0:
            break
        hostile = asyncio.run(one(seed, 20_000, left))
        sent += hostile.sent
        print(f"seed {seed}: {hostile.sent} messages in {hostile.streams} streams", flush=True)
    print(f"{sent} messages: no crash")


if __name__ == "__main__":
    main()
