"""Fixtures for the tests of the PyTorch backend, which need the extra torch-test."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

# Without torch the other tests can be run; `make test-torch` then finds no test, and fails.
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("torch")


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    """No test sees what another one compiled."""
    import torch

    torch._dynamo.reset()
    torch.manual_seed(3)
    yield
    torch._dynamo.reset()
