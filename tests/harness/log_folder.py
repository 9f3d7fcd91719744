"""Directories of tap logs, as the JSON lines sink writes them, made without a run."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

BEGIN = datetime(2026, 11, 16, 12, 0, 0, tzinfo=timezone.utc)
BINS = 16


@dataclass
class FakeLog:
    """Each source is an op with one output; at each step every source gets a record."""

    directory: Path
    sources: int = 4
    process: str = "host:4711"
    tap: str = "all"
    histograms: bool = False
    # The next step.
    step: int = 0
    file: str = "records-000001.jsonl"
    # Names by index, instead of the default ones.
    ops: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.directory / "sources.jsonl", "a") as file:
            for index in range(self.sources):
                file.write(json.dumps(self.source(index)) + "\n")

    def op(self, index: int) -> str:
        return self.ops.get(index, f"fc_{index}.matmul")

    def variable(self, index: int) -> str:
        return f"{self.ops[index]}.out" if index in self.ops else f"fc_{index}.out"

    def type(self, index: int) -> str:
        return re.sub(r"_\d+$", "", self.op(index).split(".")[-1])

    def source(self, index: int) -> dict[str, Any]:
        return {
            "source": index, "tap": self.tap, "program": "main", "op": self.op(index),
            "type": self.type(index), "variable": self.variable(index), "slot": "Out",
            "dtype": "float32", "dims": [128, 10], "file": "/home/me/train.py",
            "line": 10 + index, "gradient": False, "process": self.process,
        }  # fmt: skip

    def record(self, index: int, **changes: Any) -> dict[str, Any]:
        """The record of source `index` at this step; a change to None leaves a key out."""
        mean = math.sin((self.step + 7 * index) / 10) + index
        record = {
            "time": (BEGIN + timedelta(seconds=self.step, microseconds=index)).isoformat(
                timespec="microseconds"
            ).replace("+00:00", "Z"),
            "tap": self.tap, "program": "main", "op": self.op(index), "type": self.type(index),
            "variable": self.variable(index), "step": self.step, "iteration": 0, "thread": 1,
            "count": 1280, "min": mean - 3, "max": mean + 3, "mean": mean, "std": 1 + index / 8,
            "l2": 36.0 + index, "nan": 0, "inf": 0, "zeros": 64, "process": self.process,
            "file": "/home/me/train.py", "line": 10 + index,
        }  # fmt: skip
        if self.histograms:
            record["histogram"] = {"low": mean - 3, "high": mean + 3, "counts": _bell(self.step)}
        record.update(changes)
        return {key: value for key, value in record.items() if value is not None}

    def steps(self, count: int, **changes: Any) -> None:
        """Writes this many more steps of all sources."""
        self.append("".join(self._lines(count, changes)))

    def append(self, text: str) -> None:
        with open(self.directory / self.file, "a") as file:
            file.write(text)

    def add(self, index: int, **changes: Any) -> None:
        """Writes one record of one source."""
        self.append(json.dumps(self.record(index, **changes)) + "\n")

    def counts(self, **counts: int) -> None:
        content = {"time": "2026-11-16T12:00:00Z", "taps": {self.tap: counts}}
        (self.directory / "counts.json").write_text(json.dumps(content))

    def _lines(self, count: int, changes: dict[str, Any]) -> Iterator[str]:
        for _ in range(count):
            for index in range(self.sources):
                yield json.dumps(self.record(index, **changes)) + "\n"
            self.step += 1


def _bell(step: int) -> list[int]:
    middle = BINS / 2 + 3 * math.sin(step / 20)
    return [round(200 * math.exp(-(((at - middle) / 3) ** 2))) for at in range(BINS)]


_NETWORK = (
    "conv_0.conv2d", "conv_0.relu", "conv_1.conv2d", "conv_1.relu", "pool_0", "fc_0.matmul",
    "fc_0.add", "fc_0.relu", "fc_1.matmul", "fc_1.add", "softmax_0", "loss_0.log", "loss_0.mean",
)  # fmt: skip


def network(directory: Path) -> FakeLog:
    """A log that looks like training: large values become smaller, and the last is a NaN."""
    log = FakeLog(
        directory, len(_NETWORK), tap="layers", histograms=True, ops=dict(enumerate(_NETWORK))
    )
    for step in range(0, 400, 5):
        log.step = step
        for index, op in enumerate(_NETWORK):
            calm = math.exp(-step / (60 + 20 * index))
            mean = (index % 5 - 1.5) * calm + 0.05 * math.sin(step * (index + 3) / 60)
            std = 0.3 + 0.2 * index * calm + 0.03 * math.cos(step * (index + 2) / 50)
            low, high = mean - 3 * std, mean + 3.4 * std
            found: dict[str, Any] = {
                "mean": mean, "std": std, "min": 0.0 if "relu" in op else low, "max": high,
                "l2": 36 * math.hypot(mean, std), "zeros": 512 if "relu" in op else 0,
                "histogram": {"low": low, "high": high, "counts": _bell(step)},
            }  # fmt: skip
            if op == "loss_0.log" and step > 385:
                found |= {"nan": 3, "mean": "NaN", "min": "-Infinity", "inf": 1}
            log.add(index, **found)
    log.step += 1
    log.counts(produced=1045, delivered=1040, rate=5)
    return log
