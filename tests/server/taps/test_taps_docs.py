"""docs/taps.md is what the tables say."""

from __future__ import annotations

import re
from pathlib import Path

from opstep_server.taps import config, keys, tap_docs


def test_the_page_is_up_to_date(root: Path) -> None:
    assert (root / "docs" / "taps.md").read_text() == tap_docs.markdown(), (
        "write it again: .venv/bin/python -m opstep_server.taps.tap_docs > docs/taps.md"
    )


def test_its_example_is_right() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", tap_docs.markdown(), re.DOTALL)
    assert [tap.name for tap in config.parse(text).taps] == ["convs", "gradient of fc_0.w"]


def test_the_examples_of_all_keys_can_be_read() -> None:
    beside = {"seed": "probability = 0.5", "gradients": 'line = "a.py:1"', "to": ""}
    places = {key.name for key in keys.PLACES}
    for key in keys.TAP_KEYS:
        text = f'[sinks.main]\nkind = "jsonl"\n[[tap]]\n{beside.get(key.name, "")}\n'
        text += f"{key.name} = {key.example}\n"
        if key.name not in places and "line" not in text:
            text += 'ops = "x"\n'
        assert len(config.parse(text).taps) == 1, key.name
