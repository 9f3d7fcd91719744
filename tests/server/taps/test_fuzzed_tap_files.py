"""A short part of tests/fuzz/tap_files.py: bytes of a tap log turned and cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import tap_files


@pytest.mark.parametrize("name", ["records-000001.jsonl", "sources.jsonl", "counts.json"])
def test_what_is_intact_is_read(tmp_path: Path, name: str) -> None:
    assert tap_files.each_byte(tap_files.Directory(tmp_path / "log"), name, 11) > 10
