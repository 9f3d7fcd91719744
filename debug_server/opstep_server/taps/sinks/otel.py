"""OpenTelemetry metrics, sent over OTLP/HTTP: the last numbers of every value that is tapped."""

from __future__ import annotations

import logging
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from opstep_server.taps.records import Batch
from opstep_server.taps.sinks.base import Key, Sink, SinkError
from opstep_server.taps.sinks.latest_numbers import LABELS, NUMBERS, LatestNumbers


class _Reason(logging.Handler):
    """Keeps the reason of a failure, which the exporter only writes to its log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


class OtelSink(Sink):
    kind = "otel"
    doc = (
        "Metrics for an OpenTelemetry collector (OTLP over HTTP): the last statistics and numbers "
        "as gauges opstep.tap.…, records as a sum."
    )
    extra = "opstep-server[otel]"
    module = "opentelemetry.exporter.otlp.proto.http"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("endpoint", str, "http://127.0.0.1:4318", "of the collector; /v1/metrics is added"),
        Key("interval", float, 10.0, "seconds from one export to the next"),
        Key("timeout", float, 2.0, "seconds that the collector has to take them"),
        Key("service", str, "opstep", "service.name of the metrics"),
        Key("max_series", int, 2000, "values that are kept; records of others are only counted"),
        Key(
            "expire",
            float,
            900.0,
            "forget a value after this many seconds without a record; 0: never",
        ),
    )
    settings: Mapping[str, Any]

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        super().__init__(path, settings)
        given = self.settings["endpoint"]
        url = urllib.parse.urlsplit(given)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise SinkError(f"'{given}' is not an endpoint: write http://host:4318")
        plain = url.path in ("", "/")
        self._endpoint = url._replace(path="/v1/metrics").geturl() if plain else given
        self._latest = LatestNumbers(self.settings["max_series"], self.settings["expire"])
        self._reason = _Reason()
        self._exporter: Any = None
        self._waiting = False
        # The time of the last export; long ago if there was none, or the last one failed.
        self._exported = float("-inf")

    def open(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.resources import Resource

        # Our handler also keeps the log off the terminal.
        logging.getLogger("opentelemetry").addHandler(self._reason)
        timeout = self.settings["timeout"]
        self._exporter = OTLPMetricExporter(endpoint=self._endpoint, timeout=timeout)
        self._resource = Resource.create({"service.name": self.settings["service"]})

    def write(self, batch: Batch) -> None:
        self._latest.add(batch)
        self._waiting = True

    def flush(self) -> None:
        if self._waiting and time.monotonic() - self._exported >= self.settings["interval"]:
            self._export()

    def close(self) -> None:
        """Sends new numbers once more, unless the last export failed."""
        if self._exporter is None:
            return
        try:
            if self._waiting:
                self._export()
        finally:
            exporter, self._exporter = self._exporter, None
            exporter.shutdown()
            logging.getLogger("opentelemetry").removeHandler(self._reason)

    def _export(self) -> None:
        from opentelemetry.sdk.metrics.export import MetricExportResult

        self._waiting = False
        self._reason.text = ""
        done = self._exporter.export(self._metrics()) is MetricExportResult.SUCCESS
        self._exported = time.monotonic() if done else float("-inf")
        if not done:
            why = self._reason.text or "no answer"
            raise SinkError(f"{self._endpoint} did not take the metrics: {why}")

    def _metrics(self) -> Any:
        from opentelemetry.sdk.metrics import export
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        series, refused = self._latest.read()
        now = time.time_ns()
        told = [dict(zip(LABELS, one.labels, strict=True)) for one in series]

        def sum_of(points: list[Any]) -> Any:
            whole = export.AggregationTemporality.CUMULATIVE
            return export.Sum(points, aggregation_temporality=whole, is_monotonic=True)

        metrics = []
        for name, doc in NUMBERS.items():
            points = [
                export.NumberDataPoint(labels, one.since, now, one.numbers[name])
                for labels, one in zip(told, series, strict=True)
                if name in one.numbers
            ]
            if points:
                unit = "s" if name == "time" else "1"
                metrics.append(export.Metric(f"opstep.tap.{name}", doc, unit, export.Gauge(points)))
        records = [
            export.NumberDataPoint(labels, one.since, now, one.records)
            for labels, one in zip(told, series, strict=True)
        ]
        doc = "Records that were made."
        metrics.append(export.Metric("opstep.tap.records", doc, "1", sum_of(records)))
        unsent = [export.NumberDataPoint({}, self._latest.since, now, refused)]
        doc = "Records of values beyond max_series."
        metrics.append(export.Metric("opstep.tap.unshown_records", doc, "1", sum_of(unsent)))
        scope = export.ScopeMetrics(InstrumentationScope("opstep.taps"), metrics, "")
        return export.MetricsData([export.ResourceMetrics(self._resource, [scope], "")])
