"""What a process lets taps do, and what they cost it at most."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.patience import SECONDS
from harness.tap_processes import PROGRAMS, run, tap, until_ended
from harness.tap_server import TapServer, adds_up

pytestmark = pytest.mark.e2e


def test_only_allowed_ops_and_no_whole_tensors(tmp_path: Path):
    wanted = [
        tap("*", uid="all"),
        tap("mean_0", uid="mean"),
        tap("fc_0*", uid="full", full=True),
        tap("fc_0*", uid="many", samples=65),
        tap("fc_0*", uid="few", samples=64),
    ]
    server = TapServer(wanted)
    audit = tmp_path / "audit.jsonl"
    environment = {"OPSTEP_POLICY": "log-only", "OPSTEP_TAP_ALLOW": "fc_*, fill"}
    run(server, tmp_path, "5", OPSTEP_AUDIT=str(audit), **environment)
    types = {s.op_name: s.op_type for s in server.sources.values()}
    tapped = set(types)
    assert tapped and all(n.startswith("fc_") or "fill" in types[n] for n in tapped)
    assert "may not be logged" in server.statuses["all"].message
    assert "does not let these ops be logged" in server.statuses["mean"].message
    assert "whole tensors" in server.statuses["full"].ended
    assert "no more than 64 elements" in server.statuses["many"].ended
    assert server.records["few"] > 0
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["did"], line["uid"]) for line in lines][:2] == [("set", "all"), ("set", "mean")]
    assert all(line["who"] in ("test", "opstep") and line["time"].endswith("Z") for line in lines)
    assert {line["did"] for line in lines} == {"set", "ended", "removed"}


def test_a_tap_that_takes_too_much_time_is_switched_off(tmp_path: Path):
    slow = tap("fc_*", uid="slow", histogram_bins=500, samples=2000, inputs=True, outputs=True)
    server = TapServer([slow, tap("mean_0", uid="light", every=1000)], keep=False)
    run(server, tmp_path, "1", during=until_ended(server, "slow"), OPSTEP_TAP_CPU="0.02")
    ended = server.statuses["slow"].ended
    assert ended.startswith("switched off: it took ") and "gives them 2 %" in ended
    assert not server.statuses["light"].ended
    assert adds_up(server.statuses["slow"].counts)


def test_a_tap_that_makes_too_many_bytes_is_switched_off(tmp_path: Path):
    server = TapServer([tap("fc_*", full=True)], keep=False)
    over = until_ended(server, "t")
    run(server, tmp_path, "1", during=over, OPSTEP_TAP_BYTES_PER_SECOND="100kB")
    assert "bytes a second" in server.statuses["t"].ended


def test_limits_that_make_no_sense_are_told(tmp_path: Path):
    for server in ("", "unix:/nowhere"):
        result = subprocess.run(
            [sys.executable, str(PROGRAMS / "taps" / "tapped.py"), "1"],
            env={**os.environ, "OPSTEP_TAP_CPU": "much", "OPSTEP_SERVER": server},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert result.returncode == 0 and result.stdout.startswith("done 1 ")
        assert "OPSTEP_TAP_CPU: 'much' is not understood: give a share" in result.stderr


@pytest.mark.parametrize("full", [False, True])
def test_memory_is_bounded_by_the_queue(tmp_path: Path, full: bool):
    """A million records, and nobody takes one."""
    server = TapServer([tap("add", full=full)], answer=lambda records: None, keep=False)
    out, _ = run(server, tmp_path, "1000", name="taps/flood.py", OPSTEP_TAP_QUEUE="8MB")
    told = json.loads(out)
    assert told["taps"]["t"]["produced"] == 1_000_000
    assert told["taps"]["t"]["queue_full"] > 900_000
    assert told["peak"] - told["before"] <= 8 + 16
    assert adds_up(server.statuses["t"].counts)


def test_settings_that_make_no_sense_are_refused(tmp_path: Path):
    wanted = [
        tap("mean_0", uid="bins", histogram_bins=50_000_000),
        tap("mean_0", uid="samples", samples=1_000_000),
        tap("mean_0", uid="rate", per_second=float("nan")),
        tap("mean_0", uid="slow", per_second=1e-10),
        tap("mean_0", uid="seconds", seconds=float("inf")),
        tap("mean_0", uid="first", first=2**64 - 1),
        tap("fc_0.matmul", uid="inputs", inputs=True, condition="out.max() > 0"),
    ]
    server = TapServer(wanted)
    run(server, tmp_path, "5")
    assert "no more than 4096 bins" in server.statuses["bins"].ended
    assert "65536 samples" in server.statuses["samples"].ended
    for uid in ("rate", "slow", "seconds"):
        assert "makes sense" in server.statuses[uid].ended
    assert server.records["first"] == 5
    assert "not there yet when inputs are logged" in server.statuses["inputs"].message


def test_a_long_run_is_policed_too(tmp_path: Path):
    """The program loops in one run: what ends by time, or takes too much, ends in it."""
    wanted = [tap("tanh*", uid="time", seconds=0.5), tap("*", uid="cpu", histogram_bins=64)]
    server = TapServer(wanted, keep=False)
    over = until_ended(server, "time", "cpu")
    run(server, tmp_path, name="taps/one_long_run.py", during=over, OPSTEP_TAP_CPU="0.01")
    assert "0.5 s are over" in server.statuses["time"].ended
    assert server.statuses["cpu"].ended.startswith("switched off: it took ")


def test_under_log_only_values_of_other_ops_stay_inside(tmp_path: Path):
    wanted = [
        tap("mean_0", uid="weights", value="fc_0.w.max()"),
        tap("mean_0", uid="gradient", value="grad(fc_0.w)", full=True),
        tap("mean_0", uid="when", condition="fc_0.w.max() > 0"),
        tap("mean_0", uid="part", value="X[0]"),
        tap("mean_0", uid="own", value="X.max() - X.min()"),
    ]
    server = TapServer(wanted)
    environment = {"OPSTEP_POLICY": "log-only", "OPSTEP_TAP_ALLOW": "mean*"}
    run(server, tmp_path, "3", **environment)
    for uid in ("weights", "gradient", "when"):
        assert "only the op's own values" in server.statuses[uid].message, uid
    assert "parts of tensors" in server.statuses["part"].message
    assert server.records["own"] == 3 and sum(server.records.values()) == 3


def test_limits_can_be_said_in_the_program(tmp_path: Path):
    code = """
import opstep
from opstep import debug
debug.limit_taps(allow=["fc*"], cpu_share=0.5, queue="2MB")
for wrong in ({"cpu_share": 3}, {"queue": "much"}, {"queue": 10}):
    try:
        debug.limit_taps(**wrong)
        raise SystemExit(f"{wrong} was taken")
    except opstep.Error as error:
        print(error)
debug.limit_taps(full_tensors=False)
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS, cwd=tmp_path
    )
    assert done.stdout.endswith("fine\n") and done.stdout.count("\n") == 4, done.stderr
    assert "cpu_share: 3 is not understood: give a share" in done.stdout
