"""The cost of a debugger for a run that it only watches, and the time to summarize a large tensor.

The program runs in this process and is measured in turns without a debugger, attached and idle,
watching all ops for NaN, and with a condition at every op. The debug server is another process.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import mlp
import numpy as np
import peers
from table import Row, interleaved

import opstep
from opstep import layers

IDLE_BAR, NAN_BAR = 1.0, 5.0  # percent
CONDITION_BAR = 2e6  # a second
SUMMARY_BAR = 0.5  # seconds for 1 GB
OPS = 2000
ROUNDS = 60

# Reads lines; each says what to set now.
SERVER = """
import asyncio, sys
from opstep_server.debugger import Debugger
from opstep_server.model import BreakpointSpec, FaultSpec, PatternWhere

async def main():
    debugger = Debugger()
    print(await debugger.listen(), flush=True)
    while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
        kind, _, text = line.partition(" ")
        await debugger.set_faults([FaultSpec("nan")] if kind == "nan" else [])
        where = PatternWhere("add")
        specs = [BreakpointSpec(where, condition=text)] if kind == "condition" else []
        await debugger.replace_breakpoints("bench", specs)
        print("done", flush=True)
    await debugger.close()

asyncio.run(main())
"""

LARGE = """
import numpy as np
import opstep
from opstep import layers

x = layers.data("x", shape=[1 << 28])
y = layers.reduce_sum(x)
values = np.random.default_rng(0).random(1 << 28, np.float32)
opstep.Executor().run(feed={"x": values}, fetch_list=[y])
"""


class Server:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self._line()

    def set(self, what: str) -> None:
        """ "off", "idle", "nan" or "condition …", and this process attached or not."""
        if what == "off":
            opstep.debug.detach()
            return
        assert self._process.stdin is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        assert self._line() == "done"
        if not opstep.debug.attached():
            opstep.debug.connect(self.address, wait=10)

    def close(self) -> None:
        opstep.debug.detach()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def _in_turns(
    server: Server, states: list[str], run: Callable[[], object]
) -> dict[str, np.ndarray]:
    """The best time of a run in each state, for each round: the times of a round belong together,
    as the machine may be faster in the next round."""
    best = {state: np.full(ROUNDS, np.inf) for state in states}
    for round_ in range(ROUNDS):
        for state in states:
            server.set(state)
            for _ in range(3):  # attaches, and switches to the plan's other shape
                run()
            assert opstep.debug.attached() == (state != "off")
            for _ in range(15):
                start = time.perf_counter()
                run()
                best[state][round_] = min(best[state][round_], time.perf_counter() - start)
    return best


def _chain() -> Callable[[], object]:
    main = opstep.Program("chain")
    with opstep.program_guard(main, opstep.Program("startup")):
        x = value = layers.data("x", shape=[1])
        for _ in range(OPS):
            value = value + x
    step = opstep.compile(main, feeds=["x"], fetches=[value], scope=opstep.Scope())
    feed = np.ones(1, np.float32)
    return lambda: step(x=feed)


def _torch_anomaly(images: np.ndarray, labels: np.ndarray) -> float:
    """How many percent detect_anomaly adds to the same step."""
    torch = peers.torch()
    plain = mlp._torch(512, images, labels)

    def watched() -> float:
        with torch.autograd.detect_anomaly(check_nan=True):
            return plain()

    times = interleaved({"plain": plain, "watched": watched})
    return (times.ratio("plain", "watched") - 1) * 100


async def _summary() -> float:
    """Seconds until the summary of a tensor of 1 GB has arrived."""
    from opstep_server.debugger import Debugger
    from opstep_server.model import BreakpointSpec, LaunchTarget, PatternWhere, StoppedEvent

    debugger = Debugger()
    stops: asyncio.Queue[StoppedEvent] = asyncio.Queue()
    debugger.subscribe(lambda e: stops.put_nowait(e) if isinstance(e, StoppedEvent) else None)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "large.py"
        script.write_text(LARGE)
        try:
            await debugger.add_breakpoint(BreakpointSpec(PatternWhere("reduce_sum")))
            await debugger.launch(LaunchTarget(str(script)))
            thread = (await asyncio.wait_for(stops.get(), 120)).thread.id
            best = float("inf")
            for _ in range(5):
                start = time.perf_counter()
                value = await debugger.evaluate(thread, 0, "x", max_elements=8)
                best = min(best, time.perf_counter() - start)
                assert 0.49 < value.tensor.summary.mean < 0.51
            return best
        finally:
            await debugger.terminate()
            await debugger.close()


def rows() -> list[Row]:
    random = np.random.default_rng(0)
    images = random.random((mlp.BATCH, 784), dtype=np.float32)
    labels = random.integers(0, 10, (mlp.BATCH, 1))
    server = Server()
    try:
        step = _in_turns(server, ["off", "idle", "nan"], mlp._ours(512, images, labels))
        condition = "condition X[0] > 1e9"
        chain = _in_turns(server, ["idle", condition], _chain())
    finally:
        server.close()
    idle, nan = (float(np.median(step[state] / step["off"]) - 1) * 100 for state in ("idle", "nan"))
    a_second = OPS / float(np.median(chain[condition] - chain["idle"]))
    anomaly = _torch_anomaly(images, labels)
    summary = asyncio.run(_summary())
    return [
        Row("attached and idle, MLP step h=512", idle, "%", bar=f"<= {IDLE_BAR:g} %",
            met=idle <= IDLE_BAR),
        Row("NaN watch on all ops, MLP step h=512", nan, "%", "PyTorch detect_anomaly", anomaly,
            bar=f"<= {NAN_BAR:g} %", met=nan <= NAN_BAR),
        Row("conditions that do not hold", a_second, "/s", bar=f">= {CONDITION_BAR:,.0f}/s",
            met=a_second >= CONDITION_BAR),
        Row("summary of 1 GB float32", summary, "s", bar=f"< {SUMMARY_BAR:g} s",
            met=summary < SUMMARY_BAR),
    ]  # fmt: skip
