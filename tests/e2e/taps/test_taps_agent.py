"""Taps in the executor's process, beside a bare server: what they record, when, and accounts."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from harness.patience import SECONDS, until_async
from harness.tap_processes import finished, run, script, steps, tap, until_ended
from harness.tap_server import TapServer, adds_up, dropped
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e


def test_statistics_of_every_run(tmp_path: Path):
    server = TapServer([tap("fc_0*")])
    run(server, tmp_path, "20")
    names = {(s.program_name, s.op_name, s.variable, s.slot) for s in server.sources.values()}
    assert ("main", "fc_0.matmul", "fc_0.matmul.out", "out") in names
    assert ("main", "fc_0.matmul.grad", "fc_0.w@grad", "dY") in names
    counts = server.statuses["t"].counts
    assert adds_up(counts) and counts.waiting == 0 and dropped(counts) == 0
    assert counts.delivered == server.records["t"] == counts.produced > 0
    assert Counter(steps(server)).keys() >= set(range(1, 21))
    for batch in server.batches:
        assert len(batch.mean) == len(batch.source) == len(batch.l2)
        low, mean, high = (np.array(c) for c in (batch.min, batch.mean, batch.max))
        assert (low <= mean + 1e-6).all() and (mean <= high + 1e-6).all()
        assert (np.array(batch.count) > 0).all()
    source = next(s for s in server.sources.values() if s.op_name.startswith("fc_0"))
    assert source.line.file.endswith("tapped.py") and list(source.dims)


def test_results_are_those_without_taps(tmp_path: Path):
    plain = run(TapServer([]), tmp_path, "50")[0]
    everything = [
        tap("*", uid="a", inputs=True, outputs=True, histogram_bins=16, samples=5),
        tap("*", uid="b", full=True, every=7),
        tap("*", uid="c", value="step * 2"),
        tap("fc*", uid="d", value="norm(grad(fc_0.w)) / norm(fc_0.w)", condition="step % 3 == 0"),
    ]
    assert run(TapServer(everything, keep=False), tmp_path, "50")[0] == plain


def test_every_first_and_probability(tmp_path: Path):
    wanted = [
        tap("mean*", uid="every", every=10),
        tap("mean*", uid="first", first=3),
        tap("mean*", uid="chance", probability=0.25, seed=7),
        tap("mean*", uid="count", count=4),
        tap("mean*", uid="off", disabled=True),
        tap("mean*", uid="when", condition="step % 20 == 1"),
    ]
    server = TapServer(wanted)
    run(server, tmp_path, "200")
    by: dict[str, set[int]] = {}
    for batch in server.batches:
        for source, step in zip(batch.source, batch.step, strict=True):
            by.setdefault(server.sources[source].tap, set()).add(step)
    assert by["every"] == set(range(10, 201, 10))
    assert by["first"] == {1, 2, 3}
    assert 25 < len(by["chance"]) < 80
    assert server.records["count"] == 4
    assert "off" not in by
    assert by["when"] == set(range(1, 200, 20))
    assert "4 records" in server.statuses["count"].ended
    again = TapServer([tap("mean*", uid="chance", probability=0.25, seed=7)])
    run(again, tmp_path, "200")
    assert set(steps(again)) == by["chance"]


def test_the_first_runs_are_counted_once_whatever_else_is_set(tmp_path: Path):
    server = TapServer([])

    async def during() -> None:
        first = tap("mean*", first=3)
        for number in range(5):
            others = [tap("relu", uid=f"other {i}", first=1) for i in range(number + 1)]
            wanted = pb.SetTaps(server="test", taps=[first, *others])
            await server.ask(pb.Command(set_taps=wanted))
            # Runs were made with these.
            await until_async(
                lambda uid=f"other {number}": server.records[uid] > 0 and server.records["t"] > 0
            )

    run(server, tmp_path, "1", during=during)
    names = [server.sources[source].op_name for batch in server.batches for source in batch.source]
    assert len(set(steps(server, "mean_0"))) == 3, Counter(names)


def test_a_rate_is_kept_and_what_is_beyond_it_counted(tmp_path: Path):
    server = TapServer([tap("mean*", per_second=20)])
    began = time.monotonic()

    async def during() -> None:
        await until_async(lambda: server.records["t"] >= 40)
        while not (await server.listed())["t"].counts.rate:
            await asyncio.sleep(0.02)

    run(server, tmp_path, "1", during=during)
    counts = server.statuses["t"].counts
    assert adds_up(counts) and counts.rate > 0
    # In the first moment it may make as many as in a second.
    assert 40 <= counts.delivered <= 20 * (time.monotonic() - began + 2)


def test_histograms_samples_and_whole_tensors(tmp_path: Path):
    wanted = tap("fc_1*", histogram_bins=8, samples=6, full=True)
    server = TapServer([wanted])
    run(server, tmp_path, "3")
    seen = 0
    for batch in server.batches:
        for extra in batch.extras:
            source = server.sources[batch.source[extra.record]]
            if source.dtype != 1 and len(extra.tensor.data) % 4:
                continue
            values = np.frombuffer(extra.tensor.data, np.float32)
            assert extra.total_bytes == values.nbytes == 4 * np.prod(list(extra.tensor.dims))
            assert sum(extra.histogram.counts) == values.size
            if extra.histogram.low < extra.histogram.high:
                edges = np.histogram(values, 8, (extra.histogram.low, extra.histogram.high))[0]
                np.testing.assert_array_equal(edges, list(extra.histogram.counts))
            at = list(extra.samples.positions)
            assert at == sorted(set(at)) and len(at) == min(6, values.size)
            np.testing.assert_array_equal(np.frombuffer(extra.samples.data, np.float32), values[at])
            assert batch.mean[extra.record] == pytest.approx(
                values.mean(dtype=np.float64), abs=1e-6
            )
            assert batch.l2[extra.record] == pytest.approx(
                np.linalg.norm(values.astype(np.float64))
            )
            seen += 1
    assert seen >= 9


def test_a_large_tensor_comes_in_pieces(tmp_path: Path):
    server = TapServer([tap("tanh", uid="t", statistics=False, full=True)])
    arguments = ("large", str(tmp_path / "r.npz"))
    # Room for the tensors of both runs.
    run(server, tmp_path, *arguments, name="editing.py", OPSTEP_TAP_QUEUE="64MB")
    assert server.batches
    for batch in server.batches:
        total = batch.extras[0].total_bytes
        assert total == 2048 * 2048 * 4 and list(batch.source) == [batch.source[0]]
        pieces = [piece for piece in server.pieces if piece.batch == batch.batch]
        assert [piece.offset for piece in pieces] == list(range(0, total, 1 << 20))
        values = np.frombuffer(b"".join(piece.data for piece in pieces), np.float32)
        assert values.nbytes == total and 0 <= values.min() <= values.max() < 1
    counts = server.statuses["t"].counts
    assert adds_up(counts) and counts.delivered == counts.produced


def test_values_and_variables(tmp_path: Path):
    variable = tap(uid="variable")
    variable.where.data.variable = "fc_0.w"
    gradient = tap(uid="gradient", gradient_of=True)
    gradient.where.data.variable = "fc_0.w"
    value = tap("mean*", uid="value", value="step * 2")
    part = tap("fc_1*", uid="part", value="out[0, :2]", full=True)
    server = TapServer([variable, gradient, value, part])
    run(server, tmp_path, "5")
    by: dict[str, list[pb.TapSource]] = {}
    for source in server.sources.values():
        by.setdefault(source.tap, []).append(source)
    assert by.get("value"), server.statuses
    extras = [
        extra.value
        for batch in server.batches
        for extra in batch.extras
        if server.sources[batch.source[extra.record]].tap == "value"
    ]
    assert [v.i for v in extras[::3]] == [2, 4, 6, 8, 10]
    assert {s.variable for s in by["variable"]} == {"fc_0.w"}
    assert {s.variable for s in by["gradient"]} == {"fc_0.w@grad"}
    for batch in server.batches:
        for extra in batch.extras:
            if server.sources[batch.source[extra.record]].tap == "part" and not extra.error:
                assert list(extra.tensor.dims) == [2]


def test_a_pattern_that_matches_nothing_says_so(tmp_path: Path):
    server = TapServer([tap("fd_0*")])
    run(server, tmp_path, "3")
    status = server.statuses["t"]
    assert status.op_count == 0
    assert "no op matches 'fd_0*'" in status.message and "nearest: fc_0" in status.message


def test_set_changed_and_removed_while_running(tmp_path: Path):
    server = TapServer([])

    async def during() -> None:
        async def put(*taps: pb.Tap) -> dict[str, pb.TapStatus]:
            wanted = pb.SetTaps(server="test", taps=taps)
            reply = await server.ask(pb.Command(set_taps=wanted))
            return {status.uid: status for status in reply.taps.statuses}

        await put(tap("mean*"))
        await until_async(lambda: server.records["t"] >= 50)
        before = (await server.listed())["t"].counts.produced
        await put(tap("mean*", every=1000))
        assert (await server.listed())["t"].counts.produced >= before
        await put()
        assert not await server.listed()
        # What had gathered comes before the records of another one.
        await put(tap("mean*", uid="next"))
        await until_async(lambda: server.records["next"] > 0)
        seen = server.records["t"]
        await until_async(lambda: server.records["next"] > 100)
        assert server.records["t"] == seen
        reply = await server.ask(pb.Command(list_taps=pb.ListTaps()))
        assert [line.split('"did": "')[1].split('"')[0] for line in reply.taps.audit] == [
            *("set", "changed", "removed", "set")
        ]

    run(server, tmp_path, "1", during=during)


def test_records_that_no_sink_takes_are_counted(tmp_path: Path):
    server = TapServer([tap()], answer=lambda records: dict(Counter(records.source)))
    run(server, tmp_path, "30")
    counts = server.statuses["t"].counts
    assert adds_up(counts) and counts.sink == counts.produced > 0 and counts.delivered == 0


def test_a_server_that_never_answers(tmp_path: Path):
    server = TapServer([tap()], answer=lambda records: None, keep=False)
    _, err = run(server, tmp_path, "3000", OPSTEP_TAP_QUEUE="1MB")
    counts = server.statuses["t"].counts
    assert adds_up(counts) and counts.waiting == 0
    assert counts.queue_full > 0 and counts.at_exit > 0 and counts.delivered == 0
    assert f"{counts.at_exit} tap records may be lost" in err


def test_a_server_that_is_killed_and_comes_back(tmp_path: Path):
    """What it had not confirmed is counted; the taps stay and go on with the next one."""

    async def main() -> None:
        first = TapServer([tap("mean*")])
        second = TapServer([tap("mean*")])
        for server in (first, second):
            server.here, server.gone = asyncio.Event(), asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            down = contextlib.AsyncExitStack()
            address = await down.enter_async_context(first.at(tmp_path / "s"))
            end = tmp_path / "until"
            process = await stack.enter_async_context(script(address, "1", str(end)))
            await asyncio.wait_for(first.here.wait(), SECONDS)
            await until_async(lambda: first.records["t"] >= 20)
            await down.aclose()
            (tmp_path / "s").unlink(missing_ok=True)
            await stack.enter_async_context(second.at(tmp_path / "s"))
            await until_async(lambda: second.records["t"] >= 20)
            end.touch()
            out, _ = await finished(process)
            await asyncio.wait_for(second.gone.wait(), SECONDS)
        counts = second.statuses["t"].counts
        assert adds_up(counts) and counts.waiting == 0
        assert counts.delivered + counts.unconfirmed >= first.records["t"] + second.records["t"]
        assert counts.delivered <= first.records["t"] + second.records["t"]
        assert second.records["t"] > 0
        # It never stopped counting: each run of the program made its three records.
        assert counts.produced == 3 * int(out.split()[1])

    asyncio.run(main())


def test_a_tap_ends_with_its_server_when_asked(tmp_path: Path):
    async def main() -> None:
        first = TapServer([tap("mean*", uid="goes", with_server=True), tap("mean*", uid="stays")])
        second = TapServer([], name="another")
        for server in (first, second):
            server.here, server.gone = asyncio.Event(), asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            down = contextlib.AsyncExitStack()
            address = await down.enter_async_context(first.at(tmp_path / "s"))
            await stack.enter_async_context(script(address, "1", str(tmp_path / "never")))
            await asyncio.wait_for(first.here.wait(), SECONDS)
            await until_async(lambda: min(first.records["goes"], first.records["stays"]) >= 5)
            await down.aclose()
            (tmp_path / "s").unlink(missing_ok=True)
            await stack.enter_async_context(second.at(tmp_path / "s"))
            await asyncio.wait_for(second.here.wait(), SECONDS)
            taps = await second.listed()
            assert list(taps) == ["stays"]
            drop = pb.Command(drop_taps=pb.DropTaps(uids=["stays"], who="me"))
            assert not (await second.ask(drop)).taps.statuses

    asyncio.run(main())


def test_seconds_and_a_date_end_a_tap(tmp_path: Path):
    wanted = [
        tap("mean*", uid="seconds", seconds=1),
        tap("mean*", uid="hour", seconds=3600),
        tap("mean*", uid="date", until=time.time() - 1),
    ]
    server = TapServer([tap("relu", uid="running", first=1)])

    async def during() -> None:
        # Set when runs are made.
        await until_async(lambda: server.records["running"] > 0)
        await server.ask(pb.Command(set_taps=pb.SetTaps(server="test", taps=wanted)))
        await until_ended(server, "seconds")()
        await until_async(lambda: server.records["hour"] > 0)

    run(server, tmp_path, "1", during=during)
    assert "1 s are over" in server.statuses["seconds"].ended
    assert "it was set until" in server.statuses["date"].ended
    assert not server.statuses["hour"].ended and server.records["date"] == 0


def test_a_tap_that_is_removed_and_set_again_counts_anew(tmp_path: Path):
    server = TapServer([])

    async def during() -> None:
        async def put(*taps: pb.Tap) -> None:
            await server.ask(pb.Command(set_taps=pb.SetTaps(server="test", taps=taps)))

        for _ in range(2):
            before = server.records["t"]
            await put(tap("mean_0", first=3))
            await until_async(lambda before=before: server.records["t"] >= before + 3)
            while (counts := (await server.listed())["t"].counts).delivered < 3:
                await asyncio.sleep(0.02)
            assert adds_up(counts) and counts.produced == counts.delivered == 3
            await put()

    run(server, tmp_path, "1", during=during)


def test_a_rate_leaves_the_count_to_what_is_recorded(tmp_path: Path):
    server = TapServer([tap("mean_0", count=15, per_second=10)])
    run(server, tmp_path, "1", during=until_ended(server, "t"))
    assert server.statuses["t"].counts.delivered == 15


def test_many_shapes_have_one_source_for_each_value(tmp_path: Path):
    server = TapServer([tap("add")])
    run(server, tmp_path, "50", name="shapes.py")
    assert len(server.sources) <= 4
    (dims,) = {tuple(source.dims) for source in server.sources.values()}
    assert dims == (-1, 3)
    assert set(Counter(n for batch in server.batches for n in batch.count)) == {
        3 * rows for rows in range(1, 51)
    }
