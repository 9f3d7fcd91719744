"""A short part of tests/fuzz/names.py, and that it would find a wrong name."""

from __future__ import annotations

import asyncio
import math

import pytest

from fuzz import names

pytestmark = pytest.mark.e2e


def test_names_are_those_that_python_had():
    fuzz = names.Fuzz(seed=3)
    asyncio.run(fuzz.run(seconds=math.inf, scripts=6))
    assert fuzz.scripts == 6 and fuzz.stops > 20 and fuzz.names > 40


def test_a_wrong_name_is_found(monkeypatch: pytest.MonkeyPatch):
    # What is noted is one op late.
    late = names.HEAD.replace("noted[op] = frames", "noted[op] = late[-1]; late.append(frames)")
    assert late != names.HEAD
    monkeypatch.setattr(names, "HEAD", late.replace("noted = {}", "noted, late = {}, [[]]"))
    with pytest.raises(names.Wrong, match=r": at op\d+, "):
        asyncio.run(names.Fuzz(seed=3).run(seconds=math.inf, scripts=6))
