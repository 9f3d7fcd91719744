"""The stand-in for an executor that tests of the protocol launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import TESTS


@pytest.fixture
def script() -> Path:
    """The stand-in for an executor."""
    return TESTS / "harness" / "dap_executor.py"
