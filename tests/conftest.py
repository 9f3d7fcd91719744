"""Fixtures and hooks for all tests."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from harness import ROOT, TESTS, patience

RUNTIME = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's folder."""
    return ROOT


def pytest_configure(config: pytest.Config) -> None:
    """A separate folder for doorbells and sockets of these tests, and of each worker of -n 2."""
    # Under nohup or in a script's background these signals are ignored, and child processes would
    # inherit that.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[RUNTIME] = os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="opstep-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[RUNTIME], ignore_errors=True)


@pytest.hookimpl(tryfirst=True)  # before -m chooses by the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Gives tests in tests/e2e and tests/vscode their folder's marker."""
    for item in items:
        for folder in ("e2e", "vscode"):
            if TESTS / folder in item.path.parents:
                item.add_marker(folder)
        marker = item.get_closest_marker("timeout")
        limit = float(marker.args[0] if marker else config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(limit * patience.FACTOR), append=False)
