"""Sinks behind their queues: slow, stalled, failing and crashing ones, and what is counted."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from harness.patience import SECONDS, until_async
from harness.tap_records import batch
from opstep_server.taps import sink_pipe as pipe_module
from opstep_server.taps.records import Batch
from opstep_server.taps.sink_router import SinkRouter
from opstep_server.taps.sinks.base import Sink


@pytest.fixture(autouse=True)
def no_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a sink may stand still for a while."""
    monkeypatch.setattr(pipe_module, "STALL_SECONDS", SECONDS)


class Memory(Sink):
    """Keeps what it is given; does what the test says before that."""

    kind = "memory"
    doc = "for tests"

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        super().__init__(Path(), {})
        self.before = before
        self.records = 0
        self.unsafe = 0
        self.opened = 0
        self.closed = 0

    def open(self) -> None:
        self.opened += 1

    def write(self, batch: Batch) -> None:
        self.before()
        self.unsafe += len(batch)

    def flush(self) -> None:
        self.records += self.unsafe
        self.unsafe = 0

    def close(self) -> None:
        self.unsafe = 0
        self.closed += 1


class Bench:
    def __init__(self, memory: int = 1 << 20, **sinks: Sink) -> None:
        self.told: list[str] = []
        self.pipes = SinkRouter(self.told.append, memory)
        for name, sink in sinks.items():
            self.pipes.add(name, sink)
        self.put = self.lost = self.settled = 0

    def send(self, records: int = 4) -> None:
        self.put += 1

        def settled(lost: np.ndarray) -> None:
            self.settled += 1
            self.lost += int(lost.sum())

        self.pipes.put(batch(records), settled)

    async def until(self, condition: Callable[[], bool], seconds: float = SECONDS) -> None:
        await until_async(condition, seconds)

    async def all_settled(self) -> None:
        await self.until(lambda: self.settled == self.put)


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(work())  # type: ignore[arg-type]


def test_a_batch_is_settled_when_it_is_safe() -> None:
    async def work() -> None:
        sink = Memory()
        bench = Bench(main=sink)
        for _ in range(100):
            bench.send()
        await bench.all_settled()
        assert (sink.records, bench.lost) == (400, 0)
        assert bench.pipes.counts["main"].taken == 400
        await bench.pipes.close()
        assert (sink.opened, sink.closed) == (1, 1)

    run(work)


def test_nothing_is_settled_before_it_is_flushed() -> None:
    async def work() -> None:
        flushes, may_flush = threading.Event(), threading.Event()

        class Late(Memory):
            def flush(self) -> None:
                flushes.set()
                may_flush.wait(SECONDS)
                super().flush()

        sink = Late()
        bench = Bench(main=sink)
        bench.send()
        await bench.until(flushes.is_set)
        # Whatever the sink's thread said before that has been heard after a turn of the loop.
        await asyncio.sleep(0)
        assert (sink.unsafe, bench.settled) == (4, 0)
        may_flush.set()
        await bench.all_settled()
        await bench.pipes.close()

    run(work)


def test_without_a_sink_all_is_lost_at_once() -> None:
    async def work() -> None:
        bench = Bench()
        bench.send()
        assert (bench.settled, bench.lost) == (1, 4)

    run(work)


def test_a_sink_that_fails_is_told_once_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_module, "RETRY_SECONDS", (0.01, 0.05))

    async def work() -> None:
        full = True

        def before() -> None:
            if full:
                raise OSError(28, "No space left on device")

        sink = Memory(before)
        bench = Bench(main=sink)
        while sink.opened < 3:
            bench.send()
            await bench.all_settled()
        assert bench.lost == 4 * bench.put
        (said,) = bench.told
        assert said.startswith("sink main: No space left on device: 4 records lost so far, trying")
        full = False
        lost = bench.lost
        while not sink.records:
            lost = bench.lost
            bench.send()
            await bench.all_settled()
        await bench.until(lambda: len(bench.told) == 2)
        assert bench.told[1] == f"sink main: writing again, {lost:,} records were lost"
        assert (sink.records, bench.lost) == (4, lost)
        await bench.pipes.close()

    run(work)


def test_a_sink_that_works_now_and_then_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_module, "RETRY_SECONDS", (0.0, 0.0))

    async def work() -> None:
        calls = 0

        def before() -> None:
            nonlocal calls
            calls += 1
            if calls % 2:
                raise OSError(28, "No space left on device")

        bench = Bench(main=Memory(before))
        for _ in range(20):
            bench.send()
            await bench.all_settled()
        assert bench.lost == 40
        assert len(bench.told) == 2
        await bench.pipes.close()

    run(work)


def test_what_was_not_flushed_is_lost_with_a_failure() -> None:
    async def work() -> None:
        class Breaks(Memory):
            def flush(self) -> None:
                raise RuntimeError("it broke\nin two")

        sink = Breaks()
        bench = Bench(main=sink)
        bench.send()
        bench.send()
        await bench.until(lambda: bench.settled >= 1)
        await bench.pipes.close()
        await bench.all_settled()
        assert bench.lost == 8
        assert bench.told[0].startswith("sink main: it broke: ")

    run(work)


