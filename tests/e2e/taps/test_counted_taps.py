"""A short part of tests/fuzz/tap_kills.py."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fuzz import tap_kills

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("last", ["order", "collector", "script"])
def test_records_are_on_disk_or_counted(tmp_path: Path, last: str) -> None:
    tap_kills.one(tmp_path, 1, last, random.Random(3))
