"""`opstep log report`: the page's data, its size, and what cannot be made a page."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import subprocess
import sys
from datetime import datetime, timezone
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.log_folder import FakeLog
from harness.patience import SECONDS
from harness.tap_batches import batch, opened, source
from opstep_server.taps.records import Extra, Histogram
from opstep_server.taps.report import report_page as page_module
from opstep_server.taps.report.histograms import Histograms, rebinned
from opstep_server.taps.report.points import NAMES, Points
from opstep_server.taps.report.report_data import collect


def report(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "opstep_server", "log", "report", *map(str, words)],
        capture_output=True, text=True, timeout=SECONDS, check=False, env={**os.environ, **env},
    )  # fmt: skip


class Page(HTMLParser):
    """What a browser would find in the page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._inside = ""
        self.text = path.read_text()
        self.feed(self.text)
        self.close()
        self.data: dict[str, Any] = json.loads(self.texts["data"])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = dict(attrs).get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        self.texts[self._inside] = self.texts.get(self._inside, "") + data

    def source(self, op: str) -> dict[str, Any]:
        (found,) = [source for source in self.data["sources"] if source.get("op") == op]
        return found

    def column(self, op: str, name: str) -> list[float]:
        """As page.js unpacks it."""
        lines = self.source(op)["lines"]
        value, n = lines[name], lines["n"]
        if name == "step":
            return [step + lines["first"] for step in self._unpacked(value, n)]
        return self._unpacked(value, n)

    def _unpacked(self, value: Any, n: int) -> list[float]:
        if isinstance(value, list):
            return [value[0] + at * value[1] for at in range(n)]
        if isinstance(value, str) and value not in ("NaN", "Inf", "-Inf"):
            return np.frombuffer(base64.b64decode(value), "<f4").tolist()
        return [float(value)] * n


def made(directory: Path) -> Page:
    done = report(directory, "--html")
    assert (done.stderr, done.returncode) == ("", 0)
    return Page(directory / "report.html")


@pytest.fixture
def log(tmp_path: Path) -> FakeLog:
    fake = FakeLog(tmp_path / "logs", histograms=True)
    fake.steps(30)
    return fake


def test_the_page_has_all_of_a_small_log(log: FakeLog):
    log.counts(produced=140, delivered=120, waiting=1, queue_full=15, too_large=4)
    done = report(log.directory, "--html")
    path = log.directory / "report.html"
    assert re.fullmatch(
        rf"{re.escape(str(path))}: 120 records of 4 sources, 0\.\d MB\n", done.stdout
    )
    page = Page(path)
    data = page.data
    assert data["records"] == 120 and data["files"] == 1
    assert data["from"] == "2026-11-16 12:00:00 UTC" and data["to"] == "2026-11-16 12:00:29 UTC"
    assert data["processes"] == ["host:4711"]
    assert data["counts"]["taps"] == [["all", 140, 120, 1, {"queue full": 15, "too large": 4}]]
    assert data["notes"] == []
    head = page.source("fc_2.matmul")
    about = {name: head[name] for name in ("type", "variable", "tap", "kind", "place", "records")}
    assert about == {
        "type": "matmul", "variable": "fc_2.out", "tap": "all", "kind": "float32[128, 10]",
        "place": "/home/me/train.py:12", "records": 30,
    }  # fmt: skip
    assert page.column("fc_2.matmul", "step") == list(range(30))
    wanted = [math.sin((step + 14) / 10) + 2 for step in range(30)]
    assert page.column("fc_2.matmul", "mean") == pytest.approx(wanted, rel=1e-6)
    assert page.column("fc_2.matmul", "l2") == [38] * 30
    assert (head["low"], head["high"]) == (min(wanted) - 3, max(wanted) + 3)
    heat = head["heat"]
    assert (heat["n"], heat["bins"], heat["steps"]) == (30, 32, [0, 29])
    assert len(base64.b64decode(heat["data"])) == 30 * 32


def test_it_needs_no_network_and_runs_nothing_else(log: FakeLog):
    page = made(log.directory)
    assert not re.search(r"https?:|//cdn|@import|url\(", page.text)
    assert {tag for tag, _ in page.tags} == {
        "html", "head", "meta", "title", "style", "body", "noscript", "script",
    }  # fmt: skip
    assert not any("src" in attrs or "href" in attrs for _, attrs in page.tags)
    (policy,) = [a["content"] for _, a in page.tags if "http-equiv" in a]
    script, style = page.texts["script"], page.texts["style"]
    for kind, text in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in str(policy)
    assert str(policy).startswith("default-src 'none'; ")


