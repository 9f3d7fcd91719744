"""Data sets whose files lie beside this one; README.md says where they come from."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from opstep._core import Error
from opstep.readers import Reader, from_arrays

_HERE = Path(__file__).parent
# Both files have their classes in an order that a test must not depend on.
_ORDER_SEED = 0


def digits(
    part: str = "train", batch: int = 32, shuffle: int | None = None, drop_last: bool = False
) -> Reader:
    """Handwritten digits: `x` is float32[rows, 1, 8, 8] between 0 and 1, `label` the digit.

    `part` is "train" (1,437 images), "test" (the 360 others) or "all".
    """
    return from_arrays(_part("digits", _digits(), part, 1437), batch, shuffle, drop_last)


def iris(
    part: str = "train", batch: int = 16, shuffle: int | None = None, drop_last: bool = False
) -> Reader:
    """Iris flowers: `x` is float32[rows, 4], length and width of sepals and petals in cm; `label`
    is the species: 0 setosa, 1 versicolor, 2 virginica.

    `part` is "train" (120 flowers), "test" (the 30 others) or "all".
    """
    return from_arrays(_part("iris", _iris(), part, 120), batch, shuffle, drop_last)


@cache
def _digits() -> dict[str, np.ndarray]:
    with np.load(_HERE / "digits.npz") as file:
        images, labels = file["images"], file["labels"]
    return _mixed(images.reshape(-1, 1, 8, 8).astype(np.float32) / 16, labels)


@cache
def _iris() -> dict[str, np.ndarray]:
    table = np.loadtxt(_HERE / "iris.csv", delimiter=",", skiprows=1)
    return _mixed(table[:, :4].astype(np.float32), table[:, 4])


def _mixed(x: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    order = np.random.default_rng(_ORDER_SEED).permutation(len(x))
    data = {"x": x[order], "label": labels[order].astype(np.int64).reshape(-1, 1)}
    for array in data.values():
        array.flags.writeable = False  # all readers share them
    return data


def _part(name: str, data: dict[str, np.ndarray], part: str, train: int) -> dict[str, np.ndarray]:
    rows = {"train": slice(train), "test": slice(train, None), "all": slice(None)}
    if part not in rows:
        raise Error(f"{name} has no part {part!r}: there are {', '.join(rows)}")
    return {key: array[rows[part]] for key, array in data.items()}
