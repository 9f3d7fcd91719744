"""A short part of tests/fuzz/edits.py, and that it would find a wrong value."""

from __future__ import annotations

import asyncio
import math

import pytest

from fuzz import edits

pytestmark = pytest.mark.e2e


def test_random_edits_are_numpys():
    fuzz = edits.Fuzz(seed=5)
    asyncio.run(fuzz.run(seconds=math.inf, edits=300))
    assert fuzz.edits >= 300 and fuzz.stops > 100


def test_a_wrong_value_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(edits.OPS, "c", lambda values: values["b"] - values["a"])
    with pytest.raises(edits.Wrong, match=r"^c is"):
        asyncio.run(edits.Fuzz(seed=5).run(seconds=math.inf, edits=300))
