"""Scripts that run beside a bare server for taps."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from harness import PROGRAMS
from harness.patience import SECONDS
from harness.tap_server import TapServer
from opstep_server import expr
from opstep_server.wire import debug_pb2 as pb


def tap(pattern: str = "*", uid: str = "t", **settings: object) -> pb.Tap:
    made = pb.Tap(uid=uid, name=uid, who="test", statistics=True)
    made.where.pattern = pattern
    for key, value in settings.items():
        if key in ("condition", "value"):
            getattr(made, key).CopyFrom(expr.parse(str(value)))
            setattr(made, f"{key}_text", str(value))
        else:
            setattr(made, key, value)
    return made


@contextlib.asynccontextmanager
async def script(
    address: str, *words: str, name: str = "taps/tapped.py", **environment: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PROGRAMS / name), *words),
        env={**os.environ, "OPSTEP_SERVER": address, "OPSTEP_WAIT": "100", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def finished(process: asyncio.subprocess.Process) -> tuple[str, str]:
    out, err = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 0, err.decode()
    return out.decode(), err.decode()


def run(
    server: TapServer,
    folder: Path,
    *words: str,
    during: Callable[[], Awaitable[None]] | None = None,
    name: str = "taps/tapped.py",
    **environment: str,
) -> tuple[str, str]:
    """The script's output; the server has all that it logged.

    With `during` the script goes on until that is over.
    """
    until = folder / "until"
    if during is not None:
        words = (*words, str(until))

    async def main() -> tuple[str, str]:
        server.here, server.gone = asyncio.Event(), asyncio.Event()
        async with (
            server.at(folder / "s") as address,
            script(address, *words, name=name, **environment) as process,
        ):
            if during is not None:
                await asyncio.wait_for(server.here.wait(), SECONDS)
                await during()
                until.touch()
            result = await finished(process)
            await asyncio.wait_for(server.gone.wait(), SECONDS)
            return result

    return asyncio.run(main())


def until_ended(server: TapServer, *uids: str) -> Callable[[], Awaitable[None]]:
    """Waits for the end of these taps."""

    async def during() -> None:
        while taps := await server.listed():
            if all(taps[uid].ended for uid in uids):
                return
            await asyncio.sleep(0.02)

    return during


def steps(server: TapServer, op: str = "") -> list[int]:
    found = []
    for batch in server.batches:
        for source, step in zip(batch.source, batch.step, strict=True):
            if not op or server.sources[source].op_name == op:
                found.append(step)
    return found
