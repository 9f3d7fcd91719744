"""`opstep log view` and `opstep log report` on what a real run logged, and while one logs."""

from __future__ import annotations

from pathlib import Path

from harness.processes import wait_until
from harness.tap_programs import TAPPED, Command, counts, run
from harness.terminal import terminal

ROW = r"^main +fc_0\.matmul +\S+ +(\d+) "
TAPS = """
[sinks.main]
kind = "jsonl"
path = "logs"
rotate_bytes = "100KB"
[[tap]]
name = "all"
ops = "*"
what = ["stats", "histogram"]
"""


def test_the_table_and_the_page_have_every_record(tmp_path: Path):
    (tmp_path / "taps.toml").write_text(TAPS)
    run("-m", "opstep_server", "run", "--taps", "taps.toml", str(TAPPED), "50", cwd=tmp_path)
    logs = tmp_path / "logs"
    produced = counts(logs)["all"]["produced"]
    head, *rows = run(
        "-m", "opstep_server", "log", "view", "logs", cwd=tmp_path
    ).stdout.splitlines()
    at = head.split().index("RECORDS")
    assert sum(int(row.split()[at]) for row in rows) == produced > 0
    said = run("-m", "opstep_server", "log", "report", "logs", "--html", cwd=tmp_path)
    assert said.stdout.startswith(
        f"logs/report.html: {produced:,} records of {len(rows)} sources, "
    )
    assert f'"records":{produced},' in (logs / "report.html").read_text()


def test_the_table_follows_a_run(tmp_path: Path):
    (tmp_path / "taps.toml").write_text(TAPS)
    logs = tmp_path / "logs"
    with Command("run", "--taps", "taps.toml", str(TAPPED), "10", "never", cwd=tmp_path):
        assert wait_until(lambda: (logs / "sources.jsonl").exists())
        with terminal(command="log", options=("view",), script=str(logs), size=(150, 40)) as t:
            first = t.shows(ROW)[1]
            t.shows(ROW.replace(r"(\d+)", rf"(?!{first} )(\d+)"))
            # The program that made the parameters has ops of its own.
            t.shows(r"^startup +fc_0\.w\.init +fc_0\.w +1 +1 ")
