"""Programs that contain their training loop, and the command that runs them."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import opstep
from harness.patience import SECONDS
from opstep import _core, layers, readers, records
from opstep.variable import Variable

OPSTEP = [sys.executable, "-m", "opstep_server", "run"]
FIELDS = {"x": ("float32", [8]), "y": ("float32", [1])}
PARAMETERS = "params.safetensors"


def write(path: Path, seed: int = 0, count: int = 100, **fields: tuple[str, list[int]]) -> Path:
    rng = np.random.default_rng(seed)
    shapes = fields or FIELDS
    values = {
        name: rng.normal(size=(count, *sizes)).astype(dtype)
        for name, (dtype, sizes) in shapes.items()
    }
    with records.Writer(path, shapes) as writer:
        writer.write_batch(**values)
    return path


def network(x: Variable, y: Variable) -> Variable:
    hidden = layers.dropout(layers.fc(x, size=8, act="tanh"), 0.2)
    return layers.mean(layers.square_error_cost(layers.fc(hidden, size=1), y))


# More than any machine can run: such a program trains until it is interrupted.
ENDLESS = 100_000_000


def build(
    data: Path, path: Path, passes: int = 5, test_passes: int = 0, held: bool = False
) -> opstep.Program:
    """A program that trains, with its first values, in a file.

    A held one is fed `most`, the last step whose iteration may end.
    """
    main, startup = opstep.Program("main"), opstep.Program("startup")
    main.random_seed = startup.random_seed = 3
    with opstep.program_guard(main, startup):
        rate = layers.setting("lr", 0.05)
        most = layers.data("most", [1], "int64") if held else None
        reader = readers.records(data).shuffle(50, seed=3).batch(16).repeat(passes)
        with (loop := reader.iterate(name="train")) as (x, y):
            loss = network(x, y)
            opstep.optimizer.Adam(rate).minimize(loss)
            loop.fetch(loss, every=7, name="loss")
            if held:
                waits = layers.less_than(most, loop.step)
                with layers.While(waits).block():
                    layers.less_than(most, loop.step, out=waits)
        if test_passes:
            reader = readers.records(data).batch(1).repeat(test_passes)
            with (loop := reader.iterate(name="test")) as (x, y):
                count = loop.step + 1
                loop.fetch(layers.mean(layers.cast(count, "float32") * y), name="mean")
    merged = opstep.merge(startup, main)
    merged.save(path)
    return merged


def command(*args: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [*OPSTEP, *map(str, args)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=SECONDS)


def fails(*args: object, cwd: Path) -> str:
    done = command(*args, cwd=cwd)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert re.fullmatch(r"opstep: [^\n]+\n", done.stderr), done.stderr
    return done.stderr


def values(path: Path) -> dict[str, np.ndarray]:
    scope = opstep.Scope()
    types = _core.read_types(str(path))
    _core.read_tensors(str(path), scope._core, types)
    return {name: scope.find(name) for name in types}


def same(a: Path, b: Path) -> bool:
    one, other = values(a), values(b)
    assert one.keys() == other.keys() and "fc_0.w" in one
    return all(np.array_equal(one[name], other[name]) for name in one)


class Running:
    """Runs the command and interrupts it after some iterations."""

    def __init__(self, folder: Path, *args: object) -> None:
        words = [*OPSTEP, *map(str, args)]
        self.checkpoint = folder / "long.checkpoint.safetensors"
        self.screen, terminal = pty.openpty()
        self.process = subprocess.Popen(
            words, cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal,
            start_new_session=True,
        )  # fmt: skip
        os.close(terminal)
        self.shown = ""

    def until(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if found := re.search(pattern, self.shown):
                return found
            if select.select([self.screen], [], [], 1)[0]:
                try:
                    self.shown += os.read(self.screen, 10000).decode(errors="replace")
                except OSError:  # the process has ended
                    break
        found = re.search(pattern, self.shown)
        assert found, self.shown
        return found

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def ends(self) -> int:
        try:
            while data := os.read(self.screen, 10000):
                self.shown += data.decode(errors="replace")
        except OSError:
            pass
        os.close(self.screen)
        return self.process.wait(SECONDS)
