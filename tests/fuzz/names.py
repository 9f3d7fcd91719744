"""Random scripts, stopped at every op: each name must be what Python had when the op was made.

The scripts rebind a few names, in functions that call each other, in loops, and as attributes.
Just before each line that makes an op they note what the names hold.
`python tests/fuzz/names.py --seconds N --seed S`; a seed repeats its scripts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from opstep_server.debugger import Debugger, DebuggerError
from opstep_server.model import (
    BreakpointSpec,
    Event,
    LaunchTarget,
    PatternWhere,
    ProcessExited,
    StoppedEvent,
)
from opstep_server.wire import debug_pb2 as pb

SECONDS = 120.0
NAMES = ("a", "b", "x")
HEAD = '''
import json, sys
import numpy as np
import opstep
from opstep import imperative, layers

noted = {}
count = 0

class Box:
    pass

def note(**names):
    """What names hold just before an op is made; its constant tells it from all others."""
    global count
    count += 1
    noted[count] = {k: told(v) for k, v in names.items()}
    return float(2 ** (count % 7)), f"op{count}"

def told(value):
    if value is None:
        return None
    return value.name if hasattr(value, "block") else float(value.numpy()[0])
'''
TAIL = """
mode = sys.argv[1]
if mode == "compiled":
    main = opstep.Program("main")
    with opstep.program_guard(main, opstep.Program("startup")):
        out = f0(layers.data("feed", [1]))
    a = b = x = "somewhere else"
    json.dump(noted, open(sys.argv[2], "w"))
    opstep.Executor().run(main, {"feed": np.ones(1, np.float32)}, [out])
else:
    with imperative.guard():
        f0(imperative.to_variable(np.ones(1, np.float32)))
"""


class Wrong(AssertionError):
    pass


class Script:
    """The source of a random script."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._functions = rng.randrange(1, 4)
        self._ops = 0
        parts = [self._function(n) for n in range(self._functions)]
        self.text = HEAD + "\n".join(reversed(parts)) + TAIL

    def _function(self, number: int) -> str:
        lines = [f"def f{number}(x):", "    a = b = None", "    self = Box()", "    self.x = x"]
        bound = {"x"}
        for _ in range(self._rng.randrange(2, 6)):
            lines += self._statement(number, bound, "    ")
        lines.append(f"    return {self._rng.choice(sorted(bound))}")
        return "\n".join(lines)

    def _statement(self, number: int, bound: set[str], indent: str) -> list[str]:
        kind = self._rng.random()
        source = self._rng.choice([*sorted(bound), "self.x"])
        target = self._rng.choice([*NAMES, "self.x"])
        if kind < 0.15 and len(indent) == 4:
            inner = [*self._statement(number, bound, indent + "    ")]
            return [f"{indent}for _ in range({self._rng.randrange(1, 4)}):", *inner]
        if kind < 0.35 and number + 1 < self._functions:
            line = f"{indent}{target} = f{number + 1}({source})"
        elif kind < 0.45:
            line = f"{indent}{target} = {source}"
        else:
            op = self._rng.choice(["layers.add({}, k, name=n)", "layers.mul({}, k, name=n)"])
            line = f"{indent}{target} = {op.format(source)}"
            held = "a=a, b=b, x=x, self_x=self.x"
            line = f"{indent}k, n = note({held})\n{line}"
        if target in NAMES and len(indent) == 4:
            bound.add(target)
        return line.split("\n")


class Fuzz:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.scripts = self.stops = self.names = 0

    async def run(self, seconds: float, scripts: int = sys.maxsize) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.scripts < scripts:
            text = Script(self._rng).text
            with tempfile.TemporaryDirectory(prefix="opstep-fuzz-") as folder:
                script = Path(folder) / "script.py"
                script.write_text(text)
                noted = Path(folder) / "noted.json"
                try:
                    await self._one(script, noted)
                except Wrong as wrong:
                    raise Wrong(f"{wrong}\n{text}") from None
            self.scripts += 1

    async def _one(self, script: Path, noted: Path) -> None:
        debugger = Debugger()
        news: asyncio.Queue[pb.Stopped | int] = asyncio.Queue()
        thread = 0

        def take(event: Event) -> None:
            nonlocal thread
            if isinstance(event, StoppedEvent):
                thread = event.thread.id
                news.put_nowait(event.stopped)
            elif isinstance(event, ProcessExited):
                news.put_nowait(event.code)

        debugger.subscribe(take)
        await debugger.add_breakpoint(BreakpointSpec(PatternWhere("op*")))
        try:
            await debugger.launch(LaunchTarget(str(script), args=("compiled", str(noted))))
            while True:
                stop = await asyncio.wait_for(news.get(), SECONDS)
                if isinstance(stop, int):
                    if stop != 0:
                        raise Wrong(f"the script ended with {stop}")
                    return
                await self._check(debugger, thread, stop, json.loads(noted.read_text()))
                await debugger.resume(thread, "continue")
        finally:
            await debugger.terminate()
            await debugger.close()

    async def _check(
        self, debugger: Debugger, thread: int, stop: pb.Stopped, noted: dict[str, dict[str, str]]
    ) -> None:
        self.stops += 1
        name = stop.frames[0].op.name
        for python, variable in noted[name.removeprefix("op")].items():
            text = python.replace("_", ".")

            async def value(text: str) -> str:
                found = await debugger.evaluate(thread, 0, text, max_elements=4)
                return str(found.tensor.data if found.HasField("tensor") else found)

            try:
                shown = await value(text)
            except DebuggerError as error:
                # A name that held nothing yet may be one that is assigned later, once.
                if variable is not None:
                    raise Wrong(f"at {name}, {text} is {variable}, not: {error}") from None
                continue
            if variable is None:
                raise Wrong(f"at {name}, {text} held nothing, but {shown} is shown")
            if shown != await value(f"var('{variable}')"):
                raise Wrong(f"at {name}, {text} is {variable}, but {shown} is shown")
            self.names += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    fuzz = Fuzz(options.seed)
    asyncio.run(fuzz.run(options.seconds))
    print(f"{fuzz.scripts} scripts, {fuzz.stops} stops, {fuzz.names} names: 0 wrong")


if __name__ == "__main__":
    main()
