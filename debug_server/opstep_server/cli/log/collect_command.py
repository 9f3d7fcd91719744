"""`opstep collect`: a debug server without a user, for processes that have taps."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from typing import Any

from opstep_server import access, script_process
from opstep_server.cli.app import exit_codes, standard_streams
from opstep_server.model import DebuggerError
from opstep_server.taps import config
from opstep_server.taps.collector import Collector

# How long messages may still come after the end of a process.
LAST_WORDS_SECONDS = 2.0


def main(args: argparse.Namespace) -> int:
    standard_streams.open_missing()
    if args.check and not args.taps:
        _tell("collect: --check needs --taps FILE")
        return exit_codes.WRONG
    try:
        if args.check:
            config.read(args.taps)
            return 0
        keys = args.token_file, args.tls_cert, args.tls_key
        asyncio.run(collect(args.taps, args.listen, keys, args.parent, args.ready))
    except DebuggerError as error:
        _tell(str(error))
        return exit_codes.WRONG
    return 0


async def collect(
    taps: str | None,
    listen: str | None,
    keys: tuple[str | None, str | None, str | None],
    parent: int | None,
    ready: int | None,
) -> None:
    """Runs until a signal, or until the parent has ended and all its records are written."""
    collector = Collector(taps, _tell)
    endpoint = access.listen_endpoint(listen, *keys) if listen else None
    address = await collector.start(endpoint)
    token = f" with the token in {endpoint.token_file}" if endpoint and endpoint.token_file else ""
    if ready is None:
        _tell(f"executors dial {address}{token}")
    else:
        # Our parent waits for the address.
        with contextlib.suppress(OSError), os.fdopen(ready, "w") as pipe:
            pipe.write(f"{address}\n")
    try:
        await _until_end(parent)
        if parent is not None:
            await _last_words(collector)
    finally:
        await collector.close()


async def _until_end(parent: int | None) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    waiting: list[asyncio.Task[Any]] = [asyncio.create_task(ended.wait())]
    if parent is not None:
        waiting.append(asyncio.create_task(script_process.end_of(parent)))
    _, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()


async def _last_words(collector: Collector) -> None:
    """Waits until all streams have ended."""
    loop = asyncio.get_running_loop()
    end = loop.time() + LAST_WORDS_SECONDS
    while collector.executors and loop.time() < end:
        await asyncio.sleep(0.02)


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), f"opstep: {text}\n".encode(errors="replace"))
