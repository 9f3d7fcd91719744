"""Asking a doorbell at which many are waiting."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from pathlib import Path

from opstep_server import doorbell


def test_a_doorbell_whose_queue_is_full_is_asked_when_there_is_room(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(doorbell, "SECONDS", 60.0)
    path = str(tmp_path / "1")
    with contextlib.ExitStack() as stack:
        bell = stack.enter_context(socket.socket(socket.AF_UNIX))
        bell.bind(path)
        bell.listen(1)
        silent = []
        with contextlib.suppress(BlockingIOError):
            while True:
                silent.append(stack.enter_context(socket.socket(socket.AF_UNIX)))
                silent[-1].setblocking(False)
                silent[-1].connect(path)

        def answer() -> None:
            while True:
                caller, _ = bell.accept()
                with caller:
                    if caller.recv(100) == b"who\n":
                        caller.sendall(b'{"pid": 7}\n')
                        return

        connect, tried = asyncio.open_unix_connection, asyncio.Event()

        async def tries(*args, **options):
            made = await connect(*args, **options)
            tried.set()
            return made

        monkeypatch.setattr(asyncio, "open_unix_connection", tries)

        async def ask() -> dict[str, object]:
            asked = asyncio.ensure_future(doorbell._ask(path, "who"))
            await tried.wait()
            for caller in silent:
                caller.close()
            threading.Thread(target=answer, daemon=True).start()
            return await asked

        assert asyncio.run(ask()) == {"pid": 7}
