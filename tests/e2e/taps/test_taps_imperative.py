"""Taps and log points on ops that run line by line: by type, name, line, condition and gradient."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.debugged_script import debugged, marked
from harness.processes import PROGRAMS
from harness.tap_programs import adds_up, counts, records, run
from opstep_server.model import BreakpointSpec, PatternWhere

pytestmark = pytest.mark.e2e

SCRIPT = PROGRAMS / "taps" / "tapped_now.py"
STEPS = 20
TOML = f"""
[sinks.main]
kind = "jsonl"
path = "logs"
[[tap]]
name = "type"
ops = "relu"
[[tap]]
name = "named"
ops = "sequential/step_1.matmul"
every = 5
[[tap]]
name = "line"
line = "{SCRIPT}:{marked("taps/tapped_now.py", "scaled").line}"
count = 3
[[tap]]
name = "large"
ops = "mul"
condition = "Y > 15"
[[tap]]
name = "gradient"
gradient_of = "sequential/step_0.w"
what = ["stats", "histogram"]
[[tap]]
name = "nan"
ops = "*"
condition = "isnan(out).any()"
what = ["full"]
"""


def test_taps_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "taps.toml").write_text(TOML)
    plain = run(str(SCRIPT), str(STEPS), cwd=tmp_path)
    said = run(str(SCRIPT), str(STEPS), cwd=tmp_path, OPSTEP_TAPS="taps.toml")
    assert said.returncode == 0, said.stderr
    assert "tap line has ended: it has made its 3 records" in said.stderr
    assert said.stdout == plain.stdout  # not a bit of the parameters is another
    found = records(tmp_path / "logs")
    by_tap = {
        name: [one for one in found if one["tap"] == name] for name in counts(tmp_path / "logs")
    }
    assert {name: len(rows) for name, rows in by_tap.items()} == {
        "type": STEPS, "named": STEPS // 5, "line": 3, "large": STEPS - 15, "gradient": STEPS,
        "nan": 1,
    }  # fmt: skip
    assert {one["op"] for one in by_tap["type"]} == {"sequential/step_0.relu"}
    assert [one["step"] for one in by_tap["named"]] == [5, 10, 15, 20]
    assert {one["op"] for one in by_tap["large"]} == {"mul"}
    assert {one["op"] for one in by_tap["gradient"]} == {"sequential/step_0.matmul.grad"}
    assert by_tap["nan"][0]["op"] == "sqrt"
    assert all(adds_up(one) for one in counts(tmp_path / "logs").values())


def test_a_script_taps_itself(tmp_path: Path) -> None:
    said = run(str(SCRIPT), str(STEPS), "logs", cwd=tmp_path)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.split()[0] == str(STEPS // 2)
    assert [one["step"] for one in records(tmp_path / "logs")] == list(range(2, STEPS + 1, 2))


def test_log_points_write_a_line_each_time() -> None:
    async def main() -> None:
        where = marked("taps/tapped_now.py", "scaled")
        specs = [
            BreakpointSpec(where, log_message="factor {Y} of {x.shape}"),
            BreakpointSpec(PatternWhere("sgd"), condition="step % 10 == 0", log_message="{step}"),
            BreakpointSpec(PatternWhere("reduce_mean"), hit_condition="% 10", log_message="tenth"),
        ]
        async with debugged("taps/tapped_now.py", str(STEPS), breakpoints=specs) as script:
            await script.end()
            said = [log.text for log in script.logs]
            assert [text for text in said if text.startswith("factor")] == [
                f"factor {step} of [8, 3]" for step in range(1, STEPS + 1)
            ]
            assert said.count("10") == said.count("20") == 4  # parameters
            assert said.count("tenth") == 2

    asyncio.run(main())
