"""The scripts that tests with real processes debug."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import PROGRAMS


@pytest.fixture
def programs() -> Path:
    """The folder of the users' scripts that tests debug."""
    return PROGRAMS
