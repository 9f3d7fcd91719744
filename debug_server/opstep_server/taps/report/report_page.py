"""The report's page: the data as JSON and the scripts that draw it, in one file without network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from opstep_server.taps.log_files.counts import age
from opstep_server.taps.log_files.log_records import printable
from opstep_server.taps.report.histograms import Histograms
from opstep_server.taps.report.points import Column
from opstep_server.taps.report.report_data import MAPS, SOURCES, ReportData, Source

# The bytes for data in a page of at most 5 MB.
BUDGET = 4_800_000
_POINTS = (512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4)
_COLUMNS = (64, 48, 32, 24, 16, 8, 4, 0)
# The columns that are drawn, beside step and time.
_DRAWN = ("mean", "min", "max", "std", "l2", "count", "nan", "inf", "zeros")

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>The page's script draws the plots, but your browser does not run it.</noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page(found: ReportData, made: datetime) -> str:
    sources = sorted(found.sources.values(), key=lambda source: -source.records)
    left_out = sources[SOURCES:]
    data = _data(found, sources[:SOURCES], made)
    if left_out:
        data["notes"].append(
            f"Of {len(sources):,} sources only the {SOURCES:,} with the most records are shown."
        )
    here = Path(__file__).parent
    style = (here / "page.css").read_text()
    script = (here / "plots.js").read_text() + (here / "page.js").read_text()
    # Nothing else on the page may run, and nothing may be fetched.
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    return _PAGE.format(
        policy=policy,
        title=html.escape(f"Tap log {data['directory']}"),
        style=style,
        script=script,
        data=_safe(json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)),
    )


def _safe(text: str) -> str:
    """Escapes `<`, which could end a script element, and lone surrogates, which UTF-8 lacks."""
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _data(found: ReportData, sources: list[Source], made: datetime) -> dict[str, Any]:
    known = found.begin <= found.end
    begin = found.begin if known else 0.0
    count, drawn, columns = _fitting(sources, begin)
    maps = [_map(source.histograms, columns) for source in sources]
    heads = [_head(source) for source in sources]
    for head, lines, heat in zip(heads, drawn, maps, strict=True):
        head["lines"] = lines
        if heat is not None:
            head["heat"] = heat
    return {
        "directory": printable(str(found.directory.resolve())),
        "made": _iso(made.timestamp()),
        "begin": begin,
        "from": _iso(found.begin) if known else "",
        "to": _iso(found.end) if known else "",
        "records": found.records,
        "files": found.files,
        "processes": sorted({source.key.process for source in found.sources.values()}),
        "counts": {
            "time": found.counts.time,
            "taps": [
                [name, tap.produced, tap.delivered, tap.waiting, tap.dropped]
                for name, tap in found.counts.taps.items()
            ],
        },
        "notes": list(_notes(found, sources, count, columns)),
        "sources": heads,
    }


def _notes(found: ReportData, sources: list[Source], count: int, columns: int) -> Iterator[str]:
    if found.counts.old:
        yield f"Counts are older than the log: {age(found.counts)}."
    fewer = [s for s in sources if s.points.merged or len(s.points) > count]
    if fewer:
        yield (
            f"Downsampled: {len(fewer):,} of {len(sources):,} sources have more records than "
            f"points; each is drawn with at most {count} points. Of the records in one point the "
            "smallest min and the largest max, std and l2 are kept, mean is the mean of their "
            "means, and counts are added up."
        )
    if any(s.histograms is not None and s.histograms.merged(columns) for s in sources):
        yield (
            f"Histograms over time have at most {columns} columns of 32 bins each: those of "
            "neighbouring records are added up."
            if columns
            else "Histograms are left out: the page has no room for so many."
        )
    if found.maps == MAPS:
        yield f"Histograms are shown of the first {MAPS:,} sources that have some."
    if found.unreadable:
        what = "line or file" if found.unreadable == 1 else "lines or files"
        yield f"{found.unreadable:,} {what} could not be read and are left out."
    if found.problem:
        yield found.problem


def _fitting(sources: list[Source], begin: float) -> tuple[int, list[dict[str, Any]], int]:
    """The most points, with each source's lines, and the most columns that fit on the page."""
    room = BUDGET - sum(len(json.dumps(_head(source))) for source in sources)
    kept = [source.histograms for source in sources if source.histograms is not None]
    for columns in _COLUMNS:
        # As base64, with the text around it.
        used = sum(each.size(columns) * 4 // 3 + 100 for each in kept) if columns else 0
        if used <= room * 2 // 5:
            break
    for count in _POINTS:
        # A sample shows which numbers are worth trying.
        few = sources[:: max(len(sources) // 50, 1)]
        about = len(_packed(few, count, begin)) * len(sources) / len(few)
        if about > 1.1 * (room - used) and count != _POINTS[-1]:
            continue
        drawn = [_lines(source, count, begin) for source in sources]
        if sum(len(json.dumps(lines)) for lines in drawn) <= room - used:
            break
    return count, drawn, columns


def _packed(sources: list[Source], count: int, begin: float) -> str:
    return json.dumps([_lines(source, count, begin) for source in sources])


def _head(source: Source) -> dict[str, Any]:
    process, tap, program, op, variable = source.key
    about = source.about
    dims = about.get("dims")
    shape = f"[{', '.join(map(str, dims))}]" if isinstance(dims, list) else ""
    place = f"{about['file']}:{about.get('line', '?')}" if about.get("file") else ""
    head: dict[str, Any] = {
        "op": op, "type": printable(about.get("type", "")), "variable": variable, "tap": tap,
        "program": program,
        "process": process, "kind": printable(f"{about.get('dtype', '')}{shape}"),
        "place": printable(place), "records": source.records, "faulty": source.faulty,
        "low": number(source.low), "high": number(source.high),
    }  # fmt: skip
    if source.values:
        head["values"] = True
    if source.errors:
        head["errors"] = [source.errors, source.error[:300]]
    return {name: value for name, value in head.items() if value not in ("", 0)}


def _lines(source: Source, count: int, begin: float) -> dict[str, Any]:
    columns = source.points.columns(count)
    lines: dict[str, Any] = {"n": len(columns["step"])}
    if not lines["n"]:
        return lines
    first = columns["step"][0]
    lines["first"] = number(first)
    lines["step"] = _column(columns["step"] - first)
    lines["time"] = _column(columns["time"] - begin)
    for name in _drawn(columns):
        lines[name] = _column(columns[name])
    return lines


def _drawn(columns: Mapping[str, Column]) -> Iterator[str]:
    return (name for name in _DRAWN if not np.isnan(columns[name]).all())


def _column(values: Column) -> Any:
    """One number if all are the same, two if they grow evenly, otherwise packed."""
    with np.errstate(over="ignore"):
        small = values.astype(np.float32)
    # Rounding must not make a finite number infinite.
    edge = np.finfo(np.float32).max
    small = np.where(np.isinf(small) & np.isfinite(values), np.copysign(edge, small), small)
    if (small == small[0]).all() or np.isnan(small).all():
        return number(float(small[0]))
    steps = np.diff(values)
    if len(values) > 2 and (steps == steps[0]).all():
        return [number(values[0]), number(steps[0])]
    return base64.b64encode(small.astype("<f4").tobytes()).decode()


def number(value: float) -> float | int | str | None:
    """A number for JSON; page.js reads the words."""
    if math.isfinite(value):
        value = float(value)
        return int(value) if value.is_integer() and abs(value) < 1e15 else value
    return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"


def _map(histograms: Histograms | None, columns: int) -> dict[str, Any] | None:
    if histograms is None or not columns:
        return None
    heat = histograms.map(columns)
    return {
        "low": number(heat.low), "high": number(heat.high),
        "steps": [number(step) for step in heat.steps],
        "n": len(heat.counts), "bins": heat.counts.shape[1],
        "data": base64.b64encode(_shades(heat.counts).tobytes()).decode(),
    }  # fmt: skip


def _shades(counts: Column) -> npt.NDArray[np.uint8]:
    """From 0 to 255, relative to each column's largest; only an empty bin is 0."""
    largest = np.maximum(counts.max(axis=1, keepdims=True), 1e-300)
    shades: Column = np.ceil(255 * np.sqrt(counts / largest))
    return np.clip(shades, 0, 255).astype(np.uint8)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
