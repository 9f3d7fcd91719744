from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def script() -> Path:
    """The stand-in for an executor."""
    return Path(__file__).with_name("scripted_executor.py").resolve()
