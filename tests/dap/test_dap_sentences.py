"""What a person reads when something is not possible now: no words of the protocol."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.dap_client import Session
from opstep_server.dap import adapter_session as adapter
from opstep_server.dap.protocol.request_rules import When


class Nowhere:
    def write(self, data: bytes, /) -> None:
        """Nobody reads it."""


def commands_at_a_stop() -> list[str]:
    async def find() -> list[str]:
        made = adapter.AdapterSession(Nowhere())
        found = [name for name, (_, rule) in made._handlers.items() if rule.when is When.STOPPED]
        await made.debugger.close()
        return found

    return asyncio.run(find())


@pytest.mark.parametrize("state", ["running", "ended"])
def test_what_needs_a_stop_says_so_in_plain_words(script: Path, state: str) -> None:
    commands = commands_at_a_stop()
    assert {"stackTrace", "next", "opstepTensor"} <= set(commands)
    with Session() as session:
        session.start(script, "--runs", "100000", "--pause-each", "0.005")
        session.event("thread")
        wanted = "the program is running: pause it first"
        if state == "ended":
            session.request("terminate")
            session.ends()
            wanted = "no program is at a stop: set a breakpoint, or pause a program that runs"
        for command in (*commands, "evaluate"):
            failure = session.fails(command, {"expression": "x"}, valid=False)
            assert (failure.short, failure.sentence) == ("notStopped", wanted)


def test_what_belongs_to_an_earlier_stop(script: Path) -> None:
    with Session() as session:
        session.start(script, stopOnEntry=True)
        session.stopped("entry")
        frame = session.top(1)["id"]
        scope = session.scopes(frame)["Inputs"]
        (row, *_) = session.variables(scope).values()
        session.step("next", 1, "instruction")
        for command, arguments in (
            ("scopes", {"frameId": frame}),
            ("variables", {"variablesReference": scope}),
            ("readMemory", {"memoryReference": row["memoryReference"], "count": 4}),
        ):
            sentence = session.fails(command, arguments).sentence
            assert "belong" in sentence
            assert not any(word in sentence for word in ("ask for", "scopes", "reference"))
            assert not any(sign.isdigit() for sign in sentence)