def test_names_are_text(tmp_path: Path):
    hostile = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>&amp;\ud800\u2028"
    log = FakeLog(tmp_path / "<b>logs & more", sources=1, tap="<i>tap", ops={0: hostile})
    log.steps(1)
    log.add(0, error="<script>alert(3)</script>")
    log.counts(produced=1, delivered=1)
    page = made(log.directory)
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert page.texts["title"] == f"Tap log {log.directory}"
    (head,) = page.data["sources"]
    assert head["op"] == hostile.replace("\ud800", r"\ud800").replace("\u2028", r"\u2028")
    assert page.data["counts"]["taps"][0][0] == "<i>tap"
    assert "<script>alert" not in page.text


def test_smallest_and_largest_survive(tmp_path: Path):
    log = FakeLog(tmp_path, sources=1)
    for step in range(5000):
        changes: dict[str, Any] = {}
        if step == 1234:
            changes = {"max": 1e6, "std": 77.0, "l2": 99.5}
        elif step == 4321:
            changes = {"min": -1e9, "nan": 2}
        elif step == 10:
            changes = {"max": "Infinity", "inf": 3, "mean": "NaN"}
        log.add(0, **changes)
        log.step += 1
    page = made(tmp_path)
    op = "fc_0.matmul"
    n = page.source(op)["lines"]["n"]
    assert 256 <= n <= 512
    assert min(page.column(op, "min")) == -1e9
    largest = sorted(page.column(op, "max"))
    assert largest[-2:] == [1e6, math.inf]
    assert (max(page.column(op, "std")), max(page.column(op, "l2"))) == (77.0, 99.5)
    assert sum(page.column(op, "nan")) == 2 and sum(page.column(op, "inf")) == 3
    assert sum(page.column(op, "count")) == 5000 * 1280
    assert page.column(op, "step")[-1] == 4999
    assert not any(map(math.isnan, page.column(op, "mean")))
    (head,) = page.data["sources"]
    assert (head["low"], head["high"], head["faulty"]) == (-1e9, "Inf", 2)
    (note,) = page.data["notes"]
    assert note.startswith("Downsampled: 1 of 1 sources have more records than points; each is ")


def test_two_thousand_sources_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = FakeLog(tmp_path, sources=2000, histograms=True)
    rng = np.random.default_rng(3)
    for _ in range(30):
        # Numbers that cannot be packed well.
        noise = rng.normal(size=(log.sources, 3)).tolist()
        records = (
            log.record(index, min=low - 9, std=std, l2=l2)
            for index, (low, std, l2) in enumerate(noise)
        )
        log.append("".join(json.dumps(record) + "\n" for record in records))
        log.step += 1
    monkeypatch.setattr(page_module, "BUDGET", 2_000_000)
    text = page_module.page(collect(tmp_path), datetime.now(timezone.utc)).encode()
    assert len(text) < 2_200_000
    (tmp_path / "small.html").write_bytes(text)
    page = Page(tmp_path / "small.html")
    assert len(page.data["sources"]) == 2000
    assert 4 <= page.source("fc_1999.matmul")["lines"]["n"] < 30
    assert "Downsampled: 2,000 of 2,000 sources" in page.data["notes"][0]
    columns = page.source("fc_7.matmul")["heat"]["n"]
    assert 4 <= columns < 30
    assert f"Histograms over time have at most {columns} columns" in page.data["notes"][1]


def test_values_errors_and_lines_that_cannot_be_read(tmp_path: Path):
    log = FakeLog(tmp_path, sources=3)
    names = ("count", "min", "max", "mean", "std", "l2", "nan", "inf", "zeros")
    bare = dict.fromkeys(names)
    for value in (0.5, 2.5, "Infinity", 0, True):
        log.add(0, **bare, value=value)
        log.step += 1
    log.add(1, **bare, error="the value was not made")
    log.add(2, **bare, value="text")
    log.append('nonsense\n{"tap": "all", "count": 3, "mean": "x"}\n')
    page = made(tmp_path)
    assert page.column("fc_0.matmul", "mean") == [0.5, 2.5, math.inf, 0, 1]
    assert page.source("fc_0.matmul")["values"] is True
    assert page.source("fc_0.matmul")["faulty"] == 1
    assert page.source("fc_1.matmul")["errors"] == [1, "the value was not made"]
    assert page.source("fc_1.matmul")["lines"] == {"n": 0}
    assert page.source("fc_2.matmul")["lines"] == {"n": 0}
    assert page.data["notes"] == ["2 lines or files could not be read and are left out."]


def test_files_are_read_in_the_order_of_their_records(tmp_path: Path):
    log = FakeLog(tmp_path, sources=1)
    for name in ("records-9.jsonl", "records-10.jsonl", "records-1.jsonl"):
        log.file = name
        log.steps(10)
    assert made(tmp_path).column("fc_0.matmul", "step") == list(range(30))


