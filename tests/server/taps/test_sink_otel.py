"""The OpenTelemetry sink, received and decoded as an OTLP collector does."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import math
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

from harness.patience import SECONDS
from harness.tap_batches import CONV, batch, opened, sink, source
from opstep_server.taps.records import STATISTICS, Extra
from opstep_server.taps.sinks.base import SinkError

NONE = Path(os.devnull)


class Receiver(http.server.ThreadingHTTPServer):
    """Takes metrics on a free port of this machine, and refuses when told to."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.status = 200
        self.received: list[ExportMetricsServiceRequest] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        known = self.path == "/v1/metrics"
        if known and self.headers["Content-Type"] == "application/x-protobuf":
            self.server.received.append(ExportMetricsServiceRequest.FromString(body))
        self.send_response(self.server.status if known else 404)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()
        self.wfile.write(ExportMetricsServiceResponse().SerializeToString())

    def log_message(self, *args: object) -> None:
        pass


@contextlib.contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    with Receiver(port) as receiver:
        thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def metrics(request: ExportMetricsServiceRequest) -> dict[str, Metric]:
    (resource,) = request.resource_metrics
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def test_the_last_numbers_are_sent(receiver: Receiver):
    made = batch([CONV] * 3, {2: Extra(value=2.5)}, first=5, without=(2,))
    made.statistics["max"][1], made.statistics["std"][1] = math.inf, math.nan
    with opened("otel", NONE, endpoint=receiver.endpoint, interval=0.0, service="mine") as s:
        s.write(made)
        s.flush()
        (request,) = receiver.received
        # Nothing is new.
        s.flush()
        assert len(receiver.received) == 1
        s.write(batch([CONV], first=9))
        s.flush()
    (attribute,) = (
        one for one in request.resource_metrics[0].resource.attributes if one.key == "service.name"
    )
    assert attribute.value.string_value == "mine"
    found = metrics(request)
    numbers = {*STATISTICS, "value", "step", "time"}
    assert set(found) == {f"opstep.tap.{name}" for name in numbers | {"records", "unshown_records"}}
    (point,) = found["opstep.tap.mean"].gauge.data_points
    assert point.as_double == 6
    assert {one.key: one.value.string_value for one in point.attributes} == {
        "tap": "convs",
        "op": "conv_0",
        "variable": "conv_0.out",
        "process": "box:77",
        "program": "main",
    }
    assert found["opstep.tap.max"].gauge.data_points[0].as_double == math.inf
    assert math.isnan(found["opstep.tap.std"].gauge.data_points[0].as_double)
    assert found["opstep.tap.zeros"].gauge.data_points[0].as_int == 2
    assert found["opstep.tap.value"].gauge.data_points[0].as_double == 2.5
    first = found["opstep.tap.records"].sum
    second = metrics(receiver.received[1])["opstep.tap.records"].sum
    assert first.is_monotonic
    assert first.aggregation_temporality == AggregationTemporality.Value(
        "AGGREGATION_TEMPORALITY_CUMULATIVE"
    )
    (one,), (two,) = first.data_points, second.data_points
    assert (one.as_int, two.as_int) == (3, 4)
    assert one.start_time_unix_nano == two.start_time_unix_nano < one.time_unix_nano
    assert one.time_unix_nano < two.time_unix_nano


def test_many_series_are_sent_and_no_more_than_allowed(receiver: Receiver):
    sources = [source(op=f"op{number}") for number in range(3500)]
    with opened("otel", NONE, endpoint=receiver.endpoint, max_series=3000) as s:
        s.write(batch(sources))
        s.flush()
    found = metrics(receiver.received[0])
    points = found["opstep.tap.mean"].gauge.data_points
    ops = {
        one.value.string_value for point in points for one in point.attributes if one.key == "op"
    }
    assert ops == {f"op{number}" for number in range(3000)}
    assert found["opstep.tap.unshown_records"].sum.data_points[0].as_int == 500


def test_exports_keep_their_interval(receiver: Receiver):
    with opened("otel", NONE, endpoint=receiver.endpoint, interval=1000.0) as s:
        for first in range(5):
            s.write(batch([CONV], first=first))
            s.flush()
        assert len(receiver.received) == 1
    # The end waits for nothing.
    assert [received_steps(request) for request in receiver.received] == [[0], [4]]


def received_steps(request: ExportMetricsServiceRequest) -> list[int]:
    return [point.as_int for point in metrics(request)["opstep.tap.step"].gauge.data_points]


def test_a_collector_that_refuses(receiver: Receiver, capfd: pytest.CaptureFixture[str]):
    s = sink("otel", NONE, endpoint=f"{receiver.endpoint}/v1/metrics", interval=1000.0)
    receiver.status = 400
    s.open()
    s.write(batch([CONV]))
    with pytest.raises(SinkError, match=r"/v1/metrics did not take the metrics: .*400"):
        s.flush()
    s.close()
    receiver.status = 200
    s.open()
    s.write(batch([CONV]))
    s.flush()
    s.close()
    assert metrics(receiver.received[-1])["opstep.tap.records"].sum.data_points[0].as_int == 2
    assert capfd.readouterr() == ("", "")


def test_a_collector_that_is_not_there_and_comes_back(capfd: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    s = sink("otel", NONE, endpoint=f"http://127.0.0.1:{port}", interval=0.0, timeout=0.2)
    s.open()
    s.write(batch([CONV]))
    with pytest.raises(SinkError, match=f":{port}/v1/metrics did not take the metrics: "):
        s.flush()
    s.close()
    s.settings["timeout"] = SECONDS
    with receiving(port) as receiver:
        s.open()
        s.write(batch([CONV]))
        s.flush()
        s.close()
        assert len(receiver.received) == 1
    assert capfd.readouterr() == ("", "")


def test_a_collector_that_never_answers():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        s = sink("otel", NONE, endpoint=endpoint, interval=0.0, timeout=0.2)
        s.open()
        s.write(batch([CONV]))
        with pytest.raises(SinkError, match="did not take the metrics"):
            s.flush()
        s.close()


@pytest.mark.parametrize("endpoint", ["", "127.0.0.1:4318", "ftp://x", "http://"])
def test_endpoints_are_checked(endpoint: str):
    with pytest.raises(SinkError, match=r"is not an endpoint: write http://host:4318"):
        sink("otel", NONE, endpoint=endpoint)
