"""A hundred thousand wild messages: each is answered once at the most, nothing breaks or spins."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from harness.patience import SECONDS
from opstep_server.dap.adapter_session import AdapterSession
from opstep_server.debugger import Debugger

Json = dict[str, Any]

MESSAGES = 30_000
# Sent in one go; behind each the client waits for an answer.
BATCH = 200
# Ends of a session or of a program take a process each, and steps give up all looking around: how
# likely such a message is let through.
RARE = {"disconnect": 0.002, "restart": 0.002, "terminate": 0.002, "next": 0.2, "stepIn": 0.2}
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, -1, 0.5, 1e308, float("nan"), 2**31, 2**32, 2**63, 2**64, 10**40,
    "", "x", "x[0]", "x.mean()", "1 +", "matmul", "main.opstep", "/", "\x00", "\ud800", "é" * 300,
    "(" * 500, "0x1", "0x1000001000001", "nan", "write", "instruction", "[0]", "X (x)", "never",
    [], [[]], {}, {"": {}}, [None], [{}], [{"name": "log"}], [{"line": 1}], {"path": "/x.py"},
)  # fmt: skip


class Client:
    """The other end of a session in this process; all it says goes through the real framing."""

    def __init__(self, script: Path) -> None:
        self._script = script
        self.sent: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()
        self.problems: list[str] = []
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._events: dict[str, Json] = {}
        self._news = asyncio.Event()
        self._seq = 10**6
        self.debugger = Debugger()
        self.session = AdapterSession(self, self.debugger)
        self.served = asyncio.create_task(self.session.serve())

    def write(self, data: bytes) -> None:
        """What the adapter says."""
        while data:
            header, _, rest = data.partition(b"\r\n\r\n")
            length = int(header.removeprefix(b"Content-Length: "))
            self._heard(json.loads(rest[:length]))
            data = rest[length:]

    def _heard(self, message: Json) -> None:
        if message["type"] == "event":
            self._events[message["event"]] = message["body"]
            self._news.set()
            return
        seq = message["request_seq"]
        if "internal error" in json.dumps(message):
            self.problems.append(message["body"]["error"]["format"])
        self.answered[seq] += 1
        if seq in self._waiting and not self._waiting[seq].done():
            self._waiting[seq].set_result(message)

    def feed(self, body: bytes) -> None:
        self.session.feed(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def ask(self, command: str, arguments: Any = None) -> Json:
        self._seq += 1
        self.sent[self._seq] += 1
        self._waiting[self._seq] = asyncio.get_running_loop().create_future()
        message = {"seq": self._seq, "type": "request", "command": command}
        self.feed(json.dumps({**message, "arguments": arguments}).encode())
        return await soon(self._waiting[self._seq])

    async def event(self, name: str) -> Json:
        while name not in self._events:
            self._news.clear()
            await soon(self._news.wait())
        return self._events[name]

    @property
    def over(self) -> bool:
        return self.served.done() or "terminated" in self._events

    async def look(self) -> Json:
        """References that are good now, for messages that get further than to their arguments."""
        good: Json = {"threadId": 1}
        frames = (await self.ask("stackTrace", {"threadId": 1}))["body"].get("stackFrames")
        if not frames:
            return good
        good["frameId"] = frames[0]["id"]
        good["instructionReference"] = frames[0].get("instructionPointerReference", "0x1")
        scopes = (await self.ask("scopes", good))["body"].get("scopes")
        if scopes:
            good["variablesReference"] = scopes[0]["variablesReference"]
            rows = (await self.ask("variables", good))["body"].get("variables")
            if rows:
                good["memoryReference"] = rows[0]["memoryReference"]
        return good

    async def begin(self) -> None:
        """Stopped at a program's first op."""
        await self.ask("initialize", {"adapterID": "opstep"})
        await self.ask("configurationDone")
        arguments = {
            "program": str(self._script),
            "args": ["--runs", "100000"],
            "stopOnEntry": True,
        }
        assert (await self.ask("launch", arguments))["success"]
        await self.event("stopped")

    async def end(self) -> None:
        """Each request had one answer, or none when the client left before."""
        self.session.end()
        await soon(self.served)
        await soon(self.debugger.close())
        assert not self.problems
        more = self.answered - self.sent
        assert not more, f"answered more often than asked: {more}"


