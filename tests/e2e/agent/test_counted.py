"""Lines of log points: shown or counted, whatever reads them and however it ends."""

from __future__ import annotations

import random

import pytest

from fuzz import counted

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("reader", ["fast", "behind"])
def test_a_client_sees_or_is_told_of_every_line(reader: str) -> None:
    shown, dropped = counted.one(reader, "runs out", 300_000, random.Random(1))
    assert shown > 4000
    assert dropped > 0 or reader == "fast"


@pytest.mark.parametrize("end", ["detached", "disconnected", "killed"])
def test_lines_that_nobody_can_count_are_told_as_that(end: str) -> None:
    counted.one("fast", end, 1_000_000, random.Random(1))
