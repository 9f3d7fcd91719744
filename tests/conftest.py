"""What every test shares."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return ROOT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in tests/e2e and tests/vscode carry their folder's marker without saying so."""
    for item in items:
        for folder in ("e2e", "vscode"):
            if ROOT / "tests" / folder in item.path.parents:
                item.add_marker(folder)
