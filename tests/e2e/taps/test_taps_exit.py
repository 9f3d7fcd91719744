"""The end of a process under taps: what is on disk is what counts as delivered, to the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.processes import OPSTEP, PROGRAMS
from harness.tap_programs import adds_up, counts, run

pytestmark = pytest.mark.e2e

TOML = """
[sinks.main]
kind = "jsonl"
path = "logs"
rotate_bytes = "1GB"
[[tap]]
name = "all"
ops = "add"
"""


@pytest.mark.parametrize("runs", [1, 50, 600])
def test_lines_on_disk_are_the_records_delivered(tmp_path: Path, runs: int) -> None:
    """600,000 come faster than they are written: the sink is behind when the script ends."""
    (tmp_path / "taps.toml").write_text(TOML)
    done = run(
        *OPSTEP[1:],
        "run",
        "--taps",
        "taps.toml",
        str(PROGRAMS / "taps" / "flood.py"),
        str(runs),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    found = counts(tmp_path / "logs")["all"]
    lines = sum(file.read_bytes().count(b"\n") for file in (tmp_path / "logs").glob("records-*"))
    assert adds_up(found) and found["produced"] == 1000 * runs
    assert found["waiting"] == 0
    assert lines == found["delivered"], found
