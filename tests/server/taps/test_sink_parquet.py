"""The Parquet sink, read back with pandas and DuckDB."""

from __future__ import annotations

import datetime
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from harness import TESTS
from harness.tap_batches import CONV, DAY, NOON, batch, no_room, opened, read_only, sink, source
from opstep_server.taps.records import STATISTICS, Extra, Histogram
from opstep_server.taps.sinks.base import SinkError


def query(path: Path, what: str) -> list[tuple]:
    return duckdb.connect().execute(what.replace("LOG", f"'{path}/**/*.parquet'")).fetchall()


def steps(path: Path) -> list[int]:
    return [step for (step,) in query(path, "SELECT step FROM LOG ORDER BY step")]


def everything(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if not file.is_dir())


def finished(path: Path) -> list[Path]:
    return sorted(path.rglob("*.parquet"))


def test_pandas_and_duckdb_read_it_as_is(tmp_path: Path):
    taps = [source(tap=tap) for tap in ("convs", "a/b=c é")]
    with opened("parquet", tmp_path) as s:
        s.write(batch([taps[0], taps[1], taps[0]], without=(2,)))
        s.write(batch([taps[1]], first=3, time=NOON + DAY))
    folders = {str(file.parent.relative_to(tmp_path)) for file in everything(tmp_path)}
    other = "tap=a%2Fb%3Dc%20%C3%A9"
    dates = ["date=2026-03-01", "date=2026-03-02"]
    assert folders == {f"tap=convs/{dates[0]}", f"{other}/{dates[0]}", f"{other}/{dates[1]}"}

    frame = pd.read_parquet(tmp_path).sort_values("step", ignore_index=True)
    assert frame["tap"].tolist() == ["convs", "a/b=c é", "convs", "a/b=c é"]
    assert frame["date"].tolist() == ["2026-03-01"] * 3 + ["2026-03-02"]
    assert str(frame["time"].dtype) == "datetime64[us, UTC]"
    assert frame["time"][0] == pd.Timestamp("2026-03-01T12:00:00.123456Z")
    assert frame["mean"].tolist()[:2] == [0.0, 1.0]
    assert frame.loc[2, list(STATISTICS)].isna().all()
    assert frame["file"].tolist() == ["train.py"] * 4
    assert frame["dims"][0].tolist() == [2, 3]

    rows = query(
        tmp_path, 'SELECT tap, date, epoch_us(time), "min", "max", line FROM LOG ORDER BY step'
    )
    assert [row[0] for row in rows] == frame["tap"].tolist()
    assert rows[0][1] == datetime.date(2026, 3, 1)
    assert rows[0][2] == NOON // 1000
    assert query(tmp_path, "SELECT DISTINCT typeof(time) FROM LOG") == [
        ("TIMESTAMP WITH TIME ZONE",)
    ]
    assert [row[3:] for row in rows] == [(-1, 1, 41), (0, 2, 41), (None, None, 41), (2, 4, 41)]
    differences = "SELECT step - lag(step, -1) OVER (ORDER BY step) FROM LOG"
    assert query(tmp_path, differences) == [(-1,), (-1,), (-1,), (None,)]


def test_everything_that_a_record_has(tmp_path: Path):
    extras = {
        0: Extra(Histogram(-1.0, 3.0, (1, 0, 2**40))),
        1: Extra(positions=np.array([0, 5]), samples=np.array([1.5, np.nan], np.float32)),
        2: Extra(value=7),
        3: Extra(value="text"),
        4: Extra(error="x is not there"),
        5: Extra(value=True),
    }
    made = batch([CONV] * 7, extras)
    made.statistics["mean"][6] = math.nan
    made.statistics["max"][6] = math.inf
    with opened("parquet", tmp_path) as s:
        s.write(made)
    what = "histogram, samples, value, text, error, mean, max, isnan(mean)"
    rows = query(tmp_path, f"SELECT {what} FROM LOG ORDER BY step")
    assert rows[0][0] == {"low": -1.0, "high": 3.0, "counts": [1, 0, 2**40]}
    assert rows[1][0] is None
    assert rows[1][1]["positions"] == [0, 5]
    assert rows[1][1]["values"][0] == 1.5 and math.isnan(rows[1][1]["values"][1])
    assert [row[2] for row in rows] == [None, None, 7.0, None, None, 1.0, None]
    assert [row[3] for row in rows] == [None, None, None, "text", None, None, None]
    assert [row[4] for row in rows] == [None, None, None, None, "x is not there", None, None]
    assert rows[6][6:] == (math.inf, True)
    # Nobody skips what is not a number.
    assert query(tmp_path, "SELECT step FROM LOG WHERE isnan(mean)") == [(6,)]
    assert query(tmp_path, "SELECT step FROM LOG WHERE max > 1e300") == [(6,)]
    frame = pd.read_parquet(tmp_path).sort_values("step", ignore_index=True)
    assert frame["histogram"][0]["counts"].tolist() == [1, 0, 2**40]


def test_files_are_finished_by_rows(tmp_path: Path):
    with opened("parquet", tmp_path, rows=20) as s:
        for first in range(0, 70, 10):
            s.write(batch([CONV] * 10, first=first))
            s.flush()
        assert [len(pd.read_parquet(file)) for file in finished(tmp_path)] == [20, 20, 20]
        assert steps(tmp_path) == list(range(60))
        # Readers of the folder do not see the journal either.
        assert len(pd.read_parquet(tmp_path)) == 60
    assert steps(tmp_path) == list(range(70))
    assert everything(tmp_path) == finished(tmp_path)


