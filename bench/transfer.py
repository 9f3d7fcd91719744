"""A tensor's bytes from a stopped executor to the debug server, over the unix socket."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path

from table import Row, speed_ratio

from opstep_server import malloc_tuning
from opstep_server.debugger import Debugger, LaunchTarget, StoppedEvent

SIZE = 256 << 20
ROUNDS = 10
BAR = 1.0

GRAPH = """
import sys
import numpy as np
import opstep
from opstep import layers

x = layers.data("x", shape=[int(sys.argv[1])])
y = x + x
opstep.Executor().run(feed={"x": np.arange(int(sys.argv[1]), dtype=np.float32)}, fetch_list=[y])
"""


async def _read(script: Path, size: int) -> float:
    """The best time of some reads, in seconds."""
    debugger = Debugger()
    stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def take(event: object) -> None:
        if isinstance(event, StoppedEvent) and not stopped.done():
            stopped.set_result(event.thread.id)

    debugger.subscribe(take)
    target = LaunchTarget(str(script), args=(str(size // 4),), python=sys.executable)
    # Filled again and again, as a reader of many tensors does.
    buffer = bytearray(size)
    best = float("inf")
    try:
        await debugger.launch(target, stop_on_entry=True)
        thread = await stopped
        for _ in range(ROUNDS):
            start = time.perf_counter()
            assert await debugger.read_bytes_into(thread, 0, "x", 0, buffer) == size
            best = min(best, time.perf_counter() - start)
            assert buffer[-4:] == struct.pack("<f", size // 4 - 1)
    finally:
        await debugger.terminate()
        await debugger.close()
    return best


def _bare(size: int) -> float:
    """The same over a bare socket, from one thread to another: what the kernel can do."""
    data, buffer = bytes(size), memoryview(bytearray(size))
    best = float("inf")
    for _ in range(ROUNDS):
        here, there = socket.socketpair()
        sender = threading.Thread(target=there.sendall, args=(data,))
        start = time.perf_counter()
        sender.start()
        received = 0
        while received < size:
            received += here.recv_into(buffer[received:])
        best = min(best, time.perf_counter() - start)
        sender.join()
        here.close()
        there.close()
    return best


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "graph.py"
        script.write_text(GRAPH)
        malloc_tuning.keep_freed()  # Like the command `opstep`.
        ours = SIZE / asyncio.run(_read(script, SIZE)) / 1e9
    bare = SIZE / _bare(SIZE) / 1e9
    ratio = speed_ratio(ours, bare, higher_is_better=True)
    name = f"a tensor of {SIZE >> 20} MiB to the debug server"
    return [Row(name, ours, "GB/s", "a bare socket", bare, ratio, f">= {BAR:g} GB/s", ours >= BAR)]
