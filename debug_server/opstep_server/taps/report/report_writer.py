"""The writer of a report: from the directory of a tap log to the file with its page."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

from opstep_server.taps.log_files.log_directory import DirectoryError
from opstep_server.taps.report.report_data import collect
from opstep_server.taps.report.report_page import page


def write(directory: Path, path: Path, progress: Callable[[int], None]) -> str:
    """Writes the page, whole or not at all; returns a line on its contents."""
    found = collect(directory, progress)
    if not found.records:
        raise DirectoryError(
            f"{directory} has no records yet: a page can be made when taps have logged some"
            + (f"; {found.unreadable:,} lines could not be read" if found.unreadable else "")
        )
    text = page(found, datetime.now(timezone.utc)).encode()
    new = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        new.write_bytes(text)
        os.replace(new, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        raise DirectoryError(f"cannot write {path}: {error.strerror}") from None
    said = f"{found.records:,} records of {len(found.sources):,} sources, {len(text) / 1e6:.1f} MB"
    if found.unreadable:
        said += f"; {found.unreadable:,} lines could not be read"
    return said
