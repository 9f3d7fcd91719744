"""Doorbells of running processes: the sockets by which a debug server can attach.

One line is sent and one answered: `who` asks what runs there, `ring unix:/path` makes the process
dial the debug server that listens at that socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from opstep_server import script_process
from opstep_server.access import is_private, listens
from opstep_server.model import DebuggerError

SECONDS = 2.0
_MAX_LINE = 64 << 10
# The end of a doorbell's answer while the last stream of its process ends.
_TRY_AGAIN = "dialled just now: try again"


@dataclass(frozen=True)
class Running:
    """What a process says about itself."""

    pid: int
    argv: tuple[str, ...]
    policy: str
    # A debugger is attached.
    attached: bool
    # The debug server that it is connected to; empty when there is none.
    server: str


def folders() -> list[str]:
    """The existing folders of doorbells that belong only to us."""
    user = os.geteuid()
    # The process may have been started with or without the variable.
    runtimes = [os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{user}"]
    places = [os.path.join(runtime, "opstep") for runtime in runtimes if runtime]
    places.append(f"/tmp/opstep-{user}")
    return [place for place in dict.fromkeys(places) if is_private(place)]


async def running() -> list[Running]:
    """All that answer, by process id. Removes sockets at which nobody listens any more."""
    names = [(folder, name) for folder in folders() for name in os.listdir(folder)]
    bells = [os.path.join(folder, name) for folder, name in names if name.isdigit()]
    answers = await asyncio.gather(*(_who(path) for path in bells))
    return sorted((a for a in answers if a is not None), key=lambda answer: answer.pid)


async def ring(pid: int, address: str) -> None:
    """Makes the process dial the address; returns when it has begun to."""
    paths = [path for folder in folders() if os.path.exists(path := f"{folder}/{pid}")]
    problem = f"process {pid} runs no opstep executor: 'opstep ps' lists those that do"
    if not script_process.alive(pid):
        raise DebuggerError(
            f"there is no process {pid}: 'opstep ps' lists those that run an opstep executor"
        )
    loop = asyncio.get_running_loop()
    end = loop.time() + SECONDS
    while (problem := await _ring(pid, paths, address, problem)) and loop.time() < end:
        if not _is_leaving(problem):
            break
        await asyncio.sleep(0.05)
    if problem:
        raise DebuggerError(problem)


def _is_leaving(problem: str) -> bool:
    """Whether the process has not noticed yet that its debugger is gone."""
    if problem.endswith(_TRY_AGAIN):
        return True
    found = re.search(r"debug server at unix:(/.*?) already", problem)
    return found is not None and not listens(found[1])


async def _ring(pid: int, paths: Sequence[str], address: str, problem: str) -> str:
    """Rings; returns why it failed, or an empty text."""
    for path in paths:
        try:
            answer = await _ask(path, f"ring {address}")
        except (ConnectionRefusedError, FileNotFoundError):
            continue
        except (OSError, asyncio.TimeoutError, ValueError):
            problem = f"process {pid} runs an opstep executor, but does not answer"
            continue
        if "error" not in answer:
            return ""
        problem = str(answer["error"])
        asked = await _who(path) if not _is_leaving(problem) else None
        if asked is not None and asked.server:
            problem += (
                ": leave the debugger that has it, or, if that is 'opstep serve', share it: "
                f"'opstep attach {asked.server}', or in an editor \"connect\" and the address that "
                "it prints for clients"
            )
    return problem


async def _who(path: str) -> Running | None:
    try:
        answer = await _ask(path, "who")
        return Running(
            pid=int(answer["pid"]),
            argv=tuple(str(word) for word in answer["argv"]),
            policy=str(answer["policy"]),
            attached=bool(answer["attached"]),
            server=str(answer["server"]),
        )
    except ConnectionRefusedError:
        # Its process ended without a chance to clean up.
        with contextlib.suppress(OSError):
            os.unlink(path)
    except (OSError, asyncio.TimeoutError, ValueError, KeyError, TypeError):
        pass  # Busy with another caller, or not one of our doorbells.
    return None


async def _ask(path: str, line: str) -> dict[str, Any]:
    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # While the doorbell's queue is full the kernel refuses, and asyncio gives a stream that is
        # not connected.
        while True:
            reader, writer = await asyncio.open_unix_connection(path, limit=_MAX_LINE)
            if writer.get_extra_info("peername") is not None:
                return reader, writer
            writer.close()
            await asyncio.sleep(0.01)

    async def talk() -> dict[str, Any]:
        reader, writer = await connect()
        try:
            writer.write(line.encode() + b"\n")
            await writer.drain()
            answer = json.loads((await reader.readline()).decode("utf-8", "replace"))
            if not isinstance(answer, dict):
                raise ValueError("a doorbell answers with an object")
            return answer
        finally:
            writer.close()

    return await asyncio.wait_for(talk(), SECONDS)
