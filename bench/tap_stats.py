"""Statistics of a tensor, as taps make them, beside reading its memory and beside NumPy."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
from table import Row, interleaved

ROOT = Path(__file__).resolve().parent.parent
READ_BAR, NUMPY_BAR = 50.0, 5.0  # percent of the speed of reading; times as fast as NumPy
LARGE, SMALL = 64 << 20, 512 * 512  # elements: far larger than the caches, and within the second


class Summary(ctypes.Structure):
    """As in executor/base/summary.h."""

    _fields_ = (
        ("count", ctypes.c_uint64),
        *((name, ctypes.c_double) for name in ("min", "max", "mean", "std", "l2")),
        *((name, ctypes.c_uint64) for name in ("nan", "inf", "zeros")),
    )


def _library() -> ctypes.CDLL:
    build = ROOT / "build" / "cmake"
    subprocess.run(
        ["cmake", "--build", str(build), "--target", "tap_stats"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    library = ctypes.CDLL(str(build / "bench" / "libtap_stats.so"))
    library.statistics.restype = Summary
    library.statistics.argtypes = library.read_all.argtypes = (ctypes.c_void_p, ctypes.c_int64)
    library.read_all.restype = ctypes.c_uint64
    return library


def _numpy(values: np.ndarray) -> tuple[float, ...]:
    return (
        values.min(),
        values.max(),
        values.mean(),
        np.isnan(values).sum(),
        np.isinf(values).sum(),
    )


def _runs(library: ctypes.CDLL, numel: int) -> dict[str, Callable[[], object]]:
    values = np.random.default_rng(0).standard_normal(numel, np.float32)
    address = values.ctypes.data
    ours, theirs = library.statistics(address, numel), _numpy(values)
    assert (ours.min, ours.max, ours.nan, ours.inf) == (*theirs[:2], *theirs[3:])
    assert abs(ours.mean - values.mean(dtype=np.float64)) < 1e-8
    return {
        "opstep": lambda: library.statistics(address, numel),
        "reading": lambda: library.read_all(address, values.nbytes),
        "NumPy": lambda: _numpy(values),
    }


def rows() -> list[Row]:
    library = _library()
    large = interleaved(_runs(library, LARGE), seconds=3)
    small = interleaved(_runs(library, SMALL))
    speed = {name: LARGE * 4 / seconds / 1e9 for name, seconds in large.items()}
    share = 100 * large.ratio("opstep", "reading")
    times = large.ratio("opstep", "NumPy")
    name = f"statistics of {LARGE * 4 >> 20} MiB float32"
    return [
        Row(name, speed["opstep"], "GB/s", "reading it", speed["reading"], share / 100,
            f">= {READ_BAR:g} %", share >= READ_BAR),
        Row(name, large["opstep"] * 1e3, "ms", "NumPy", large["NumPy"] * 1e3, times,
            f">= {NUMPY_BAR:g}x", times >= NUMPY_BAR),
        Row("statistics of 512x512 float32", small["opstep"] * 1e6, "µs", "NumPy",
            small["NumPy"] * 1e6, small.ratio("opstep", "NumPy")),
    ]  # fmt: skip
