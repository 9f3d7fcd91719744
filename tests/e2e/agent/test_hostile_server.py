"""A short part of tests/fuzz/hostile_server.py: an executor outlives a wild server."""

from __future__ import annotations

import asyncio
import math

import pytest

from fuzz import hostile_server

pytestmark = pytest.mark.e2e


def test_it_runs_on_and_ends_in_order() -> None:
    hostile = asyncio.run(hostile_server.one(1, 3000, math.inf))
    assert hostile.sent == 3000
    assert hostile.streams > 1
