"""`counts.json` of a collector that was killed: what it does not know, the log itself does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from harness.log_folder import FakeLog
from opstep_server.cli.log.log_table import told
from opstep_server.model import ExecutorJoined, ExecutorLost, ExecutorProcess, TapsChanged
from opstep_server.taps.log_files.counts import Counts, TapCount
from opstep_server.taps.log_files.tap_log import TapLog
from opstep_server.taps.report.report_data import collect
from opstep_server.taps.tap_reports import TapReports
from opstep_server.wire import debug_pb2 as pb


def written(directory: Path, **content: object) -> None:
    path = directory / "counts.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **content}))


def counts_of(directory: Path) -> list[Counts]:
    log = TapLog(directory)
    log.read_all()
    return [log.counts, collect(directory).counts]


def test_the_log_makes_old_counts_right_and_says_so(tmp_path: Path) -> None:
    # An earlier process, which is not counted here.
    FakeLog(tmp_path, sources=2, process="host:1").steps(5)
    log = FakeLog(tmp_path, sources=2)
    log.steps(10)
    log.counts(produced=9, delivered=4, waiting=2, rate=3)
    # As it was always written: nothing is known of its age.
    for counts in counts_of(tmp_path):
        assert (counts.total.delivered, counts.old) == (4, False)
    written(tmp_path, processes=[log.process], last=False)
    for counts in counts_of(tmp_path):
        assert counts.total == TapCount(23, 20, 0, {"rate": 3})
        assert counts.old
    reader = TapLog(tmp_path)
    reader.read_all()
    assert any("is not counted yet" in line for line in told(reader))
    # One that ended in order knows better.
    written(tmp_path, last=True)
    for counts in counts_of(tmp_path):
        assert (counts.total.delivered, counts.old) == (4, False)


def test_counts_are_the_last_ones_only_at_an_orderly_end(tmp_path: Path) -> None:
    async def run() -> None:
        reports = TapReports(lambda text: None)
        hello = pb.Hello(pid=1, identity="a", host="there")
        executor = ExecutorProcess(1, None, hello)  # type: ignore[arg-type]
        status = pb.TapStatus(uid="u", name="t", counts=pb.TapCounts(produced=3, delivered=3))
        reports.take(TapsChanged(executor, [status]))
        reports.write([str(tmp_path)])
        path = tmp_path / "counts.json"
        while not path.exists():
            await asyncio.sleep(0.01)
        first = json.loads(path.read_text())
        assert first["last"] is False
        assert first["processes"] == ["there:1"]
        await reports.write_last([str(tmp_path)])
        assert json.loads(path.read_text())["last"] is True
        # A process that was killed could not say its last counts.
        reports.take(ExecutorLost(executor, "the connection to process 1 was lost"))
        await reports.write_last([str(tmp_path)])
        assert json.loads(path.read_text())["last"] is False
        reports.take(ExecutorJoined(executor))
        reports.take(ExecutorLost(executor, ""))
        await reports.write_last([str(tmp_path)])
        assert json.loads(path.read_text())["last"] is True

    asyncio.run(run())
