"""The adapter's strict client is shared with tests/dap."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "dap"))


@pytest.fixture
def programs() -> Path:
    """The folder of the users' scripts that tests debug."""
    return TESTS / "programs"
