"""The strict client is shared with tests/dap, the scripted executor with tests/server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "dap"), str(TESTS / "server")]


@pytest.fixture
def programs() -> Path:
    """The folder of the users' scripts that tests debug."""
    return TESTS / "programs"
