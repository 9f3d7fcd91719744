"""JSON lines, read back with json and pandas."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import TESTS
from harness.tap_records import batch
from opstep_server.taps.records import Batch, Extra, Histogram
from opstep_server.taps.sinks import jsonl
from opstep_server.taps.sinks.base import SinkError
from opstep_server.taps.sinks.jsonl import JsonlSink


def sink(path: Path, **settings: object) -> JsonlSink:
    made = JsonlSink(path, {"rotate_bytes": 64_000_000, "keep": 0, **settings})
    made.open()
    return made


def lines(path: Path, pattern: str = "records-*.jsonl") -> list[dict[str, Any]]:
    return [
        json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
        for name in sorted(path.glob(pattern))
        for line in name.read_text().splitlines()
    ]


def test_a_record_says_all_of_itself(tmp_path: Path) -> None:
    made = sink(tmp_path / "logs")
    made.write(batch(2))
    made.flush()
    made.close()
    first, second = lines(tmp_path / "logs")
    assert first == {
        "time": "2026-09-21T14:13:20.123456+00:00",
        "tap": "convs",
        "program": "main",
        "op": "conv2d_0",
        "type": "conv2d",
        "variable": "conv2d_0.out",
        "step": 0,
        "iteration": 0,
        "thread": 1,
        "count": 6,
        **dict.fromkeys(("min", "max", "mean", "std", "l2"), 0.5),
        **dict.fromkeys(("nan", "inf", "zeros"), 6),
        "process": "host:7",
        "file": "/train.py",
        "line": 41,
    }
    assert (second["step"], second["mean"]) == (1, 1.5)
    (told,) = lines(tmp_path / "logs", "sources.jsonl")
    assert told == {
        "source": 1,
        "tap": "convs",
        "program": "main",
        "op": "conv2d_0",
        "type": "conv2d",
        "variable": "conv2d_0.out",
        "slot": "out",
        "dtype": "float32",
        "dims": [2, 3],
        "file": "/train.py",
        "line": 41,
        "gradient": False,
        "process": "host:7",
    }


def test_what_json_has_no_number_for(tmp_path: Path) -> None:
    made = sink(tmp_path)
    strange = [np.nan, np.inf, -np.inf, 1e-300]
    extras = {
        0: Extra(histogram=Histogram(-1.0, float("inf"), (1, 0, 2))),
        1: Extra(positions=np.array([0, 5]), samples=np.array([np.nan, 2.5], np.float32)),
        2: Extra(value=float("-inf")),
        3: Extra(error='no value: "released"'),
    }
    made.write(batch(4, extras, mean=strange, count=[6, 6, 0, 0]))
    made.flush()
    made.close()
    found = lines(tmp_path)
    assert [one.get("mean") for one in found] == ["NaN", "Infinity", None, None]
    assert "count" not in found[2]
    assert found[0]["histogram"] == {"low": -1.0, "high": "Infinity", "counts": [1, 0, 2]}
    assert found[1]["samples"] == {"positions": [0, 5], "values": ["NaN", 2.5]}
    assert found[2]["value"] == "-Infinity"
    assert found[3]["error"] == 'no value: "released"'


def test_numbers_lose_no_digit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal(1000) * 10.0 ** rng.integers(-300, 300, 1000)
    made = sink(tmp_path)
    made.write(batch(1000, l2=values))
    made.flush()
    made.close()
    assert [one["l2"] for one in lines(tmp_path)] == values.tolist()


def test_pandas_reads_it(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    made = sink(tmp_path)
    made.write(batch(100))
    made.flush()
    made.close()
    frame = pandas.read_json(tmp_path / "records-0001.jsonl", lines=True)
    assert frame["step"].tolist() == list(range(100))
    assert frame["mean"].sum() == sum(i + 0.5 for i in range(100))
    time = pandas.to_datetime(frame["time"])[0]
    assert time == pandas.Timestamp("2026-09-21T14:13:20.123456Z")


def test_files_begin_anew_when_they_are_full(tmp_path: Path) -> None:
    made = sink(tmp_path, rotate_bytes=1000, keep=2)
    for _ in range(6):
        made.write(batch(4))
    made.flush()
    made.close()
    names = sorted(path.name for path in tmp_path.glob("records-*"))
    assert names == ["records-0005.jsonl", "records-0006.jsonl"]
    again = sink(tmp_path)
    again.write(batch(4))
    again.flush()
    again.close()
    assert (tmp_path / "records-0007.jsonl").exists()
    # It told of this source before.
    assert len(lines(tmp_path, "sources.jsonl")) == 1


def test_a_file_that_is_removed_is_noticed(tmp_path: Path) -> None:
    made = sink(tmp_path)
    made.write(batch(4))
    made.flush()
    (tmp_path / "records-0001.jsonl").unlink()
    made.write(batch(4))
    with pytest.raises(SinkError, match=r"records-0001\.jsonl was removed"):
        made.flush()
    made.close()
    made.open()
    made.write(batch(3))
    made.flush()
    assert len(lines(tmp_path)) == 3
    made.close()


def test_what_counts_as_lost_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sink(tmp_path)
    made.write(batch(4))
    made.flush()
    real = os.write

    def full(file: int, data: bytes) -> int:
        """Has room for a part of it."""
        if len(data) <= 100:
            raise OSError(28, "No space left on device")
        return real(file, data[:100])

    made.write(batch(4))
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        made.flush()
    made.close()
    monkeypatch.undo()
    assert len(lines(tmp_path)) == 4
    made.open()
    made.write(batch(2))
    made.flush()
    made.close()
    assert len(lines(tmp_path)) == 6


def test_standard_output_that_is_full() -> None:
    code = f"""
