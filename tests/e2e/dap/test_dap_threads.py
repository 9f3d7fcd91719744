"""Several executors in one session, each at its own pace: scripted, so that they meet."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from harness.scripted_executor import PATIENCE, ScriptedExecutor, op
from opstep_server.dap.adapter_session import AdapterSession
from opstep_server.debugger import Debugger
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e

Json = dict[str, Any]


class Client:
    """The other end of a session in this process."""

    def __init__(self) -> None:
        self.heard: list[Json] = []
        self.debugger = Debugger()
        self.session = AdapterSession(self, self.debugger)

    def write(self, data: bytes) -> None:
        while data:
            header, _, rest = data.partition(b"\r\n\r\n")
            length = int(header.removeprefix(b"Content-Length: "))
            self.heard.append(json.loads(rest[:length]))
            data = rest[length:]

    def send(self, seq: int, command: str, **arguments: Any) -> None:
        request = {"seq": seq, "type": "request", "command": command, "arguments": arguments}
        self.session.accept(request)

    def events(self, name: str) -> list[Json]:
        return [m["body"] for m in self.heard if m.get("event") == name]

    async def until(self, condition: Any) -> None:
        async def wait() -> None:
            while not condition():
                await asyncio.sleep(0.01)

        await asyncio.wait_for(wait(), PATIENCE)

    async def answer(self, seq: int) -> Json:
        def found() -> list[Json]:
            return [m for m in self.heard if m.get("request_seq") == seq]

        await self.until(found)
        return found()[0]


def test_one_that_stops_while_another_goes_on_stays_stopped() -> None:
    async def run() -> None:
        client = Client()
        address = await client.debugger.listen()
        one, two = ScriptedExecutor(address, pid=1), ScriptedExecutor(address, pid=2)
        await one.connect()
        await two.connect()
        client.send(1, "initialize", adapterID="opstep")
        await one.stop_at(op())
        await client.until(lambda: client.events("stopped"))
        (first,) = client.events("stopped")

        async def answer(command: pb.Command) -> None:
            # The other one comes to its breakpoint before the request is answered.
            if command.WhichOneof("command") == "resume":
                await two.stop_at(op())
                await client.until(lambda: len(client.session.stops.all) == 1)
            await one.send(reply=pb.Reply(command=command.id, done=pb.Done()))

        one._answer = answer  # type: ignore[method-assign]
        client.send(2, "continue", threadId=first["threadId"])
        assert (await client.answer(2))["success"]
        assert len(client.events("stopped")) == 2
        assert not two.of("resume")
        # Asked for now, it goes on with the others.
        del one._answer
        await one.stop_at(op(), stop=2)
        await client.until(lambda: len(client.events("stopped")) == 3)
        client.send(3, "continue", threadId=first["threadId"])
        await client.answer(3)
        assert len(two.of("resume")) == 1
        await client.debugger.close()
        await one.close()
        await two.close()

    asyncio.run(run())
