"""Random scripts, stopped at every op: each name must be what Python had when the op was made.

The scripts rebind a few names, in functions that call each other, in loops, closures,
comprehensions and generators, and as attributes, compiled, in imperative mode and converted. In the
line that makes an op they note what the names of all functions around it hold. The program has
variables with the same names: they may never be shown in their place.
`PYTHONPATH=tests python -m fuzz.names --seconds N --seed S`; a seed repeats its scripts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import struct
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

SECONDS = 300.0
# What a name held: a variable of the program, a number in imperative mode, or nothing.
Held = str | float | None
Names = dict[str, Held]
NAMES = ("a", "b", "x")
MODES = ("compiled", "imperative", "to_graph")
HEAD = '''
import contextlib, json, os, sys
import numpy as np
import opstep
from opstep import imperative, layers

noted = {}
g = None
NAMES = ("a", "b", "v", "x")

class Box:
    """Keeps a value as an attribute."""

    def __init__(self):
        self.x = None

    def keep(self, x):
        self.x = x

    def work(self, x):
        self.x = layers.add(x, **note())
        a = layers.mul(self.x, **note())
        return a

def note():
    """What the names hold as an op is made; its name tells it from all others."""
    op = f"op{len(noted) + 1}"
    frames = []
    frame = sys._getframe()
    while frame:
        function = frame.f_code.co_name
        if frame.f_code.co_filename == __file__ and function not in ("note", "<module>"):
            frames.append(names_of(frame))
        frame = frame.f_back
    noted[op] = frames
    with open(sys.argv[2] + ".new", "w") as file:
        json.dump(noted, file)
    os.replace(sys.argv[2] + ".new", sys.argv[2])
    return {"y": float(1 + len(noted) % 5) / 2, "name": op}

def names_of(frame):
    code, held = frame.f_code, frame.f_locals
    own = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    found = {name: told(held.get(name)) for name in NAMES if name in own}
    if "self" in own:
        found["self.x"] = told(getattr(held.get("self"), "x", None))
    if "g" in code.co_names:
        found["g"] = told(g)
    return found

def told(value):
    if hasattr(value, "block"):
        return value.name
    return float(value.numpy()[0]) if hasattr(value, "numpy") else None

def twice(function):
    def inner(x):
        x = function(x)
        b = layers.add(x, **note())
        return function(b)
    return inner

def generate(v):
    v = layers.add(v, **note())
    yield v
    b = layers.mul(v, **note())
    yield b

def again(x, n):
    a = layers.add(x, **note())
    return again(a, n - 1) if n else a

def changes(x):
    global g
    g = layers.mul(x, **note())
    a = layers.add(g, **note())
    return a

@contextlib.contextmanager
def managed():
    yield

def tracer(*_):
    return tracer
'''
TAIL = """
mode = sys.argv[1]
if TRACED:
    sys.settrace(tracer)
if mode == "compiled":
    main = opstep.Program("main")
    feeds = {}
    with opstep.program_guard(main, opstep.Program("startup")):
        for name in ("g", *NAMES):
            feeds[name] = layers.data(name, [1])
        out = f0(layers.add(feeds["x"], 1.0))
    a = b = x = "somewhere else"
    opstep.Executor().run(main, dict.fromkeys(feeds, np.full(1, 12345, np.float32)), [out])
else:
    convert = opstep.to_graph if mode == "to_graph" else lambda function: function
    with imperative.guard():
        start = imperative.to_variable(np.ones(1, np.float32), name="x")
        convert(f0)(start)
