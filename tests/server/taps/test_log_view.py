"""`opstep log view`: the table of a tap log, once and live at a real terminal."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.log_folder import FakeLog
from harness.patience import SECONDS
from harness.tap_batches import batch, opened, source
from harness.terminal import Terminal, terminal
from opstep_server.taps.log_files import tap_log as log_module
from opstep_server.taps.log_files.file_follower import Follower
from opstep_server.taps.log_files.log_records import histogram
from opstep_server.taps.log_files.tap_log import KEPT, TapLog
from opstep_server.taps.records import Extra, Histogram

LEAVE = "\x1b[?1049l"


def view(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "opstep_server", "log", "view", *map(str, words)],
        capture_output=True, text=True, timeout=SECONDS, check=False, env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


@contextlib.contextmanager
def live(
    directory: Path, *options: str, size: tuple[int, int] = (150, 24), **env: str
) -> Iterator[Terminal]:
    with terminal(
        *options, command="log", options=("view",), script=str(directory), size=size, **env
    ) as t:
        t.shows(r" q quit")
        yield t


@pytest.fixture
def log(tmp_path: Path) -> FakeLog:
    made = FakeLog(tmp_path / "logs", histograms=True)
    made.steps(30)
    return made


# ---- once ----------------------------------------------------------------------------------------


def test_once_prints_a_stable_table(log: FakeLog):
    log.add(1, nan=3, inf=1, mean="NaN", max="Infinity", min="-Infinity")
    done = view(log.directory, "--once")
    assert done.stdout.splitlines() == [
        "PROCESS    TAP  PROGRAM  OP           VARIABLE  STEP  RECORDS   "
        " MEAN    STD      MIN    MAX  L2  NAN  INF  ZEROS",
        "host:4711  all  main     fc_0.matmul  fc_0.out    29       30  0"
        ".2392      1   -2.761  3.239  36    0    0     5%",
        "host:4711  all  main     fc_1.matmul  fc_1.out    30       31   "
        "  NaN  1.125     -Inf    Inf  37    3    1     5%",
        "host:4711  all  main     fc_2.matmul  fc_2.out    29       30   "
        "1.084   1.25   -1.916  4.084  38    0    0     5%",
        "host:4711  all  main     fc_3.matmul  fc_3.out    29       30   "
        "2.041  1.375  -0.9589  5.041  39    0    0     5%",
    ]
    assert (done.stderr, done.returncode) == ("", 0)
    # A file is no terminal either.
    assert view(log.directory).stdout == done.stdout


def ops(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.split()[3] for line in done.stdout.splitlines()[1:]]


def test_rows_are_filtered_and_ordered(tmp_path: Path):
    log = FakeLog(tmp_path, sources=12, ops={3: "conv_3[0]"})
    log.steps(2)
    log.add(7, nan=1)
    log.add(5)
    assert ops(view(tmp_path))[:4] == ["conv_3[0]", "fc_0.matmul", "fc_1.matmul", "fc_2.matmul"]
    assert ops(view(tmp_path, "--order", "nan"))[0] == "fc_7.matmul"
    assert ops(view(tmp_path, "--order", "records"))[:2] == ["fc_5.matmul", "fc_7.matmul"]
    descending = ops(view(tmp_path, "--order", "statistic", "--statistic", "l2"))
    assert descending[:3] == ["fc_11.matmul", "fc_10.matmul", "fc_9.matmul"]
    assert ops(view(tmp_path, "--filter", "FC_1 all")) == [
        "fc_1.matmul", "fc_10.matmul", "fc_11.matmul",
    ]  # fmt: skip
    assert ops(view(tmp_path, "--filter", "v_3[0")) == ["conv_3[0]"]
    assert ops(view(tmp_path, "--filter", "fc_?.m")) == [
        f"fc_{index}.matmul" for index in range(10) if index != 3
    ]
    assert ops(view(tmp_path, "--filter", "nothing")) == []


def test_lines_that_cannot_be_read_are_counted(log: FakeLog):
    log.append("no json\n\n[1]\n{}\n" + "[" * 100_000 + "\n")
    log.append('{"tap": "all", "op": ["a"]}\n{"tap": "all", "count": 1, "mean": "much"}\n')
    log.append("\0\xff\n")
    log.add(0)
    log.append('{"time": "2026-11-16T12')  # Not yet whole.
    done = view(log.directory)
    assert done.stderr == "opstep: 7 lines could not be read\n"
    assert done.stdout.splitlines()[1].split()[6] == "31"
    assert done.returncode == 0


def test_what_was_dropped_is_said(log: FakeLog):
    log.counts(produced=150, delivered=120, waiting=10, queue_full=15, rate=5)
    assert view(log.directory).stderr == (
        "opstep: 150 produced, 120 delivered, 10 waiting, 20 dropped (queue full 15, rate 5)\n"
    )


def test_names_cannot_command_the_terminal(tmp_path: Path):
    log = FakeLog(tmp_path, sources=1, ops={0: "a\x1b]0;owned\x07b\u202e\n漢字"})
    log.steps(1)
    out = view(tmp_path).stdout
    assert r"a\x1b]0;owned\x07b\u202e\n漢字" in out
    assert "\x1b" not in out


def test_records_without_statistics(tmp_path: Path):
    log = FakeLog(tmp_path, sources=2)
    bare = dict.fromkeys(
        ["count", "min", "max", "mean", "std", "l2", "nan", "inf", "zeros"]
    )  # fmt: skip
    log.add(0, **bare, value=2.5)
    log.add(1, **bare, error="the run ended before it")
    rows = [line.split() for line in view(tmp_path).stdout.splitlines()[1:]]
    assert [row[5:] for row in rows] == [["0", "1", *"--------"]] * 2


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("none", "there is no directory {}: give the one that taps log to"),
        ("file", "{} is a file: give the directory that taps log to"),
        (
            "empty",
            "{} has no records-*.jsonl and no sources.jsonl: give the directory that taps log to, "
            'with a sink of kind "jsonl"',
        ),
        (
            "columns",
            "{} has only Parquet files, which cannot be shown live: 'opstep log report' reads them",
        ),
    ],
)
def test_directories_that_cannot_be_shown(tmp_path: Path, name: str, sentence: str):
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "columns" / "parquet").mkdir(parents=True)
    done = view(tmp_path / name)
    assert done.stderr == f"opstep: {sentence.format(tmp_path / name)}\n"
    assert (done.stdout, done.returncode) == ("", 2)


def test_wrong_words(log: FakeLog):
    done = view(log.directory, "--statistic", "median")
    assert "invalid choice: 'median'" in done.stderr
    assert done.returncode == 2
    assert "the following arguments are required: DIR" in view().stderr


# ---- following files -----------------------------------------------------------------------------


def test_backwards_reads_the_same_lines(tmp_path: Path):
    lines = [b"x" * (7 * at % 40) + b"%d" % at for at in range(200)]
    (tmp_path / "a").write_bytes(b"\n".join(lines) + b"\ntorn")
    for limit in (1, 3, 16, 100, 10_000):
        follower = Follower(tmp_path, "a", backwards=True)
        follower.look()
        read: list[bytes] = []
        while part := follower.older(limit):
            read += part
        assert read[::-1] == lines
        assert follower.newer() == []
        assert (follower.has_older, follower.waiting) == (False, len("torn"))


def test_a_file_may_be_rotated_cut_off_and_made_again(tmp_path: Path):
    path = tmp_path / "records-1.jsonl"
    follower = Follower(tmp_path, r"records-.*\.jsonl")

    def read() -> list[bytes]:
        follower.look()
        return follower.newer()

    assert read() == []
    path.write_bytes(b"1\n2\n3")
    assert read() == [b"1", b"2"]
    with open(path, "ab") as file:
        file.write(b"3\n4\n")
    assert read() == [b"33", b"4"]
    path.rename(tmp_path / "records-2.jsonl")
    assert read() == []
    path.write_bytes(b"5\n")
    assert read() == [b"5"]
    # Written over from its beginning, longer than it was: its inode is the same.
    path.write_bytes(b"6\n7\n8\n")
    assert read() == [b"6", b"7", b"8"]
    path.write_bytes(b"9\n")
    assert read() == [b"9"]
    # Cut off where a line ended, as a sink does with what it could not write.
    path.write_bytes(b"9\n8\n7\n")
    assert read() == [b"8", b"7"]
    os.truncate(path, 4)
    assert read() == []
    with open(path, "ab") as file:
        file.write(b"6\n")
    assert read() == [b"6"]
    path.unlink()
    assert read() == []
    path.write_bytes(b"10\n11\n")
    assert read() == [b"10", b"11"]
    shutil.rmtree(tmp_path)
    assert read() == []
    assert follower.problem == f"cannot read {tmp_path}: No such file or directory"


def test_a_log_keeps_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_module, "_DRAWN", 8)
    monkeypatch.setattr(log_module, "_ROWS", 20)
    fake = FakeLog(tmp_path, sources=12)
    fake.steps(KEPT + 50)
    log = TapLog(tmp_path)
    log.read_all()
    fake.steps(1)
    late = FakeLog(tmp_path, sources=12, process="host:4712", step=fake.step)
    late.steps(1)
    log.read_all()
    assert len(log.rows) == 20 and len(log.left_out) == 4
    assert log.records == 12 * (KEPT + 52)
    assert {row.records for row in log.rows.values()} == {KEPT + 51, 1}
    drawn = [row for row in log.rows.values() if row.series is not None]
    assert len(drawn) <= 8
    assert all(row.drawn("mean")[-1] == row.number("mean") for row in drawn)
    assert all(row.number("step") >= KEPT + 50 for row in log.rows.values())


def test_the_newest_stand_last_however_they_were_read(tmp_path: Path):
    fake = FakeLog(tmp_path, sources=2)
    fake.steps(40)
    fake.file = "records-000002.jsonl"
    fake.steps(40)
    log = TapLog(tmp_path)
    log.read_all()
    fake.steps(40)
    log.read_all()
    (row, _) = log.rows.values()
    assert row.series is not None
    assert row.series.column("step").tolist() == list(range(120))


def test_what_the_sink_writes(tmp_path: Path):
    sources = [source(), source(op="fc", variable="", tap="other")]
    extras = {3: Extra(value=2.5), 5: Extra(histogram=Histogram(0.0, 1.0, (1, 2)))}
    log = None
    with opened("jsonl", tmp_path, rotate_bytes=1000) as sink:
        for first in range(0, 60, 6):
            sink.write(batch(sources * 3, extras, first=first, without=(3,)))
            if first == 30:
                sink.flush()
                log = TapLog(tmp_path)
                log.read_all()
                assert log.records == 36
        sink.flush()
    assert log is not None
    log.read_all()
    assert log.files > 2 and log.unreadable == 0
    conv, fc = log.rows.values()
    assert (conv.key, fc.key) == (
        ("box:77", "convs", "main", "conv_0", "conv_0.out"),
        ("box:77", "other", "main", "fc", ""),
    )  # fmt: skip
    assert conv.records == fc.records == 30
    assert conv.series is not None
    assert conv.series.column("step").tolist() == list(range(0, 60, 2))
    assert conv.about["dims"] == [2, 3]
    assert histogram(fc.fields()) == Histogram(0.0, 1.0, (1, 2))
    assert len(fc.drawn("mean")) == 20


# ---- live ----------------------------------------------------------------------------------------


def test_the_table_follows_the_files(log: FakeLog):
    with live(log.directory) as t:
        t.shows(r"^─ .*/logs: 4 sources, 120 records ─+$")
        t.shows(r"^fc_3\.matmul +fc_3\.out +29 +30 +2\.041 .* [▁▂▃▄▅▆▇█]{10,}$")
        log.steps(1)
        t.shows(r"^fc_3\.matmul +fc_3\.out +30 +31 ")
        log.file = "records-000002.jsonl"
        log.steps(1)
        t.shows(r"^fc_3\.matmul +fc_3\.out +31 +32 ")
        line = json.dumps(log.record(3)) + "\n"
        log.append(line[:100])
        log.add(0, tap="more")
        t.shows(r"could not be read")  # One line out of two.
        log.append("\n" + line[:100])
        log.counts(produced=200, delivered=200)
        log.append(line[100:])
        t.shows(r"^(all +)?fc_3\.matmul +fc_3\.out +32 +33 ")
        (log.directory / log.file).write_text(line)
        t.shows(r"^(all +)?fc_3\.matmul +fc_3\.out +32 +34 ")
        shutil.rmtree(log.directory)
        t.shows(r"cannot read .*/logs: No such file or directory")
        again = FakeLog(log.directory, step=50)
        again.steps(1)
        t.shows(r"^(all +)?fc_3\.matmul +fc_3\.out +50 +35 ")
        t.hides("cannot read")


def test_a_clone_of_a_program_has_rows_of_its_own(log: FakeLog):
    log.add(0, program="test")
    with live(log.directory) as t:
        t.shows(r"^main +fc_0\.matmul +\S+ +29 +30 ")
        t.shows(r"^test +fc_0\.matmul +\S+ +30 +1 ")


def test_it_may_begin_before_the_first_record(tmp_path: Path):
    log = FakeLog(tmp_path, sources=0)
    with live(tmp_path) as t:
        t.shows(r"^no records yet$")
        log.sources = 1
        log.steps(1)
        t.shows(r"^fc_0\.matmul ")


def test_keys(log: FakeLog):
    log.add(2, nan=5, mean="NaN")
    with live(log.directory) as t:
        assert t.style("fc_0.matmul").reverse
        t.press("Down", "Down")
        t.shows("fc_2")
        until(t, lambda: t.style("fc_2.matmul").reverse)
        t.type("s")
        t.shows(r"^ std │ by name")
        t.type("S")
        t.shows(r"^ mean │ by name")
        t.type("o")
        t.shows(r"^ mean │ by mean")
        until(t, lambda: rows(t) == ["fc_3", "fc_1", "fc_0", "fc_2"])
        assert t.style("fc_2.matmul").reverse  # It stays the chosen one.
        t.type("oOO")
        t.shows(r"by name")
        t.type("/fc_[")
        t.shows(r"^filter: fc_\[$")
        t.shows(r"^no source has 'fc_\[': / changes the filter$")
        t.type("\x7f1")
        until(t, lambda: rows(t) == ["fc_1"])
        t.press("Enter")
        t.shows(r"filter 'fc_1': 1 of 4")
        t.type("/x")
        t.shows(r"filter 'fc_1x': 0 of 4")
        t.press("Esc")
        t.shows(r"filter 'fc_1': 1 of 4")
        t.type("/\x15")
        until(t, lambda: len(rows(t)) == 4)
        t.press("Enter")
        t.hides("^filter: ")
        t.type("x")
        t.shows(r"^ x is not a key here: see those below │ ")
        t.press("F5")
        t.shows(r"^ f5 is not a key here")
        t.press("End")
        until(t, lambda: t.style("fc_3.matmul").reverse)
        t.hides("not a key here")
        t.type("q")
        assert t.wait() == 0
        assert t.raw.rstrip().rfind(LEAVE) > 0


def rows(t: Terminal) -> list[str]:
    return [row.split(".")[0] for row in t.text.splitlines() if row.startswith("fc_")]


def until(t: Terminal, done: Callable[[], bool]) -> None:
    t._until(done, "what was waited for", SECONDS)


def test_a_source_has_a_pane_of_its_own(log: FakeLog):
    log.add(1, nan=2, samples={"positions": [0, 5], "values": [0.25, "NaN"]})
    with live(log.directory) as t:
        t.press("Down", "Enter")
        t.shows(r"^  op        fc_1\.matmul \(matmul\)$")
        t.shows(r"^  variable  fc_1\.out  float32\[128, 10\], slot Out$")
        t.shows(r"^  tap       all, process host:4711, program main$")
        t.shows(r"^  line      /home/me/train\.py:11$")
        t.shows(r"^  newest    step 30, 2026-11-16T12:00:30\.000001Z, 1 with NaN or Inf$")
        t.shows(r"^  samples   0\.25, NaN$")
        t.shows(r"  std 1\.125  l2 37  nan 2  inf 0  zeros 5%$")
        assert t.style("2  inf").fg == "red"
        t.shows(r"^mean in the last 31 of 31 records$")
        t.shows(r"^ +[\d.]+ │ *[▁▂▃▄▅▆▇█]+")
        t.shows(r"^histogram: 16 bins from -2\.53 to 3\.47$")
        t.type("s")
        t.shows(r"^std in the last 31 of 31 records$")
        t.press("Up")
        t.shows(r"^  op        fc_0\.matmul")
        log.steps(1)
        t.shows(r"^std in the last 31 of 31 records$")
        t.press("Esc")
        t.shows(r"^OP ")


def test_what_is_not_finite_is_red(log: FakeLog):
    log.add(2, nan=5, mean="NaN")
    with live(log.directory) as t:
        row = t.row("fc_2")
        y = t.text.splitlines().index(row)
        cells = t.screen.buffer[y]
        assert [cells[row.index(word) + word.count(" 5")].fg for word in ("NaN", " 5  ", "?")] == [
            "red"
        ] * 3
        assert cells[row.index("1.25")].fg == "default"


def test_without_colours_and_blocks(log: FakeLog):
    log.add(2, nan=5, mean="NaN")
    with live(log.directory, NO_COLOR="1") as t:
        assert all(
            char.fg == "default" for row in t.screen.buffer.values() for char in row.values()
        )
    with live(log.directory, PYTHONIOENCODING="ascii") as t:
        assert t.text.isascii()
        assert re.search(r"^fc_2\.matmul .*[_.:=+*#-]{10,}\?$", t.text, re.MULTILINE)
        t.press("Enter")
        t.shows(r"^ +[\d.]+ \|[ _.:=+*#-]+$")
        assert t.text.isascii()


def test_it_fits_any_terminal(log: FakeLog):
    with live(log.directory, size=(200, 30)) as t:
        t.shows(r"^OP +VARIABLE +STEP +RECORDS +MEAN +STD +MIN +MAX +L2 +NAN +INF +ZEROS  mean$")
        t.resize(60, 12)
        t.shows(r"^OP +STEP +MEAN +NAN  mean$")
        t.resize(32, 5)
        t.shows(r"^OP +STEP  mean$")
        t.resize(3, 2)
        t.resize(200, 30)
        t.shows(r"^OP +VARIABLE +STEP +RECORDS +MEAN +STD +MIN +MAX +L2 +NAN +INF +ZEROS  mean$")
        t.type("q")
        assert t.wait() == 0


def test_two_thousand_sources(tmp_path: Path):
    log = FakeLog(tmp_path, sources=2000)
    log.steps(5)
    with live(tmp_path) as t:
        t.shows(r": 2,000 sources, 10,000 records")
        t.press("End")
        t.shows(r"^fc_1999\.matmul ")
        t.type("/fc_17\r")
        t.shows(r"filter 'fc_17': 111 of 2,000")
        log.steps(1)
        t.press("End")
        t.shows(r"^fc_1799\.matmul +\S+ +5 +6 ")


def test_it_ends_with_its_terminal(log: FakeLog):
    with live(log.directory) as t:
        t.hang_up()
        assert t.process.wait(SECONDS) == 128 + signal.SIGHUP
    with live(log.directory) as t:
        t.process.send_signal(signal.SIGTERM)
        assert t.wait() == 128 + signal.SIGTERM
        assert LEAVE in t.raw
