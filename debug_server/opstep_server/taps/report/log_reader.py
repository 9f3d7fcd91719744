"""The reader of all records of a directory, oldest file first."""

from __future__ import annotations

import importlib.util
import os
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opstep_server.taps.log_files import log_records
from opstep_server.taps.log_files.file_follower import Follower
from opstep_server.taps.log_files.log_directory import DirectoryError, parquet_files
from opstep_server.taps.log_files.log_records import Unreadable

_PORTION = 1 << 20


class LogReader:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.files = 0
        self.unreadable = 0
        # One sentence on a read error, or "".
        self.problem = ""

    def sources(self) -> Iterator[dict[str, Any]]:
        yield from self._lines(log_records.SOURCES)

    def records(self) -> Iterator[dict[str, Any]]:
        before = self.files
        yield from self._lines(log_records.RECORDS)
        parquet = parquet_files(self._directory, os.listdir(self._directory))
        if self.files == before and parquet is not None:
            yield from self._parquet(parquet)

    # ---- inside ----------------------------------------------------------------------------------

    def _lines(self, pattern: str) -> Iterator[dict[str, Any]]:
        follower = Follower(self._directory, pattern)
        follower.look()
        self.files += follower.files if pattern == log_records.RECORDS else 0
        while lines := follower.newer(_PORTION):
            for line in lines:
                if not line.strip():
                    continue
                try:
                    yield log_records.load(line)
                except Unreadable:
                    self.unreadable += 1
        self.problem = follower.problem or self.problem

    def _parquet(self, folder: Path) -> Iterator[dict[str, Any]]:
        if importlib.util.find_spec("pyarrow") is None:
            raise DirectoryError(
                f"{self._directory} has only Parquet files, which need the package pyarrow: "
                'pip install "opstep-server[parquet]"'
            )
        import pyarrow as pa
        import pyarrow.parquet as pq

        # File names begin with the time.
        for path in sorted(folder.rglob("*.parquet"), key=lambda path: path.name):
            try:
                with pq.ParquetFile(path) as file:
                    for batch in file.iter_batches(8192):
                        for row in batch.to_pylist():
                            yield _fields(row, path)
            except (OSError, pa.ArrowException):
                self.unreadable += 1
                continue
            self.files += 1


def _fields(row: dict[str, Any], path: Path) -> dict[str, Any]:
    fields = {name: value for name, value in row.items() if value is not None}
    # The tap is the name of the folder: `tap=convs/date=2026-03-01`.
    folder = path.parent.parent.name
    fields.setdefault("tap", urllib.parse.unquote(folder.removeprefix("tap=")))
    if "text" in fields:
        fields["value"] = fields.pop("text")
    if "time" in fields:
        fields["time"] = fields["time"].isoformat()
    return fields
