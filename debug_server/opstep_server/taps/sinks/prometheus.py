"""Prometheus' text format over HTTP: the last numbers of every value that is tapped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from opstep_server.access import parse_address
from opstep_server.model import DebuggerError
from opstep_server.taps.records import Batch
from opstep_server.taps.sinks.base import Key, Sink, SinkError
from opstep_server.taps.sinks.http_page import HttpPage
from opstep_server.taps.sinks.latest_numbers import LABELS, NUMBERS, LatestNumbers, Series

_CONTENT = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
# A gauge's name may not end with `_count`, and its unit comes last.
_RENAMED = {"count": "elements", "time": "last_record_timestamp_seconds"}


class PrometheusSink(Sink):
    kind = "prometheus"
    doc = (
        "A page for Prometheus (http://127.0.0.1:9464/metrics): the last statistics and numbers as "
        "gauges, records as counters."
    )
    keys: ClassVar[tuple[Key, ...]] = (
        Key("listen", str, "127.0.0.1:9464", "where; whoever reaches it can read the page"),
        Key("max_series", int, 2000, "values that are kept; records of others are only counted"),
        Key(
            "expire",
            float,
            900.0,
            "forget a value after this many seconds without a record; 0 for never",
        ),
    )
    settings: Mapping[str, Any]

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        super().__init__(path, settings)
        try:
            self._address = parse_address(self.settings["listen"])
        except DebuggerError as error:
            raise SinkError(f"'listen' of a prometheus sink: {error}") from None
        if self._address.path:
            raise SinkError(
                "'listen' of a prometheus sink is host:port: Prometheus knows no sockets"
            )
        self._latest = LatestNumbers(self.settings["max_series"], self.settings["expire"])
        self.page: HttpPage | None = None

    def open(self) -> None:
        self.page = HttpPage(self._address, "/metrics", _CONTENT, self._text)

    def write(self, batch: Batch) -> None:
        self._latest.add(batch)

    def flush(self) -> None:
        if self.page and not self.page.alive:
            raise SinkError(f"the page at {self._address} has ended")

    def close(self) -> None:
        if self.page:
            self.page.close()
            self.page = None

    def _text(self) -> bytes:
        series, refused = self._latest.read()
        text = "".join(f"{line}\n" for line in exposition(series, refused))
        return text.encode("utf-8", "replace")


def exposition(series: list[Series], refused: int) -> Iterator[str]:
    labels = [_labels(one) for one in series]
    for name, doc in NUMBERS.items():
        metric = f"opstep_tap_{_RENAMED.get(name, name)}"
        yield from _about(metric, "gauge", doc)
        for text, one in zip(labels, series, strict=True):
            if name in one.numbers:
                yield f"{metric}{text} {_number(one.numbers[name])}"
    yield from _about("opstep_tap_records_total", "counter", "Records that were made.")
    for text, one in zip(labels, series, strict=True):
        yield f"opstep_tap_records_total{text} {one.records}"
    doc = "Records that are not shown, because there were max_series others."
    yield from _about("opstep_tap_unshown_records_total", "counter", doc)
    yield f"opstep_tap_unshown_records_total {refused}"


def _about(metric: str, kind: str, doc: str) -> Iterator[str]:
    yield f"# HELP {metric} {doc}"
    yield f"# TYPE {metric} {kind}"


def _labels(series: Series) -> str:
    pairs = zip(LABELS, series.labels, strict=True)
    return "{" + ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in pairs) + "}"


def _number(number: float) -> str:
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "+Inf" if number > 0 else "-Inf"
    return repr(number)
