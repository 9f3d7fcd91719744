"""Programs that read their data from files of all kinds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opstep
from harness.png_files import write_png
from opstep import layers, readers
from opstep.readers.pipelines import Pipeline


def files(kind: str, folder: Path) -> Pipeline:
    numbers = np.arange(12, dtype=np.float32).reshape(6, 2)
    if kind == "npz":
        np.savez(folder / "a.npz", x=numbers[:4])
        np.savez(folder / "b.npz", x=numbers[4:])
        return readers.npy(folder / "a.npz", folder / "b.npz")
    if kind == "npy":
        np.save(folder / "x.npy", numbers)
        return readers.npy(x=folder / "x.npy")
    if kind == "csv":
        lines = ["a,b", *(f"{a},{b}" for a, b in numbers)]
        (folder / "x.csv").write_text("\n".join(lines))
        return readers.csv(folder / "x.csv", fields=["x=a,b"])
    for number, row in enumerate(numbers.astype(np.uint8)):
        (folder / "class").mkdir(exist_ok=True)
        write_png(folder / "class" / f"{number}.png", row.reshape(1, 2, 1))
    images = readers.images(folder, channels=1, dtype="uint8")
    return images.map(lambda image, label: {"x": layers.cast(image, "float32")})


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "images"])
def test_a_program_reads_files(kind: str, tmp_path: Path) -> None:
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        with (loop := files(kind, tmp_path).batch(4).iterate()) as (x,):
            sums = loop.fetch(layers.reduce_sum(x))
    exe, scope = opstep.Executor(), opstep.Scope()
    exe.run(startup, scope=scope)
    (values,) = exe.run(main, fetch_list=[sums], scope=scope)
    assert values.tolist() == [28, 38]