import sys; sys.path[:0] = {[str(TESTS), *sys.path]!r}
from pathlib import Path
from harness.tap_records import batch
from opstep_server.taps.sinks.jsonl import JsonlSink
made = JsonlSink(Path("-"), {{"rotate_bytes": 1, "keep": 0}})
made.open()
made.write(batch(4))
try:
    made.flush()
except OSError as error:
    print(error.strerror, file=sys.stderr)
made.close()
"""
    with open("/dev/full", "w") as full:
        ended = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE)
    assert ended.stderr.decode() == "No space left on device\n"
    assert ended.returncode == 0


def of_process(pid: int, length: int = 1) -> Batch:
    found = batch(length)
    return replace(found, sources=(replace(found.sources[0], process=f"host:{pid}"),) * length)


def test_many_processes_do_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "_MAX_KEPT", 10)
    monkeypatch.setattr(jsonl, "_MAX_READ", 1000)
    made = sink(tmp_path)
    for pid in range(25):
        made.write(of_process(pid))
    made.flush()
    made.close()
    told = lines(tmp_path, "sources.jsonl")
    assert [(one["source"], one["process"]) for one in told] == [
        (pid + 1, f"host:{pid}") for pid in range(25)
    ]
    assert len(made._seen) <= 10
    assert len(made._sources) <= 10
    # Of a large file only the end is read.
    again = sink(tmp_path)
    assert 0 < len(again._sources) < 5
    again.write(of_process(24))
    again.write(of_process(77))
    again.flush()
    again.close()
    assert [one["source"] for one in lines(tmp_path, "sources.jsonl")][25:] == [26]


def test_sources_begin_anew_where_old_records_are_removed(tmp_path: Path) -> None:
    made = sink(tmp_path, rotate_bytes=2000, keep=2)
    for pid in range(100):
        made.write(of_process(pid, 4))
        made.write(of_process(1, 4))
    made.flush()
    made.close()
    told = lines(tmp_path, "sources.jsonl")
    assert len(told) < 20
    assert {"host:99", "host:1"} <= {one["process"] for one in told}


def test_a_full_disk_takes_no_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sink(tmp_path, rotate_bytes=3000, keep=2)
    for _ in range(6):
        made.write(batch(4))
    made.flush()
    before = {path.name: path.read_bytes() for path in tmp_path.glob("records-*")}
    assert len(before) == 2
    write = os.write

    def full(file: int, data: memoryview) -> int:
        if len(data) < 100:
            raise OSError(28, "No space left on device")
        return write(file, data[: len(data) - 50])

    monkeypatch.setattr(os, "write", full)
    for _ in range(5):
        with pytest.raises(OSError, match="No space"):
            made.write(batch(4))
            made.flush()
        made.close()
        made.open()
    assert {path.name: path.read_bytes() for path in tmp_path.glob("records-*")} == before
    monkeypatch.undo()
    made.write(batch(4))
    made.flush()
    made.close()
    assert len(list(tmp_path.glob("records-*"))) == 2
    assert len(lines(tmp_path)) >= 8


def test_after_a_failure_the_same_file_goes_on(tmp_path: Path) -> None:
    made = sink(tmp_path)
    for _ in range(3):
        made.write(batch(2))
        made.flush()
        made.write(batch(1))  # Is lost.
        made.close()
        made.open()
    made.close()
    assert [path.name for path in tmp_path.glob("records-*")] == ["records-0001.jsonl"]
    assert len(lines(tmp_path)) == 6
