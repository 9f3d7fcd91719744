"""Batches of tap records, and places that sinks cannot write to, for the tests of sinks."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opstep_server.taps.records import Batch, Extra, Source
from opstep_server.taps.sinks import kinds
from opstep_server.taps.sinks.base import Sink

# 2026-03-01T12:00:00.123456Z
NOON = 1_772_366_400_123_456_000
DAY = 86_400 * 10**9

CONV = Source(
    tap="convs",
    uid="u1",
    process="box:77",
    program="main",
    op="conv_0",
    type="conv2d",
    variable="conv_0.out",
    slot="out",
    dtype="float32",
    dims=(2, 3),
    file="train.py",
    line=41,
    gradient=False,
)


def source(**changes: object) -> Source:
    return replace(CONV, **changes)  # type: ignore[arg-type]


def batch(
    sources: list[Source],
    extras: dict[int, Extra] | None = None,
    *,
    first: int = 0,
    time: int = NOON,
    without: tuple[int, ...] = (),
) -> Batch:
    """Record i has step first + i and statistics made from it; `without` have none."""
    n = len(sources)
    step = np.arange(first, first + n, dtype=np.uint64)
    real = step.astype(np.float64)
    count = np.full(n, 6, np.uint64)
    count[list(without)] = 0
    return Batch(
        sources=tuple(sources),
        step=step,
        iteration=np.arange(n, dtype=np.uint64) % np.uint64(3),
        time=np.arange(n, dtype=np.int64) * 1_000_000 + time,
        thread=np.full(n, 9, np.uint32),
        statistics={
            "count": count,
            "min": real - 1,
            "max": real + 1,
            "mean": real,
            "std": np.full(n, 0.5),
            "l2": real * 2,
            "nan": np.zeros(n, np.uint64),
            "inf": np.zeros(n, np.uint64),
            "zeros": np.full(n, 2, np.uint64),
        },
        extras=extras or {},
    )


def sink(kind: str, path: Path, **settings: object) -> Sink:
    """A sink as the settings make it, with the defaults of the kind; not opened yet."""
    found = kinds.load(kind)
    complete = {key.name: key.default for key in found.keys}
    assert set(settings) <= set(complete)
    return found(path, {**complete, **settings})


@contextlib.contextmanager
def opened(kind: str, path: Path, **settings: object) -> Iterator[Sink]:
    made = sink(kind, path, **settings)
    made.open()
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def no_room(size: int = 0) -> Iterator[None]:
    """Limits all files of this process to that size, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A read-only file system, on which even root cannot write."""
    if os.geteuid() == 0:
        if subprocess.run(["mount", "--bind", folder, folder], capture_output=True).returncode:
            pytest.skip("root may not mount here")
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
            yield
        finally:
            subprocess.run(["umount", folder], check=True)
    else:
        mode = folder.stat().st_mode
        folder.chmod(0o555)
        try:
            yield
        finally:
            folder.chmod(mode)
