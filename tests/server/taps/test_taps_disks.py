"""A disk that hangs, which here is a pipe that nobody reads or writes, holds up no event loop."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

from test_taps_hub import TOML
from test_taps_reports import executor, status

from harness.patience import until_async as until
from opstep_server.taps.tap_reports import TapReports
from opstep_server.taps.watched_file import WatchedFile


def disks() -> int:
    return sum(each.name == "disk" for each in threading.enumerate())


def test_counts_on_a_disk_that_hangs(tmp_path: Path) -> None:
    hung = tmp_path / "counts.json.new"
    os.mkfifo(hung)
    made = TapReports(lambda text: None)
    made.note(executor(1), [status(3)])

    async def run() -> None:
        for _ in range(10):
            made.write([str(tmp_path)])
        assert disks() == 1
        await made.write_last([str(tmp_path)], 0.1)
        assert disks() == 1
        # It moves again.
        reader = os.open(hung, os.O_RDONLY | os.O_NONBLOCK)
        await until(lambda: not disks())
        os.close(reader)
        (tmp_path / "counts.json").unlink()
        made.note(executor(1), [status(4)])
        await made.write_last([str(tmp_path)])
        counts = json.loads((tmp_path / "counts.json").read_text())["taps"]
        assert counts["convs"]["produced"] == 4

    asyncio.run(run())


def test_a_file_of_taps_on_a_disk_that_hangs(tmp_path: Path) -> None:
    path = tmp_path / "taps.toml"
    path.write_text(TOML)
    told: list[str] = []
    watched = WatchedFile(str(path), told.append)
    path.unlink()
    os.mkfifo(path)

    async def run() -> None:
        for _ in range(10):
            assert watched.look() is None
        assert disks() == 1
        # It moves again.
        changed = TOML.replace('"fc*"', '"f*"')
        writer = os.open(path, os.O_WRONLY)
        os.write(writer, changed.encode())
        os.close(writer)
        await until(lambda: not disks())
        path.unlink()
        path.write_text(changed)
        found = watched.look()
        assert found is not None
        assert [tap.name for tap in found.taps] == ["convs", "f*"]
        assert told == [f"{path} has changed: 2 taps"]
        await until(lambda: not disks())
        assert watched.look() is None

    asyncio.run(run())


def test_a_bad_version_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "taps.toml"
    path.write_text(TOML)
    told: list[str] = []
    watched = WatchedFile(str(path), told.append)
    path.write_text(TOML.replace("ops", "opps"))

    async def run() -> None:
        for _ in range(3):
            assert watched.look() is None
            await until(lambda: not disks())

    asyncio.run(run())
    (said,) = told
    assert "'opps' is not a key of a tap" in said
    assert said.endswith("; the taps stay as they were")
