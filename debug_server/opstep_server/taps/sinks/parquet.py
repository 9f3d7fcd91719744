"""Parquet files, a folder a tap and day: `tap=convs/date=2026-03-01/part-….parquet`.

Records are first appended to a journal beside the future file, a stream of Arrow's format: it is
complete after every batch, a Parquet file only at its end. A journal that a crash left behind
becomes a Parquet file when the sink is opened again.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from opstep_server.taps.records import Batch, Extra, Source
from opstep_server.taps.sinks import files
from opstep_server.taps.sinks.base import Key, Sink, SinkError

_DAY = 86_400 * 10**9
_JOURNAL = ".arrows"
# Rows in one group of a Parquet file, which is in memory as a whole.
_GROUP = 16_384
# Seconds until a file that could not be finished is tried again.
_AGAIN = 5.0
# Numbers of this process's files.
_NUMBERS = itertools.count()
_INTEGERS = ("count", "nan", "inf", "zeros")
_REALS = ("min", "max", "mean", "std", "l2")
_NAMES = ("process", "program", "op", "type", "variable", "slot", "dtype", "file")
# Columns with a range for each group, so that readers can skip groups. Not for floating point: a
# range does not show NaN, and DuckDB would take `isnan(mean)` to be false everywhere.
_RANGES = ["time", "step", "iteration", "op", "variable", "process", *_INTEGERS]


@dataclass
class _Journal:
    file: files.Appended
    # When to finish it, even with few rows.
    due: float
    rows: int = 0


class ParquetSink(Sink):
    kind = "parquet"
    doc = (
        "Parquet files, a folder a tap and day, for pandas and DuckDB "
        "(SELECT * FROM 'DIR/**/*.parquet'). Full tensors are left out."
    )
    extra = "opstep-server[parquet]"
    module = "pyarrow"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("rows", int, 100_000, "the rows after which a file is finished and can be read"),
        Key("seconds", float, 60.0, "or the seconds after its first row"),
    )
    settings: Mapping[str, Any]

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        super().__init__(path, settings)
        for name in ("rows", "seconds"):
            if not self.settings[name] > 0:
                raise SinkError(f"'{name}' of a parquet sink must be greater than 0")
        self._journals: dict[tuple[str, int], _Journal] = {}
        self._failed = False

    def open(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self._failed = False
        for left in self.path.glob(f"tap=*/date=*/.part-*{_JOURNAL}"):
            files.sweep(left.parent)
            with contextlib.suppress(FileNotFoundError), left.open("rb") as opened:
                if files.lock(opened.fileno()):
                    _finish(left)

    def write(self, batch: Batch) -> None:
        with self._undoing():
            table = columns(batch)
            for key, rows in _partitions(batch):
                part = table if len(rows) == len(batch) else table.take(rows)
                journal = self._journal(key, table.schema)
                journal.file.append(part.serialize())
                journal.rows += len(rows)

    def flush(self) -> None:
        with self._undoing():
            for journal in self._journals.values():
                journal.file.keep()
        self._finish_due()

    def close(self) -> None:
        """Finishes all files; a file that cannot be finished is safe in its journal."""
        journals, self._journals = self._journals, {}
        try:
            for journal in journals.values():
                with contextlib.suppress(FileNotFoundError):
                    _finish(journal.file.path)
        except OSError:
            if not self._failed:
                raise
        finally:
            for journal in journals.values():
                journal.file.close()

    @contextlib.contextmanager
    def _undoing(self) -> Iterator[None]:
        """Drops unflushed records on an error; they count as lost."""
        try:
            yield
        except (OSError, SinkError):
            self._failed = True
            for journal in self._journals.values():
                journal.file.undo()
            raise

    def _journal(self, key: tuple[str, int], schema: Any) -> _Journal:
        if key not in self._journals:
            tap, day = key
            date = datetime.date(1970, 1, 1) + datetime.timedelta(days=day)
            now = datetime.datetime.now(datetime.timezone.utc)
            name = (
                f".part-{now:%Y%m%dT%H%M%SZ}-{files.safe_name(os.uname().nodename)}"
                f"-{os.getpid()}-{next(_NUMBERS):06d}{_JOURNAL}"
            )
            folder = self.path / f"tap={files.safe_name(tap)}" / f"date={date}"
            file = files.Appended(folder / name, new=True)
            self._journals[key] = _Journal(file, time.monotonic() + self.settings["seconds"])
            file.lock()
            file.begin(schema.serialize())
        return self._journals[key]

    def _finish_due(self) -> None:
        """Finishes due files that are flushed; they are safe and can be tried again later."""
        now = time.monotonic()
        for key, journal in list(self._journals.items()):
            if now < journal.due and journal.rows < self.settings["rows"]:
                continue
            try:
                _finish(journal.file.path)
            except OSError:
                journal.due, journal.rows = now + _AGAIN, 0
            else:
                del self._journals[key]
                journal.file.close()


def _finish(journal: Path) -> None:
    """Turns a journal into a Parquet file and removes it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = journal.name.removeprefix(".").removesuffix(_JOURNAL)
    target = journal.with_name(f"{name}.parquet")
    # If it exists, only the last step is missing.
    if not target.exists():
        with pa.memory_map(str(journal)) as opened:
            groups = _groups(opened)
            first = next(groups, None)
            if first is not None:
                options = {"compression": "zstd", "write_statistics": _RANGES}
                with (
                    files.whole(target, journal.parent) as file,
                    pq.ParquetWriter(file, first.schema, **options) as writer,
                ):
                    for group in itertools.chain([first], groups):
                        writer.write_table(group)
    journal.unlink()


