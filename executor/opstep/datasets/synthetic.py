"""Data sets of random numbers that follow a known rule."""

from __future__ import annotations

import numpy as np

from opstep._core import Error
from opstep.ragged import Ragged
from opstep.readers import Reader, from_arrays


def regression(
    rows: int = 1000,
    features: int = 8,
    noise: float = 0.1,
    seed: int = 0,
    batch: int = 32,
    shuffle: int | None = None,
) -> Reader:
    """A linear function: `x` is float32[rows, features], normal; `y` is float32[rows, 1], a
    weighted sum of it plus a bias, and normal noise of that size."""
    _check(rows=rows, features=features)
    rng = np.random.default_rng(seed)
    weights, bias = rng.normal(size=(features, 1)), rng.normal()
    x = rng.normal(size=(rows, features))
    y = x @ weights + bias + noise * rng.normal(size=(rows, 1))
    return from_arrays({"x": x.astype(np.float32), "y": y.astype(np.float32)}, batch, shuffle)


def sequences(
    rows: int = 1000,
    steps: int = 8,
    symbols: int = 10,
    seed: int = 0,
    batch: int = 32,
    shuffle: int | None = None,
    shortest: int | None = None,
) -> Reader:
    """Sequences with a memory: `x` is int64[rows, steps], random symbols; `label` is 1 where the
    first symbol comes again later in the sequence, as in about half of them. With `shortest`, `x`
    is a `Ragged` with sequences of that many steps up to `steps`."""
    _check(rows=rows, steps=steps, symbols=symbols)
    if shortest is not None and not 2 <= shortest <= steps:
        raise Error(f"shortest is {shortest}: it must be from 2 to steps, {steps}")
    rng = np.random.default_rng(seed)
    first = rng.integers(0, symbols, (rows, 1))
    # All later symbols differ from the first one; then half of the rows get it at one place.
    x = np.concatenate([first, (first + rng.integers(1, symbols, (rows, steps - 1))) % symbols], 1)
    label = rng.integers(0, 2, rows)
    again = np.flatnonzero(label)
    labels = label.astype(np.int64).reshape(-1, 1)
    if shortest is None:
        x[again, rng.integers(1, steps, len(again))] = first[again, 0]
        return from_arrays({"x": x.astype(np.int64), "label": labels}, batch, shuffle)
    lengths = rng.integers(shortest, steps + 1, rows)
    x[again, rng.integers(1, lengths[again])] = first[again, 0]
    kept = x[np.arange(steps) < lengths[:, None]].astype(np.int64)
    ragged = Ragged.from_offsets(kept, np.concatenate([[0], np.cumsum(lengths)]))
    return from_arrays({"x": ragged, "label": labels}, batch, shuffle)


def images(
    rows: int = 1000,
    size: int = 12,
    noise: float = 0.1,
    seed: int = 0,
    batch: int = 32,
    shuffle: int | None = None,
) -> Reader:
    """Pictures of one line each: `x` is float32[rows, 1, size, size], a line of 1 at a random place
    on a ground of 0, with normal noise; `label` says how it lies: 0 across, 1 upright, 2 falling,
    3 rising."""
    _check(rows=rows, size=size)
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 4, rows)
    # A third of the side or more is left of a sloping line, wherever it lies.
    shift = rng.integers(-(size // 3), size // 3 + 1, rows)[:, None, None]
    down, right = np.indices((size, size))
    middle = size // 2
    lines = np.stack(
        [
            down == middle + shift,
            right == middle + shift,
            right - down == shift,
            right + down == size - 1 + shift,
        ]
    )
    x = lines[label, np.arange(rows)] + noise * rng.normal(size=(rows, size, size))
    data = {"x": x.astype(np.float32)[:, None], "label": label.astype(np.int64).reshape(-1, 1)}
    return from_arrays(data, batch, shuffle)


_LEAST = {"rows": 1, "features": 1, "steps": 2, "symbols": 2, "size": 3}


def _check(**sizes: int) -> None:
    for name, number in sizes.items():
        if number < _LEAST[name]:
            raise Error(f"{name} is {number}: it must be {_LEAST[name]} or more")