def test_a_stalled_sink_is_gone_on_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_module, "STALL_SECONDS", 0.1)

    async def work() -> None:
        goes_on = threading.Event()
        sink = Memory(lambda: goes_on.wait(SECONDS) and None)
        bench = Bench(main=sink)
        for _ in range(10):
            bench.send()
        await bench.all_settled()
        assert bench.lost == 40
        (said,) = bench.told
        assert said == "sink main: it has not moved for 0.1 s: 40 records lost so far, trying on"
        bench.send()
        assert (bench.settled, bench.lost) == (11, 44)
        monkeypatch.setattr(pipe_module, "STALL_SECONDS", SECONDS)
        goes_on.set()
        await bench.until(lambda: len(bench.told) == 2)
        # What it did take in the end is not counted again.
        assert bench.pipes.counts["main"].taken == 0
        bench.send()
        await bench.all_settled()
        assert bench.lost == 44
        assert bench.pipes.counts["main"].taken == 4
        await bench.pipes.close()

    run(work)


def test_one_sink_does_not_wait_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        goes_on = threading.Event()
        stuck, good = Memory(lambda: goes_on.wait(SECONDS) and None), Memory()
        bench = Bench(stuck=stuck, good=good)
        for _ in range(20):
            bench.send()
        await bench.all_settled()
        assert (bench.lost, good.records, stuck.records) == (0, 80, 0)
        goes_on.set()
        await bench.until(lambda: stuck.records == 80)
        await bench.pipes.close()

    run(work)


def test_memory_is_bounded_and_a_slow_sink_is_told_once() -> None:
    async def work() -> None:
        goes_on = threading.Event()
        sink = Memory(lambda: goes_on.wait(SECONDS) and None)
        size = batch(4).bytes
        bench = Bench(memory=size * 10, main=sink)
        for _ in range(50):
            bench.send()
        assert bench.lost == 160
        assert bench.told == ["sink main: it is too slow: 4 records lost so far"]
        goes_on.set()
        await bench.all_settled()
        assert (bench.lost, sink.records) == (160, 40)
        await bench.pipes.close()

    run(work)


def test_closing_flushes_and_does_not_wait_for_ever() -> None:
    async def work() -> None:
        goes_on = threading.Event()
        sink, stuck = Memory(), Memory(lambda: goes_on.wait(SECONDS) and None)
        bench, other = Bench(main=sink), Bench(main=stuck)
        for _ in range(10):
            bench.send()
            other.send()
        await bench.pipes.close(SECONDS)
        assert (sink.records, bench.lost, bench.settled) == (40, 0, 10)
        await other.pipes.close(0.1)  # Returns, although the sink is stuck.
        assert (other.settled, other.lost) == (10, 40)
        goes_on.set()

    run(work)


def test_what_one_sink_could_not_write_by_the_end_is_said_though_another_did() -> None:
    async def work() -> None:
        goes_on = threading.Event()
        good, stuck = Memory(), Memory(lambda: goes_on.wait(SECONDS) and None)
        bench = Bench(good=good, stuck=stuck)
        for _ in range(10):
            bench.send()
        await bench.all_settled()
        await bench.pipes.close(0.1)
        assert (bench.lost, good.records) == (0, 40)
        assert bench.told == ["sink stuck: it was too slow to write the last 40 records"]
        goes_on.set()

    run(work)


def test_records_go_to_the_sinks_of_their_taps() -> None:
    async def work() -> None:
        one, two = Memory(), Memory()
        bench = Bench(one=one, two=two)
        bench.pipes.route({"u": ("two",)})
        bench.send()
        await bench.all_settled()
        assert (one.records, two.records, bench.lost) == (0, 4, 0)
        bench.pipes.route({"u": ("nowhere",)})
        bench.send()
        await bench.all_settled()
        assert bench.lost == 4
        await bench.pipes.close()

    run(work)


@pytest.mark.slow
def test_a_million_records_are_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_module, "RETRY_SECONDS", (0.001, 0.01))

    async def work() -> None:
        rng = np.random.default_rng(0)

        def sometimes() -> None:
            chance = rng.random()
            if chance < 0.1:
                raise OSError(28, "No space left on device")
            if chance < 0.2:
                time.sleep(0.001)

        sink = Memory(sometimes)
        bench = Bench(memory=batch(1000).bytes * 5, main=sink)
        for number in range(1000):
            bench.send(1000)
            if number % 3 == 0:
                await asyncio.sleep(0.001)
        await bench.all_settled()
        assert sink.records + bench.lost == 1_000_000
        assert bench.pipes.counts["main"].taken == sink.records
        assert bench.lost > 0
        await bench.pipes.close()

    run(work)
