"""What every sink must bear: calls out of turn, empty batches, a disk that is full for a while."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from harness.tap_batches import CONV, batch, opened, sink
from opstep_server.taps.records import Batch, Extra
from opstep_server.taps.sinks import kinds
from opstep_server.taps.sinks.base import SinkError

MIB = 1 << 20
FREE = {"prometheus": {"listen": "127.0.0.1:0"}}


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_closing_without_opening_and_twice(tmp_path: Path, kind: str):
    s = sink(kind, tmp_path, **FREE.get(kind, {}))
    s.close()
    s.open()
    s.close()
    s.close()


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_empty_batches(tmp_path: Path, kind: str):
    with opened(kind, tmp_path, **FREE.get(kind, {})) as s:
        s.flush()
        if kind != "otel":  # which would send it
            s.write(batch([]))
        s.flush()


def made(first: int) -> Batch:
    """A few records, one of them with a tensor of 80 kB."""
    tensor = np.random.default_rng(first).normal(size=(100, 100))
    return batch([CONV] * 10, {0: Extra(tensor=tensor)}, first=first)


def tensors(path: Path) -> list[int]:
    lines = pd.read_json(path / "index.jsonl", lines=True)
    assert all(np.load(path / file).shape == (100, 100) for file in lines["file"])
    assert len(list(path.rglob("*.npy"))) == len(lines)
    return lines["step"].tolist()


def events(path: Path) -> list[int]:
    files = sorted(path.rglob("*tfevents*"))
    found = [event for file in files for event in EventFileLoader(str(file)).Load()]
    return [event.step for event in found if event.HasField("summary")]


def rows(path: Path) -> list[int]:
    return sorted(pd.read_parquet(path)["step"].tolist())


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root, and not every one, may mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize(
    ("kind", "read", "settings"),
    [
        ("tensorboard", events, {}),
        ("parquet", rows, {"rows": 200}),
        ("tensors", tensors, {}),
    ],
)
def test_a_disk_that_is_full_for_a_while(tmp_path: Path, kind: str, read, settings):
    with small_disk(tmp_path / "disk") as disk:
        (disk / "other").write_bytes(b"x" * MIB)
        path = disk / "log"
        s = sink(kind, path, **settings)
        s.open()
        taken: list[int] = []
        lost = 0
        first = 0

        def write() -> bool:
            """As whoever feeds a sink does."""
            nonlocal first
            first += 10
            try:
                s.write(made(first))
                s.flush()
            except (OSError, SinkError):
                return False
            taken.extend([first] if kind == "tensors" else range(first, first + 10))
            return True

        while write():
            assert first < 100_000
        for _ in range(20):
            s.close()
            try:
                s.open()
            except (OSError, SinkError):
                lost += 1
                continue
            lost += not write()
        assert lost
        s.close()
        (disk / "other").unlink()
        s.open()
        assert write() and write()
        s.flush()
        s.close()
        assert read(path) == taken
        hidden = [file for file in path.rglob(".*") if file.is_file()]
        assert hidden == []
