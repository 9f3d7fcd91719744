"""Random edits at random stops, compared with NumPy doing the same: 0 wrong, 0 crash.

`PYTHONPATH=tests python -m fuzz.edits --seconds N --seed S`; a seed repeats its edits.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from opstep_server import assignment
from opstep_server.debugger import Debugger, DebuggerError
from opstep_server.model import (
    BreakpointSpec,
    Event,
    LaunchTarget,
    PatternWhere,
    ProcessExited,
    StoppedEvent,
)

SCRIPT = Path(__file__).resolve().parents[1] / "programs" / "fuzzed_edits.py"
SECONDS = 300.0
ROWS, COLUMNS = 4, 6
Array = np.ndarray
# What each op computes of the values that are there, in the order of the program.
OPS: dict[str, Callable[[dict[str, Array]], Array]] = {
    "a": lambda v: -v["x"],
    "m": lambda v: -v["k"],
    "b": lambda v: v["a"] * v["x"],
    "n": lambda v: v["m"] + v["k"],
    "c": lambda v: v["b"] + v["a"],
    "d": lambda v: v["c"] - v["b"],
}
FEEDS = {
    "x": (np.arange(24, dtype=np.float32) - 9).reshape(ROWS, COLUMNS) / 4,
    "k": np.arange(24).reshape(ROWS, COLUMNS) - 5,
}


class Wrong(AssertionError):
    pass


def variable(name: str) -> str:
    return name if name in FEEDS else f"{name}.out"


def edit(rng: random.Random, values: dict[str, Array]) -> tuple[str, str]:
    """A random edit of a value that is there: what is typed, and the same for NumPy."""
    name = rng.choice(sorted(values))
    whole = values[name].dtype.kind == "i"
    i, j = rng.randrange(-ROWS, ROWS), rng.randrange(-COLUMNS, COLUMNS)
    low, high = sorted((rng.randrange(ROWS + 1), rng.randrange(ROWS + 1)))
    part = rng.choice(
        ["", f"[{i}]", f"[{i}, {j}]", f"[{low}:{high}]", f"[:, {j}]", "[::2]", "[..., ::-2]",
         f"[{i}, {low}:]", f"[NAME > {rng.randrange(-3, 4)}]", "[[3, 0]]"]
    )  # fmt: skip
    number = str(rng.randrange(-4, 5) if whole else rng.randrange(-16, 17) / 8)
    others = [each for each in values if values[each].dtype == values[name].dtype]
    target = f"NAME{part}"
    same = "" if "NAME" in part else part
    value = rng.choice(
        [number, number, f"{target} * 2 - {number}", f"abs({target})",
         f"where({target} > {number}, {target}, {number})",
         f"OTHER{same}" if same == part else number]
    )  # fmt: skip
    sign = rng.choice(["=", "=", "+=", "-=", "*="])
    text = f"{target} {sign} {value}"
    other = rng.choice(others)

    def named(by: Callable[[str], str]) -> str:
        return text.replace("NAME", by(name)).replace("OTHER", by(other))

    done = named(str)
    if not part:
        left, _, right = done.partition(f" {sign} ")
        done = f"{left}[...] {sign} {right}"
    return named(variable), done


class Fuzz:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.edits = self.stops = self.refused = 0
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._values: dict[str, Array] = {}
        self._last: list[str] = []

    async def run(self, seconds: float, edits: int = sys.maxsize) -> None:
        debugger = self._debugger = Debugger()
        debugger.subscribe(self._events.put_nowait)
        until = time.monotonic() + seconds
        try:
            for name in OPS:
                await debugger.add_breakpoint(BreakpointSpec(PatternWhere(name)))
            await debugger.launch(LaunchTarget(str(SCRIPT)))
            while time.monotonic() < until and self.edits < edits:
                await self._stop()
        finally:
            await debugger.terminate()
            await debugger.close()

    async def _stop(self) -> None:
        event = await self._next()
        thread = self._thread = event.thread.id
        name = event.stopped.frames[0].op.name
        self._compute_before(name)
        self.stops += 1
        await self._compare()
        for _ in range(self.rng.randrange(3)):
            typed, done = edit(self.rng, self._values)
            await self._edit(typed, done)
        await self._debugger.resume(thread, "continue")

    def _compute_before(self, name: str) -> None:
        """What ran since the last stop: all ops before this one."""
        if name == next(iter(OPS)):
            self._values = {feed: value.copy() for feed, value in FEEDS.items()}
            self._last = []
        for each, compute in OPS.items():
            if each == name:
                return
            if each not in self._values:
                self._values[each] = compute(self._values)

    async def _edit(self, typed: str, done: str) -> None:
        self._last.append(typed)
        parts = assignment.assignment(assignment.spelt_out(typed) or typed)
        assert parts is not None, typed
        expected: Exception | None = None
        after = {name: value.copy() for name, value in self._values.items()}
        try:
            exec(done, {"abs": np.abs, "where": np.where}, after)
        except (ValueError, IndexError) as error:
            expected = error
        try:
            await self._debugger.assign(self._thread, 0, *parts)
        except DebuggerError as error:
            if expected is None:
                raise Wrong(f"{typed}: NumPy does it, and we say: {error}") from error
            self.refused += 1
            return
        if expected is not None:
            raise Wrong(f"{typed}: NumPy refuses it ({expected}), and we do it")
        self._values = after
        self.edits += 1
        await self._compare()

    async def _compare(self) -> None:
        for name, wanted in self._values.items():
            data, _ = await self._debugger.read_bytes(
                self._thread, 0, variable(name), 0, wanted.nbytes
            )
            got = np.frombuffer(data, wanted.dtype).reshape(wanted.shape)
            # Bits, but for the sign of zero times something.
            if not np.array_equal(got, wanted, equal_nan=wanted.dtype.kind == "f"):
                typed = "\n  ".join(self._last)
                raise Wrong(f"{name} is\n{got}\nand not\n{wanted}\nafter\n  {typed}")

    async def _next(self) -> StoppedEvent:
        while True:
            event = await asyncio.wait_for(self._events.get(), SECONDS)
            if isinstance(event, StoppedEvent):
                return event
            assert not isinstance(event, ProcessExited), f"the script ended: {event}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    fuzz = Fuzz(options.seed)
    asyncio.run(fuzz.run(options.seconds))
    print(f"{fuzz.edits} edits at {fuzz.stops} stops, {fuzz.refused} refused as in NumPy: 0 wrong")


if __name__ == "__main__":
    main()
