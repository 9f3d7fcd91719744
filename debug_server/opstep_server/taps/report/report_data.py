"""The data of a report's page, collected while the log's records are read."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from opstep_server.taps.log_files import log_records
from opstep_server.taps.log_files.counts import Counts, counts_of
from opstep_server.taps.log_files.file_follower import read_once
from opstep_server.taps.log_files.log_records import Key, Unreadable
from opstep_server.taps.report.histograms import Histograms
from opstep_server.taps.report.log_reader import LogReader
from opstep_server.taps.report.points import Points

# The points that are kept while reading, for one source and for all.
_POINTS = 512
_ALL = 500_000
_FEWEST = 16
# Sources with kept histograms, in the order of their first histogram.
MAPS = 4000
# Sources on the page: those with the most records.
SOURCES = 10_000


@dataclass(eq=False)
class Source:
    key: Key
    about: dict[str, Any]
    points: Points = field(default_factory=Points)
    histograms: Histograms | None = None
    records: int = 0
    # Those with a NaN or an Inf.
    faulty: int = 0
    # Of all records.
    low: float = math.inf
    high: float = -math.inf
    # Whether the points are values of an expression.
    values: bool = False
    # The last error that a record has instead of a value, and the number of such records.
    error: str = ""
    errors: int = 0


@dataclass
class ReportData:
    directory: Path
    sources: dict[Key, Source] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    records: int = 0
    files: int = 0
    unreadable: int = 0
    problem: str = ""
    # Sources with histograms.
    maps: int = 0
    # Times of the first and the last record in seconds since 1970; equal without records.
    begin: float = math.inf
    end: float = -math.inf


def collect(directory: Path, progress: Callable[[int], None] = lambda count: None) -> ReportData:
    """Reads all records; calls `progress` with the number read so far."""
    found = ReportData(directory)
    reading = LogReader(directory)
    abouts = {log_records.key_of(fields): fields for fields in reading.sources()}
    wrong = 0
    # Read before the records, so that it counts no more than they are.
    text = read_once(directory / "counts.json")
    counts, logged = Counts(), Counter[tuple[str, str]]()
    if text is not None:
        try:
            counts = counts_of(json.loads(text))
        except (ValueError, RecursionError):
            found.unreadable += 1
    for fields in reading.records():
        try:
            _take(found, fields, abouts)
        except (Unreadable, TypeError, ValueError, OverflowError):
            wrong += 1
            continue
        found.records += 1
        key = log_records.key_of(fields)
        logged[key.process, key.tap] += 1
        if found.records % 100_000 == 0:
            progress(found.records)
    found.files = reading.files
    found.unreadable += reading.unreadable + wrong
    found.problem = reading.problem
    found.counts = counts.with_log(logged)
    return found


def _take(found: ReportData, fields: dict[str, Any], abouts: dict[Key, dict[str, Any]]) -> None:
    numbers = log_records.numbers_of(fields)
    time = _seconds(fields.get("time"))
    key = log_records.key_of(fields)
    source = found.sources.get(key)
    if source is None:
        source = found.sources[key] = Source(key, {**_plain(fields), **abouts.get(key, {})})
    source.records += 1
    if not math.isnan(time):
        found.begin = min(found.begin, time)
        found.end = max(found.end, time)
    if "error" in fields:
        source.error = log_records.printable(fields["error"])
        source.errors += 1
    step, count, low, high, mean, std, l2, nan, inf, zeros, value = numbers
    if count <= 0:
        if math.isnan(value) and "value" not in fields:
            return
        # A value is drawn as a tensor of one element.
        source.values = True
        low = high = mean = value
        count, std, l2 = 1.0, math.nan, math.nan
        nan, inf, zeros = float(math.isnan(value)), float(math.isinf(value)), float(value == 0)
        if isinstance(fields["value"], str) and math.isnan(value) and fields["value"] != "NaN":
            return  # Text.
    if nan > 0 or inf > 0:
        source.faulty += 1
    source.low = min(source.low, low) if not math.isnan(low) else source.low
    source.high = max(source.high, high) if not math.isnan(high) else source.high
    most = min(_POINTS, max(_ALL // len(found.sources), _FEWEST))
    source.points.append((step, time, 1.0, mean, low, high, std, l2, count, nan, inf, zeros), most)
    if "histogram" in fields and (bins := log_records.histogram(fields)) is not None:
        if source.histograms is None and found.maps < MAPS:
            source.histograms = Histograms()
            found.maps += 1
        if source.histograms is not None:
            source.histograms.append(step, bins)


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """The record's fields about its source."""
    return {
        name: fields[name] for name in ("type", "file", "line", "dtype", "dims") if name in fields
    }


def _seconds(time: object) -> float:
    if not isinstance(time, str):
        return math.nan
    try:
        # Python 3.10 does not know the Z.
        parsed = datetime.fromisoformat(time.replace("Z", "+00:00"))
    except ValueError:
        return math.nan
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)).timestamp()