def test_parquet_is_read_where_there_are_no_lines(tmp_path: Path):
    pytest.importorskip("pyarrow")
    sources = [source(tap="a/b é"), source(op="fc", variable="")]
    extras = {
        2: Extra(histogram=Histogram(-1.0, 1.0, (1, 2, 3))),
        5: Extra(value=2.5),
        7: Extra(error="no value"),
    }
    with opened("parquet", tmp_path / "parquet") as sink:
        sink.write(batch(sources * 5, extras, without=(5, 7)))
    page = made(tmp_path)
    assert page.data["records"] == 10 and page.data["files"] == 2
    assert page.data["from"] == "2026-03-01 12:00:00 UTC"
    conv, fc = page.source("conv_0"), page.source("fc")
    assert (conv["tap"], conv["place"], conv["heat"]["n"]) == ("a/b é", "train.py:41", 1)
    assert page.column("conv_0", "mean") == [0, 2, 4, 6, 8]
    assert page.column("fc", "step") == [1, 3, 5, 9]
    assert fc["errors"] == [1, "no value"]
    # The sink's own directory will do.
    assert made(tmp_path / "parquet").data["records"] == 10
    (tmp_path / "parquet" / "report.html").unlink()
    next((tmp_path / "parquet").rglob("*.parquet")).write_bytes(b"PAR1 but not")
    assert made(tmp_path).data["notes"] == ["1 line or file could not be read and are left out."]


def test_parquet_without_its_package(tmp_path: Path):
    (tmp_path / "parquet").mkdir()
    (tmp_path / "pyarrow.py").write_text("raise ImportError")
    hidden = tmp_path / "sitecustomize.py"
    hidden.write_text("import sys\nsys.modules['pyarrow'] = None\n")
    paths = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = report(tmp_path, "--html", PYTHONPATH=paths)
    assert done.stderr == (
        f"opstep: {tmp_path} has only Parquet files, which need the package pyarrow: "
        'pip install "opstep-server[parquet]"\n'
    )
    assert done.returncode == 2


def test_what_cannot_be_made_a_page(tmp_path: Path):
    def sentence(*words: str | Path) -> str:
        done = report(*words)
        assert (done.stdout, done.returncode) == ("", 2)
        return done.stderr

    none = tmp_path / "none"
    assert sentence(none, "--html") == (
        f"opstep: there is no directory {none}: give the one that taps log to\n"
    )
    assert "has no records-*.jsonl and no sources.jsonl" in sentence(tmp_path, "--html")
    log = FakeLog(tmp_path)
    assert sentence(tmp_path, "--html") == (
        f"opstep: {tmp_path} has no records yet: a page can be made when taps have logged some\n"
    )
    log.append("nonsense\n")
    assert sentence(tmp_path, "--html").endswith("have logged some; 1 lines could not be read\n")
    log.steps(1)
    target = tmp_path / "no" / "page.html"
    assert sentence(tmp_path, "--html", target) == (
        f"opstep: cannot write {target}: No such file or directory\n"
    )
    assert "required: --html" in sentence(tmp_path)


# ---- fewer points --------------------------------------------------------------------------------


def test_points_become_fewer_without_losing_records():
    for count in (1, 63, 64, 65, 1000, 4097):
        points = Points()
        for step in range(count):
            values = dict.fromkeys(NAMES, 1.0) | {"step": step, "min": -step, "max": step}
            points.append(tuple(values[name] for name in NAMES), most=40)
        assert len(points) <= 40 + 64
        for wanted in (1000, 7, 1):
            columns = points.columns(wanted)
            assert len(columns["step"]) <= wanted
            assert columns["records"].sum() == count
            assert columns["count"].sum() == count
            assert (columns["min"].min(), columns["max"].max()) == (1 - count, count - 1)
            assert columns["step"][-1] == count - 1
            assert (np.diff(columns["step"]) > 0).all()


def test_bins_are_moved_without_losing_elements():
    counts = np.array([1.0, 2.0, 3.0, 4.0])
    assert rebinned(counts, 0, 4, 0, 4, 4).tolist() == [1, 2, 3, 4]
    assert rebinned(counts, 0, 4, 0, 4, 2).tolist() == [3, 7]
    assert rebinned(counts, 0, 4, -4, 4, 4).tolist() == [0, 0, 3, 7]
    # One value; and spans that floating-point numbers cannot divide.
    assert rebinned(counts, 2, 2, 0, 4, 4).tolist() == [0, 0, 10, 0]
    assert rebinned(counts, -1.7e308, 1.7e308, -1.7e308, 1.7e308, 4).sum() == 10
    assert rebinned(counts, 1, np.nextafter(1, 2), 1, np.nextafter(1, 2), 4).sum() == 10
    kept = Histograms()
    for step in range(1000):
        kept.append(step, Histogram(step, step + 1.0, (1,) * 50))
    heat = kept.map(16)
    assert heat.counts.shape == (16, 32)
    assert heat.counts.sum() == pytest.approx(50_000)
    assert (heat.low, heat.high, heat.steps[1]) == (0, 1000, 999)