async def soon(work: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(work, SECONDS)


class Wild:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._stock = _stock()

    def message(self, seq: int, good: Json) -> tuple[bytes, int | None]:
        """A body, and the number under which it may be answered."""
        choose = self._random
        command, arguments = choose.choice(self._stock)
        if choose.random() > RARE.get(command, 1.0):
            command = "threads"
        message: Json = {"seq": seq, "type": "request", "command": command}
        known = {name: good[name] for name in arguments if name in good}
        message["arguments"] = json.loads(json.dumps({**arguments, **known}))
        if command == "disassemble":
            message["arguments"]["memoryReference"] = good.get("instructionReference", "0x1")
        for _ in range(choose.choice((0, 1, 1, 1, 2, 3))):
            self._change(message)
        body = json.dumps(message).encode()
        if choose.random() < 0.05:
            body = self._broken(body)
        try:
            read = json.loads(body)
        except ValueError:
            read = None
        number = read.get("seq") if isinstance(read, dict) else None
        return body, number if isinstance(number, int) else None

    def _change(self, message: Json) -> None:
        choose = self._random
        if choose.random() < 0.1:
            key = choose.choice(["seq", "type", "command", "arguments"])
            message[key] = choose.choice(VALUES)
            return
        place: Any = message["arguments"]
        while isinstance(place, (dict, list)) and place:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = choose.choice(keys)
            inner = place[key]
            if isinstance(inner, (dict, list)) and inner and choose.random() < 0.7:
                place = inner
            elif choose.random() < 0.2:
                del place[key]
                return
            else:
                place[key] = choose.choice(VALUES)
                return

    def _broken(self, body: bytes) -> bytes:
        wild = bytearray(body)
        for _ in range(self._random.choice((1, 1, 2, 5))):
            at = self._random.randrange(len(wild) + 1)
            if wild and self._random.random() < 0.5:
                del wild[at : at + self._random.choice((1, 1, 3, 20))]
            else:
                wild[at:at] = self._random.choice((b"\x00", b'"', b"{", b"]", b"\xff", b"1e999"))
        return bytes(wild)


def _stock() -> list[tuple[str, Json]]:
    source = {"source": {"path": __file__}}
    breakpoints = [{"line": 3, "condition": "step == 10", "hitCondition": "3", "logMessage": "{x}"}]
    frame, step = {"frameId": 1}, {"threadId": 1, "granularity": "instruction"}
    step["singleThread"] = True
    return [
        ("initialize", {"adapterID": "opstep", "linesStartAt1": False}),
        ("launch", {"program": __file__, "args": ["a"], "env": {"A": "b"}, "console": "x"}),
        ("configurationDone", {}),
        ("threads", {}),
        ("stackTrace", {"threadId": 1, "startFrame": 0, "levels": 2}),
        ("scopes", frame),
        ("variables", {"variablesReference": 1, "start": 0, "count": 2, "filter": "named"}),
        ("variables", {"variablesReference": 7, "format": {"hex": True}}),
        ("evaluate", {"expression": "x[1]", "context": "watch", **frame}),
        ("evaluate", {"expression": "x[1] = 2", "context": "repl", **frame}),
        ("evaluate", {"expression": "x", "context": "clipboard"}),
        ("evaluate", {"expression": "never", "context": "hover", **frame}),
        ("setVariable", {"variablesReference": 1, "name": "X (x)", "value": "1"}),
        ("setExpression", {"expression": "x[0]", "value": "2", **frame}),
        ("completions", {"text": "x.me", "column": 5, **frame}),
        ("readMemory", {"memoryReference": "0x10000000000", "offset": 4, "count": 8}),
        ("writeMemory", {"memoryReference": "0x10000000000", "offset": 0, "data": "AAAA"}),
        ("disassemble", {"memoryReference": "0x1000001000001", "instructionCount": 4}),
        ("modules", {"startModule": 0, "moduleCount": 1}),
        ("loadedSources", {}),
        ("source", {"sourceReference": 1}),
        ("breakpointLocations", {**source, "line": 1, "endLine": 9}),
        ("setBreakpoints", {**source, "breakpoints": breakpoints}),
        ("setFunctionBreakpoints", {"breakpoints": [{"name": "nowhere*"}]}),
        ("setInstructionBreakpoints", {"breakpoints": [{"instructionReference": "0x1"}]}),
        ("dataBreakpointInfo", {"name": "X (x)", "variablesReference": 2}),
        ("setDataBreakpoints", {"breakpoints": [{"dataId": "x", "accessType": "write"}]}),
        ("setExceptionBreakpoints", {"filters": ["nan"], "filterOptions": [{"filterId": "inf"}]}),
        ("exceptionInfo", {"threadId": 1}),
        ("stepInTargets", frame),
        ("next", dict(step)),
        ("stepIn", dict(step)),
        ("pause", {"threadId": 1}),
        ("cancel", {"requestId": 5, "progressId": "progress 1"}),
        ("restart", {"arguments": {"program": __file__}}),
        ("terminate", {"restart": False}),
        ("disconnect", {"terminateDebuggee": True}),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_wild_messages(script: Path) -> None:
    async def run() -> int:
        wild, sent, sessions = Wild(7), 0, 0
        while sent < MESSAGES:
            client, sessions = Client(script), sessions + 1
            await client.begin()
            while sent < MESSAGES and not client.over:
                looked = asyncio.create_task(client.look())
                await asyncio.wait([looked, client.served], return_when=asyncio.FIRST_COMPLETED)
                good = looked.result() if looked.done() else {}
                for _ in range(BATCH):
                    body, seq = wild.message(sent + 1, good)
                    if seq is not None:
                        client.sent[seq] += 1
                    client.feed(body)
                    sent += 1
                asked = asyncio.create_task(client.ask("threads"))
                await asyncio.wait([asked, client.served], return_when=asyncio.FIRST_COMPLETED)
                asked.cancel()
            await client.end()
        return sessions

    async def comes_to_rest() -> None:
        """An adapter that has nothing to do computes nothing, some time after wild messages."""
        client, wild = Client(Path(__file__)), Wild(8)
        await client.ask("initialize", {"adapterID": "opstep"})
        for seq in range(1000):
            body, number = wild.message(seq, {})
            if number is not None:
                client.sent[number] += 1
            client.feed(body)
        end = time.monotonic() + SECONDS
        computed = 1.0
        while computed > 0.3:
            assert time.monotonic() < end, "it spins"
            before = time.process_time()
            await asyncio.sleep(1.0)
            computed = time.process_time() - before
        await client.end()

    async def as_usual() -> None:
        client = Client(script)
        await client.begin()
        answer = await client.ask("evaluate", {"expression": "x"})
        assert answer["body"]["result"].startswith("float32[4, 3]")
        await client.ask("disconnect")
        await client.end()

    assert asyncio.run(run()) > 1
    asyncio.run(comes_to_rest())
    asyncio.run(as_usual())