"""
# How a statement may be written: target, source, and the names of two functions.
SHAPES = (
    "{t} = layers.add({s}, **note())",
    "{t} = layers.mul({s}, **note())",
    "{t} = {s}",
    "seen = locals()\n{t} = layers.add({s}, **note())",
    "{t} = layers.add({s}, **note()) if eval('1') else None",
    "{t} = (lambda v: layers.mul(v, **note()))({s})",
    "{t} = [layers.add(v, **note()) for v in ({s}, {s})][-1]",
    "for {i} in generate({s}):\n    pass\n{t} = {i}",
    "{t} = again({s}, 2)",
    "{t} = changes({s})",
    "def inner(v):\n    nonlocal b\n    b = layers.add(v, **note())\n"
    "    return layers.mul(b, **note())\n{t} = inner({s})",
    "{t} = layers.add((b := layers.mul({s}, **note())), **note())",
    "with managed():\n    {t} = layers.add({s}, **note())",
    "try:\n    {t} = layers.add({s}, **note())\n    raise ValueError\n"
    "except ValueError:\n    b = layers.mul({s}, **note())",
    "{t} = self.work({s})",
    "self.keep({s})\n{t} = layers.add({s}, **note())",
    "self.keep({s}); {t} = layers.add(self.work(self.x), **note())",
    "b = None\n{t} = layers.add({s}, **note())\ndel a\n{t} = layers.mul({s}, **note())\na = None",
)
CALLS = (
    "{t} = {f}({s})",
    "{t} = {f}({h}({s}))",
    "for i in range(4):\n    {t} = {f}({s}) if i % 2 else {h}({s})",
    "{t} = layers.add({f}({s}), **note())",
)


class Wrong(AssertionError):
    pass


class Script:
    """The source of a random script."""

    def __init__(self, rng: random.Random, mode: str) -> None:
        self._rng = rng
        # Converted code may not assign the names of others, nor catch what a program does.
        others = ("changes(", "nonlocal", "except") if mode == "to_graph" else ()
        self._shapes = [shape for shape in SHAPES if not any(word in shape for word in others)]
        self._functions = rng.randrange(1, 4)
        parts = [self._function(n) for n in range(self._functions)]
        traced = f"TRACED = {rng.random() < 0.1}\n"
        self.text = HEAD + "\n".join(reversed(parts)) + "\n" + traced + TAIL

    def _function(self, number: int) -> str:
        decorated = ["@twice"] if number and self._rng.random() < 0.2 else []
        lines = [*decorated, f"def f{number}(x):", "    a = b = None", "    self = Box()"]
        lines.append("    self.keep(x)")
        for _ in range(self._rng.randrange(2, 6)):
            lines += self._statement(number, "    ")
        lines.append("    return x")
        return "\n".join(lines)

    def _statement(self, number: int, indent: str) -> list[str]:
        kind = self._rng.random()
        if kind < 0.15 and len(indent) == 4:
            inner = self._statement(number, indent + "    ")
            return [f"{indent}for _ in range({self._rng.randrange(1, 4)}):", *inner]
        later = [f"f{n}" for n in range(number + 1, self._functions)]
        shape = self._rng.choice(CALLS if later and kind < 0.4 else self._shapes)
        words = {
            "t": self._rng.choice([*NAMES, "self.x"]),
            "s": self._rng.choice(["x", "self.x"]),
            "i": "v",
            "f": self._rng.choice(later or [""]),
            "h": self._rng.choice(later or [""]),
        }
        if "del a" in shape:
            words["t"] = "x"
        return [indent + line for line in shape.format(**words).split("\n")]


class Fuzz:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.scripts = self.stops = self.names = 0

    async def run(self, seconds: float, scripts: int = sys.maxsize) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.scripts < scripts:
            mode = self._rng.choice(MODES)
            text = Script(self._rng, mode).text
            with tempfile.TemporaryDirectory(prefix="opstep-fuzz-") as folder:
                script = Path(folder) / "script.py"
                script.write_text(text)
                noted = Path(folder) / "noted.json"
                try:
                    await self._one(script, mode, noted)
                except Wrong as wrong:
                    raise Wrong(f"{mode}: {wrong}\n{text}") from None
            self.scripts += 1

    async def _one(self, script: Path, mode: str, noted: Path) -> None:
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
            await debugger.launch(LaunchTarget(str(script), args=(mode, str(noted))))
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
        self, debugger: Debugger, thread: int, stop: pb.Stopped, noted: dict[str, list[Names]]
    ) -> None:
        self.stops += 1
        op = stop.frames[0].op.name
        kinds = [frame.kind for frame in stop.frames]
        made = [n for n, kind in enumerate(kinds) if kind in (pb.StackFrame.OP, pb.StackFrame.MADE)]
        running = [n for n, kind in enumerate(kinds) if kind == pb.StackFrame.PYTHON]
        # In imperative mode Python's frames are those that make the op.
        at_once = stop.frames[0].program_name == "imperative"
        for index, names in enumerate(noted[op]):
            frames = [running[index], *([0] if index == 0 else [])] if at_once else [made[index]]
            for frame in frames:
                for name, held in names.items():
                    await self._name(debugger, thread, frame, f"{op}, frame {frame}", name, held)

    async def _name(
        self, debugger: Debugger, thread: int, frame: int, op: str, name: str, held: Held
    ) -> None:
        async def value(text: str) -> object:
            found = await debugger.evaluate(thread, frame, text, max_elements=4)
            if not found.HasField("tensor"):
                return str(found)
            (first,) = struct.unpack("f", found.tensor.data[:4])
            return first

        try:
            shown = await value(name)
        except DebuggerError as error:
            # What held no variable is refused; a variable that is still to come has no value.
            if held is not None:
                raise Wrong(f"at {op}, {name} is {held}, not: {error}") from None
            return
        if held is None:
            raise Wrong(f"at {op}, {name} held nothing, but {shown} is shown")
        wanted = await value(f"var('{held}')") if isinstance(held, str) else held
        if shown != wanted:
            raise Wrong(f"at {op}, {name} is {held}, {wanted}, but {shown} is shown")
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
