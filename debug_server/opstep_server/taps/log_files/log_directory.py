"""The check that a directory holds a tap log."""

from __future__ import annotations

import os
import re
from pathlib import Path

from opstep_server.taps.log_files import log_records


class DirectoryError(Exception):
    """One sentence for the user."""


def parquet_files(directory: Path, names: list[str]) -> Path | None:
    """The folder with Parquet files, if there are any: `parquet`, or the directory itself."""
    if "parquet" in names:
        return directory / "parquet"
    return directory if any(name.startswith("tap=") for name in names) else None


def check(directory: Path, parquet: bool = False) -> None:
    """Raises when nothing can be read there; with `parquet`, Parquet files are enough."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        raise DirectoryError(
            f"there is no directory {directory}: give the one that taps log to"
        ) from None
    except NotADirectoryError:
        raise DirectoryError(
            f"{directory} is a file: give the directory that taps log to"
        ) from None
    except OSError as error:
        raise DirectoryError(f"cannot read {directory}: {error.strerror}") from None
    patterns = (log_records.RECORDS, log_records.SOURCES)
    if any(re.fullmatch(pattern, name) for pattern in patterns for name in names):
        return
    if parquet_files(directory, names) is not None:
        if parquet:
            return
        raise DirectoryError(
            f"{directory} has only Parquet files, which cannot be shown live: "
            "'opstep log report' reads them"
        )
    raise DirectoryError(
        f"{directory} has no records-*.jsonl and no sources.jsonl: give the directory that taps "
        'log to, with a sink of kind "jsonl"'
    )
