"""The training loop as an op beside the same loop in Python, over the same reader."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator

import numpy as np
from table import Row, interleaved

import opstep
from opstep import layers, readers
from opstep.readers import Reader
from opstep.readers.pipelines import Pipeline
from opstep.variable import Variable

BATCH, ROWS = 128, 128 * 60
# hidden size → passes of a run, and how many times faster than the loop in Python
BARS = {16: (10, 1.5), 512: (1, 1.0)}


def _network(hidden: int, x: Variable, label: Variable) -> Variable:
    h = layers.fc(x, size=hidden, act="relu")
    h = layers.fc(h, size=hidden, act="relu")
    logits = layers.fc(h, size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    opstep.optimizer.SGD(learning_rate=0.01).minimize(loss)
    return loss


def _inside(hidden: int, reader: Pipeline | Reader, prefetch: int = 2) -> Callable[[], float]:
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        with (loop := reader.iterate(prefetch=prefetch)) as (x, label):
            losses = loop.fetch(_network(hidden, x, label))
    scope, exe = opstep.Scope(), opstep.Executor()
    exe.run(startup, scope=scope)
    return lambda: float(exe.run(main, fetch_list=[losses], scope=scope)[0][-1])


def _outside(hidden: int, reader: Pipeline) -> Callable[[], float]:
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        x = layers.data("x", shape=[None, 784])
        label = layers.data("label", shape=[None, 1], dtype="int64")
        loss = _network(hidden, x, label)
    scope, exe = opstep.Scope(), opstep.Executor()
    exe.run(startup, scope=scope)

    def run() -> float:
        losses = []
        for batch in reader:
            losses += exe.run(main, feed=batch, fetch_list=[loss], scope=scope)
        return float(losses[-1])

    return run


def _speed(reader: Pipeline) -> Iterator[Row]:
    for hidden, (passes, bar) in BARS.items():
        data = reader.repeat(passes)
        runs = {"in the program": _inside(hidden, data), "in Python": _outside(hidden, data)}
        times = interleaved(runs, seconds=4)
        steps = passes * ROWS // BATCH
        ms = {name: seconds * 1e3 / steps for name, seconds in times.items()}
        ratio = times.ratio("in the program", "in Python")
        yield Row(
            f"a step of a training loop in the program, h={hidden}",
            ms["in the program"],
            "ms",
            "the loop in Python",
            ms["in Python"],
            ratio,
            f">= {bar:g}x",
            ratio >= bar,
        )


def _hidden() -> Row:
    """A reader that takes half a step, read ahead, beside one that has its batches at hand."""
    random = np.random.default_rng(0)
    batch = {
        "x": random.random((BATCH, 784), dtype=np.float32),
        "label": random.integers(0, 10, (BATCH, 1)),
    }
    steps = 40
    wait = [0.0]

    def slow() -> Iterator[dict[str, np.ndarray]]:
        for _ in range(steps):
            time.sleep(wait[0])
            yield batch

    run = _inside(512, readers.from_generator(slow))
    ahead = _inside(512, readers.from_generator(slow))
    behind = _inside(512, readers.from_generator(slow), prefetch=0)
    bare = interleaved({"bare": run}, seconds=2)["bare"]

    def slowly(loop: Callable[[], float]) -> Callable[[], float]:
        def timed() -> float:
            wait[0] = bare / steps / 2
            try:
                return loop()
            finally:
                wait[0] = 0.0

        return timed

    times = interleaved({"bare": run, "ahead": slowly(ahead), "behind": slowly(behind)}, seconds=2)
    ratio = times["bare"] / times["ahead"]
    print(
        f"reader of half a step: step {times['bare'] / steps * 1e3:.2f} ms, read ahead "
        f"{times['ahead'] / steps * 1e3:.2f} ms, not ahead {times['behind'] / steps * 1e3:.2f} ms"
    )
    return Row(
        "a step whose reader takes half of it, read ahead",
        times["ahead"] / steps * 1e3,
        "ms",
        "with no reader",
        times["bare"] / steps * 1e3,
        ratio,
        ">= 0.95x",
        ratio >= 0.95,
    )


def rows() -> list[Row]:
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(folder, f"{name}.npy") for name in ("x", "label")}
        np.save(paths["x"], random.random((ROWS, 784), dtype=np.float32))
        np.save(paths["label"], random.integers(0, 10, (ROWS, 1)))
        reader = readers.npy(**paths).shuffle(1024).batch(BATCH)
        return [*_speed(reader), _hidden()]
