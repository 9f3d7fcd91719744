"""A short part of tests/fuzz/dap_stream.py."""

from __future__ import annotations

import math

import pytest

from fuzz import dap_stream

pytestmark = pytest.mark.e2e


def test_a_damaged_stream_costs_its_client_only():
    fuzz = dap_stream.Fuzz(seed=7)
    fuzz.run(math.inf, streams=100)
    assert fuzz.answers > fuzz.streams