def _groups(journal: Any) -> Iterator[Any]:
    """The complete groups of a journal: a crash may have cut its end off."""
    import pyarrow as pa

    waiting: list[Any] = []
    try:
        for batch in pa.ipc.open_stream(journal):
            waiting.append(batch)
            if sum(map(len, waiting)) >= _GROUP:
                yield pa.Table.from_batches(waiting)
                waiting = []
    except (pa.ArrowInvalid, OSError):
        pass
    if waiting:
        yield pa.Table.from_batches(waiting)


def _partitions(batch: Batch) -> list[tuple[tuple[str, int], npt.NDArray[np.int64]]]:
    """The records' indices by tap and day."""
    found: dict[tuple[str, int], list[int]] = {}
    days = (batch.time // _DAY).tolist()
    for index, (source, day) in enumerate(zip(batch.sources, days, strict=True)):
        found.setdefault((source.tap, day), []).append(index)
    return [(key, np.array(rows)) for key, rows in found.items()]


def columns(batch: Batch) -> Any:
    """The records as Arrow columns; the tap is the name of the folder."""
    import pyarrow as pa

    sources = {id(source): source for source in batch.sources}
    place = {identity: index for index, identity in enumerate(sources)}
    which = pa.array([place[id(source)] for source in batch.sources], pa.int64())

    def of_source(attribute: str, type: Any) -> Any:
        values = [_plain(source, attribute) for source in sources.values()]
        return pa.array(values, type).take(which)

    none = batch.statistics["count"] == 0
    made = {
        "time": pa.array(batch.time // 1000).cast(pa.timestamp("us", "UTC")),
        "step": pa.array(batch.step.astype(np.int64)),
        "iteration": pa.array(batch.iteration.astype(np.int64)),
        "thread": pa.array(batch.thread.astype(np.int64)),
        **{name: of_source(name, pa.string()) for name in _NAMES},
        "line": of_source("line", pa.int64()),
        "dims": of_source("dims", pa.list_(pa.int64())),
        "gradient": of_source("gradient", pa.bool_()),
    }
    for name in _INTEGERS:
        made[name] = pa.array(batch.statistics[name].astype(np.int64), mask=none)
    for name in _REALS:
        made[name] = pa.array(batch.statistics[name].astype(np.float64), mask=none)
    integers, reals = pa.list_(pa.int64()), pa.list_(pa.float64())
    histogram = pa.struct([("low", pa.float64()), ("high", pa.float64()), ("counts", integers)])
    samples = pa.struct([("positions", integers), ("values", reals)])
    others = {
        "histogram": (_histogram, histogram),
        "samples": (_samples, samples),
        "value": (_number, pa.float64()),
        "text": (_text, pa.string()),
        "error": (lambda extra: extra.error or None, pa.string()),
    }
    for name, (read, type) in others.items():
        made[name] = _sparse(len(batch), batch.extras, read, type)
    return pa.RecordBatch.from_pydict(made)


def _sparse(length: int, extras: Mapping[int, Extra], read: Any, type: Any) -> Any:
    import pyarrow as pa

    found = {index: read(extra) for index, extra in extras.items()}
    if all(value is None for value in found.values()):
        return pa.nulls(length, type)
    return pa.array([found.get(index) for index in range(length)], type)


def _plain(source: Source, attribute: str) -> object:
    value = getattr(source, attribute)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return list(value) if isinstance(value, tuple) else value


def _histogram(extra: Extra) -> object:
    if extra.histogram is None:
        return None
    counts: Iterable[int] = extra.histogram.counts
    return {"low": extra.histogram.low, "high": extra.histogram.high, "counts": counts}


def _samples(extra: Extra) -> object:
    if extra.samples is None:
        return None
    values = extra.samples.astype(np.float64)
    return {"positions": extra.positions, "values": values}


def _number(extra: Extra) -> object:
    return float(extra.value) if isinstance(extra.value, (bool, int, float)) else None


def _text(extra: Extra) -> object:
    return extra.value if isinstance(extra.value, str) else None
