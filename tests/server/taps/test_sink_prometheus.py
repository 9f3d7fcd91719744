"""The Prometheus sink, read back over HTTP with the parser of prometheus_client."""

from __future__ import annotations

import contextlib
import http.client
import math
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness.patience import SECONDS
from harness.tap_batches import CONV, NOON, batch, sink, source
from opstep_server.taps.records import STATISTICS, Extra
from opstep_server.taps.sinks.base import SinkError
from opstep_server.taps.sinks.prometheus import PrometheusSink

NONE = Path(os.devnull)
FREE = "127.0.0.1:0"


@contextlib.contextmanager
def listening(**settings: object) -> Iterator[PrometheusSink]:
    s = sink("prometheus", NONE, **{"listen": FREE, **settings})
    assert isinstance(s, PrometheusSink)
    s.open()
    try:
        yield s
    finally:
        s.close()


def port(s: PrometheusSink) -> int:
    assert s.page
    return s.page.port


def fetch(
    s: PrometheusSink, method: str = "GET", path: str = "/metrics"
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port(s), timeout=SECONDS)
    connection.request(method, path)
    response = connection.getresponse()
    response.body = response.read().decode()  # type: ignore[attr-defined]
    return response


def samples(s: PrometheusSink) -> dict[tuple[str, ...], float]:
    """(name, tap, op, variable, process, program) → value."""
    text = fetch(s).body  # type: ignore[attr-defined]
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("gauge", "counter")
        for sample in family.samples:
            key = (sample.name, *sample.labels.values())
            assert key not in found
            found[key] = sample.value
    return found


def shown(s: PrometheusSink, label: int) -> set[str]:
    return {key[label] for key in samples(s) if len(key) > 1}


LABELS = ("convs", "conv_0", "conv_0.out", "box:77", "main")


def test_the_last_numbers_are_shown():
    with listening() as s:
        s.write(batch([CONV] * 3, first=5, without=(2,)))
        s.flush()
        found = samples(s)
        response = fetch(s, path="/metrics?name=x")
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert {key[1:] for key in found} == {LABELS, ()}
    expected = {"min": 5, "max": 7, "mean": 6, "std": 0.5, "l2": 12, "nan": 0, "inf": 0, "zeros": 2}
    assert {name: found[(f"opstep_tap_{name}", *LABELS)] for name in expected} == expected
    assert set(expected) | {"count"} == set(STATISTICS)
    assert found[("opstep_tap_elements", *LABELS)] == 6
    assert found[("opstep_tap_step", *LABELS)] == 6
    when = found[("opstep_tap_last_record_timestamp_seconds", *LABELS)]
    assert when == pytest.approx(NOON / 1e9 + 0.001)
    assert found[("opstep_tap_records_total", *LABELS)] == 3
    assert found[("opstep_tap_unshown_records_total",)] == 0


def test_values_and_numbers_that_are_not_finite():
    made = batch([CONV] * 2, {1: Extra(value=2.5)}, without=(1,))
    made.statistics["mean"][0], made.statistics["max"][0] = math.nan, math.inf
    made.statistics["min"][0] = -math.inf
    with listening() as s:
        s.write(made)
        found = samples(s)
    assert math.isnan(found[("opstep_tap_mean", *LABELS)])
    assert found[("opstep_tap_max", *LABELS)] == math.inf
    assert found[("opstep_tap_min", *LABELS)] == -math.inf
    assert found[("opstep_tap_value", *LABELS)] == 2.5


def test_labels_are_escaped():
    strange = ['a"b', "a\\b", "a\nb", "a\\nb", 'x{y="z"} 1', "é ", ""]
    with listening() as s:
        s.write(batch([source(variable=name) for name in strange]))
        assert shown(s, 3) == set(strange)


def test_counters_go_on_and_survive_a_reopening():
    with listening() as s:
        s.write(batch([CONV] * 3))
        s.close()
        s.open()
        s.write(batch([CONV] * 2, {0: Extra(error="no")}, without=(0, 1)))
        found = samples(s)
    assert found[("opstep_tap_records_total", *LABELS)] == 5
    assert found[("opstep_tap_mean", *LABELS)] == 2


def test_series_are_bounded():
    with listening(max_series=3) as s:
        s.write(batch([source(op=f"op{number % 5}") for number in range(10)]))
        assert shown(s, 2) == {"op0", "op1", "op2"}
        assert samples(s)[("opstep_tap_unshown_records_total",)] == 4


def test_series_without_records_are_forgotten():
    with listening(expire=0.05, max_series=1) as s:
        s.write(batch([CONV]))
        while shown(s, 1):
            time.sleep(0.01)
        s.write(batch([source(tap="other")]))
        assert samples(s)[("opstep_tap_unshown_records_total",)] == 0


def test_other_requests():
    with listening() as s:
        assert (fetch(s, path="/").status, fetch(s, "POST").status) == (404, 405)
        head = fetch(s, "HEAD")
        assert head.status == 200
        assert int(head.headers["Content-Length"]) > 0
        assert raw(s, b"hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")
        large = raw(s, b"GET /metrics HTTP/1.1\r\nx: " + b"y" * 40_000 + b"\r\n\r\n")
        assert large.startswith(b"HTTP/1.1 431 ")


def raw(s: PrometheusSink, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port(s)), timeout=SECONDS) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        return client.makefile("rb").read()


def test_clients_that_say_nothing_or_read_nothing_hold_up_nobody(monkeypatch: pytest.MonkeyPatch):
    from opstep_server.taps.sinks import http_page

    monkeypatch.setattr(http_page, "_SECONDS", 1.0)
    with listening(max_series=20_000) as s:
        s.write(batch([source(op=f"op{number}") for number in range(5000)]))
        clients = [socket.create_connection(("127.0.0.1", port(s))) for _ in range(60)]
        for client in clients[:10]:
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        # Meanwhile the sink takes records, and when their time is over others are served again.
        s.write(batch([CONV] * 100))
        s.flush()
        for client in clients[10:]:
            client.settimeout(SECONDS)
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
        monkeypatch.setattr(
            http_page, "_SECONDS", SECONDS
        )  # the page is large, the machine may be busy
        assert 'opstep_tap_mean{tap="convs",op="conv_0",' in fetch(s).body  # type: ignore[attr-defined]
        for client in clients:
            client.close()


def test_closing_waits_for_no_client():
    with listening() as s:
        client = socket.create_connection(("127.0.0.1", port(s)))
        client.sendall(b"GET /met")
        s.close()
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
        client.close()


def test_an_address_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        s = sink("prometheus", NONE, listen=taken)
        with pytest.raises(SinkError) as error:
            s.open()
        s.close()
    assert str(error.value) == (
        f"nothing can listen at {taken} (Address already in use): choose another with 'listen'"
    )
    s.open()
    s.close()


@pytest.mark.parametrize(
    ("listen", "said"),
    [
        (":9464", "names no host: write 127.0.0.1:9464 for this machine only"),
        ("9464", "is not an address"),
        ("unix:/tmp/x", "is host:port"),
    ],
)
def test_addresses_must_be_said(listen: str, said: str):
    with pytest.raises(SinkError, match=said):
        sink("prometheus", NONE, listen=listen)


def test_ipv6():
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    with listening(listen="[::1]:0") as s:
        connection = http.client.HTTPConnection("::1", port(s), timeout=SECONDS)
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 200