def test_files_are_finished_by_time(tmp_path: Path):
    with opened("parquet", tmp_path, seconds=1e-9) as s:
        s.write(batch([CONV]))
        s.flush()
        assert steps(tmp_path) == [0]
        s.flush()
        s.write(batch([CONV], first=1))
        s.flush()
        assert len(finished(tmp_path)) == 2


def test_large_files_have_several_groups_of_rows(tmp_path: Path):
    with opened("parquet", tmp_path) as s:
        for first in range(0, 40_000, 2000):
            s.write(batch([CONV] * 2000, first=first))
    found = query(tmp_path, "SELECT num_row_groups FROM parquet_file_metadata(LOG)")
    assert found == [(3,)]
    assert steps(tmp_path) == list(range(40_000))


CRASH = """
import os, signal, sys
from pathlib import Path
from harness.tap_batches import *
s = sink("parquet", Path(sys.argv[1]), rows=10)
s.open()
s.write(batch([CONV] * 10))
s.flush()
s.write(batch([CONV, source(tap="other")], first=10))
s.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def crash(path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
    }
    done = subprocess.run([sys.executable, "-c", CRASH, path], env=environment)
    assert done.returncode == -signal.SIGKILL


def test_what_was_flushed_survives_a_crash(tmp_path: Path):
    crash(tmp_path)
    assert steps(tmp_path) == list(range(10))
    with opened("parquet", tmp_path):
        assert steps(tmp_path) == list(range(12))
    assert everything(tmp_path) == finished(tmp_path)


def test_a_journal_that_is_cut_or_half_done_is_taken_for_what_it_is(tmp_path: Path):
    crash(tmp_path)
    first, second = sorted(tmp_path.rglob(".part-*"))
    os.truncate(first, first.stat().st_size - 5)
    os.truncate(second, 3)
    first.with_name(f"{first.name[:-7]}0.arrows").touch()
    unfinished = first.with_name(".unfinished-x")
    unfinished.write_bytes(b"PAR1")
    with opened("parquet", tmp_path):
        assert steps(tmp_path) == list(range(10))
    assert everything(tmp_path) == finished(tmp_path)


def test_a_crash_before_the_last_step_brings_nothing_twice(tmp_path: Path):
    crash(tmp_path)
    journals = {path: path.read_bytes() for path in tmp_path.rglob(".part-*")}
    sink("parquet", tmp_path).open()
    for path, content in journals.items():
        path.write_bytes(content)
    sink("parquet", tmp_path).open()
    assert steps(tmp_path) == list(range(12))
    assert everything(tmp_path) == finished(tmp_path)


def test_the_journal_of_another_sink_is_left_alone(tmp_path: Path):
    with opened("parquet", tmp_path) as one:
        one.write(batch([CONV]))
        with opened("parquet", tmp_path) as two:
            two.write(batch([CONV], first=1))
            assert finished(tmp_path) == []
        one.write(batch([CONV], first=2))
        one.flush()
    assert steps(tmp_path) == [0, 1, 2]


def test_a_full_disk_takes_back_what_was_not_flushed(tmp_path: Path):
    s = sink("parquet", tmp_path)
    s.open()
    other = source(tap="other")
    s.write(batch([CONV] * 10))
    s.flush()
    with no_room(1 << 16), pytest.raises(OSError, match="part-"):
        for first in range(1000, 100_000, 10):
            s.write(batch([other, *[CONV] * 9], first=first))
            if first == 1050:
                s.flush()
    s.close()
    assert steps(tmp_path) == [*range(10), *range(1000, 1060)]
    s.open()
    s.write(batch([CONV], first=200_000))
    s.close()
    assert steps(tmp_path) == [*range(10), *range(1000, 1060), 200_000]
    assert everything(tmp_path) == finished(tmp_path)


def test_no_room_to_finish_a_file(tmp_path: Path):
    s = sink("parquet", tmp_path, rows=10)
    s.open()
    s.write(batch([CONV] * 10))
    with no_room():
        # The records are safe.
        s.flush()
        with pytest.raises(OSError, match="part-"):
            s.write(batch([CONV], first=10))
        s.close()
    assert finished(tmp_path) == []
    s.open()
    assert steps(tmp_path) == list(range(10))
    s.write(batch([CONV], first=10))
    with no_room(), pytest.raises(OSError, match="part-"):
        s.close()
    s.open()
    s.close()
    assert steps(tmp_path) == list(range(11))
    assert everything(tmp_path) == finished(tmp_path)


def test_a_removed_directory_is_noticed(tmp_path: Path):
    path = tmp_path / "log"
    s = sink("parquet", path)
    s.open()
    s.write(batch([CONV]))
    shutil.rmtree(path)
    with pytest.raises(SinkError, match="was removed while it was being written"):
        s.flush()
    with pytest.raises(SinkError, match="was removed while it was being written"):
        s.write(batch([CONV]))
    s.close()
    s.open()
    s.write(batch([CONV], first=5))
    s.close()
    assert steps(path) == [5]


def test_a_read_only_directory(tmp_path: Path):
    s = sink("parquet", tmp_path)
    s.open()
    with read_only(tmp_path), pytest.raises(OSError):
        s.write(batch([CONV]))
    s.close()
    s.open()
    s.write(batch([CONV], first=1))
    s.close()
    assert steps(tmp_path) == [1]


def test_settings_that_make_no_sense(tmp_path: Path):
    with pytest.raises(SinkError, match="'rows' of a parquet sink must be greater than 0"):
        sink("parquet", tmp_path, rows=0)
