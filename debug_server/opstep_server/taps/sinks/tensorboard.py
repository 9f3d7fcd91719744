"""TensorBoard's event files: a run for each program of a process, a tag for each statistic."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import struct
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from opstep_server.taps.records import STATISTICS, Batch, Extra, Source
from opstep_server.taps.sinks.base import Key, Sink, SinkError
from opstep_server.taps.sinks.checksums import masked
from opstep_server.taps.sinks.files import Appended, safe_name

Array = npt.NDArray[np.generic]
# The most files that are kept open.
_MOST_OPEN = 64
# Numbers of this process's files.
_NUMBERS = itertools.count()


class TensorboardSink(Sink):
    kind = "tensorboard"
    doc = (
        "Event files for TensorBoard: statistics and numbers as scalars, histograms, "
        "and full tensors that look like images. Samples and errors are left out."
    )
    extra = "opstep-server[tensorboard]"
    module = "tensorboard"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("rotate_bytes", bytes, 256 << 20, "begin another event file after this many bytes"),
        Key("images", int, 4, "how many images of a full tensor [N, C, H, W]; 0 for none at all"),
        Key("image_side", int, 512, "images with more pixels a side are thinned out to this"),
    )

    settings: Mapping[str, Any]

    def __init__(self, path: Path, settings: Mapping[str, object]) -> None:
        super().__init__(path, settings)
        # By run, in the order of the last write, oldest first.
        self._files: OrderedDict[str, Appended] = OrderedDict()
        # Full files that are not flushed yet.
        self._full: list[Appended] = []

    def open(self) -> None:
        # Imported here, because it takes a while.
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._event, self._summary = Event, Summary
        self.path.mkdir(parents=True, exist_ok=True)

    def write(self, batch: Batch) -> None:
        events: dict[str, list[bytes]] = {}
        runs, tags = _names(batch)
        columns = [batch.statistics[name].tolist() for name in STATISTICS]
        rows = zip(batch.step.tolist(), (batch.time / 1e9).tolist(), *columns, strict=True)
        for index, (step, seconds, *numbers) in enumerate(rows):
            source = id(batch.sources[index])
            tag = tags[source]
            found = [self._scalar(t, n) for t, n in zip(tag, numbers, strict=True) if numbers[0]]
            if index in batch.extras:
                base = tag[0].rpartition("/")[0]
                found += self._extra(base, batch.extras[index], numbers)
            if found:
                summary = self._summary(value=found)
                event = self._event(wall_time=seconds, step=step, summary=summary)
                events.setdefault(runs[source], []).append(event.SerializeToString())
        with self._undoing():
            for run, made in events.items():
                self._file(run).append(_framed(made))

    def flush(self) -> None:
        with self._undoing():
            for file in (*self._full, *self._files.values()):
                file.keep()
        self._close(self._full)
        self._full.clear()

    def close(self) -> None:
        self._close([*self._full, *self._files.values()])
        self._full.clear()
        self._files.clear()

    @contextlib.contextmanager
    def _undoing(self) -> Iterator[None]:
        """Drops unflushed records on an error; they count as lost."""
        try:
            yield
        except (OSError, SinkError):
            for file in (*self._full, *self._files.values()):
                file.undo()
            raise

    def _close(self, files: list[Appended]) -> None:
        for file in files:
            file.close()

    def _file(self, run: str) -> Appended:
        file = self._files.pop(run, None)
        if file and file.size >= self.settings["rotate_bytes"]:
            self._full.append(file)
            file = None
        if file is None:
            # TensorBoard reads the files of a run in the order of their names.
            name = (
                f"events.out.tfevents.{int(time.time()):010d}."
                f"{safe_name(os.uname().nodename)}.{os.getpid()}.{next(_NUMBERS):06d}"
            )
            file = self._files[run] = Appended(self.path / run / name, new=True)
            start = self._event(wall_time=time.time(), file_version="brain.Event:2")
            file.begin(_framed([start.SerializeToString()]))
        self._files[run] = file
        while len(self._files) > _MOST_OPEN:
            self._files.popitem(last=False)[1].close()
        return file

    def _scalar(self, tag: str, number: float) -> Any:
        return self._summary.Value(tag=tag, simple_value=number)

    def _extra(self, base: str, extra: Extra, numbers: list[Any]) -> Iterator[Any]:
        if isinstance(extra.value, (bool, int, float)):
            yield self._scalar(f"{base}/value", float(extra.value))
        if extra.histogram is not None:
            yield self._histogram(f"{base}/histogram", extra, numbers)
        if extra.tensor is not None:
            pictures = images(extra.tensor, self.settings["images"])
            for number, picture in enumerate(pictures):
                small = thinned(picture, self.settings["image_side"])
                image = self._summary.Image(
                    height=small.shape[0],
                    width=small.shape[1],
                    colorspace=small.shape[2],
                    encoded_image_string=png(small),
                )
                yield self._summary.Value(tag=f"{base}/image/{number}", image=image)

    def _histogram(self, tag: str, extra: Extra, numbers: list[Any]) -> Any:
        from tensorboard.compat.proto.histogram_pb2 import HistogramProto

        assert extra.histogram is not None
        low, high, counts = extra.histogram.low, extra.histogram.high, extra.histogram.counts
        edges = np.linspace(low, high, len(counts) + 1)
        middles, number = (edges[:-1] + edges[1:]) / 2, sum(counts)
        statistics = dict(zip(STATISTICS, numbers, strict=True))
        known = statistics["count"] > 0 and statistics["nan"] == statistics["inf"] == 0
        histogram = HistogramProto(
            min=low,
            max=high,
            num=number,
            # Without statistics, as if all elements were in the middle of their bins.
            sum=statistics["mean"] * number if known else float(middles @ np.array(counts)),
            sum_squares=statistics["l2"] ** 2 if known else float(middles**2 @ np.array(counts)),
            bucket_limit=edges[1:].tolist(),
            bucket=counts,
        )
        return self._summary.Value(tag=tag, histo=histogram)


def _names(batch: Batch) -> tuple[dict[int, str], dict[int, list[str]]]:
    """The run and the tags of every source."""
    runs: dict[int, str] = {}
    tags: dict[int, list[str]] = {}
    for source in batch.sources:
        if id(source) not in runs:
            folders = (source.process.replace(":", "-"), source.program)
            runs[id(source)] = "/".join(safe_name(folder) for folder in folders if folder)
            base = tag_of(source)
            tags[id(source)] = [f"{base}/{statistic}" for statistic in STATISTICS]
    return runs, tags


def tag_of(source: Source) -> str:
    """`convs/conv_0.out`; with the op's name if the variable's does not begin with it."""
    own = source.variable == source.op or source.variable.startswith(f"{source.op}.")
    return f"{source.tap}/{source.variable if own else f'{source.op}/{source.variable}'}"


def _framed(messages: list[bytes]) -> bytes:
    """The records of an event file: length and message, each with its checksum."""
    pieces: list[bytes] = []
    for message, checksum in zip(messages, masked(messages).tolist(), strict=True):
        pieces += (_head(len(message)), message, struct.pack("<I", checksum))
    return b"".join(pieces)


@functools.lru_cache(maxsize=4096)
def _head(length: int) -> bytes:
    number = struct.pack("<Q", length)
    return number + struct.pack("<I", int(masked([number])[0]))


def images(tensor: Array, most: int) -> list[Array]:
    """The [H, W, C] images of a tensor that looks like images."""
    if tensor.dtype.kind not in "fiub" or 0 in tensor.shape:
        return []
    if tensor.ndim == 2 and min(tensor.shape) > 1:
        found = [tensor[:, :, None]]
    elif tensor.ndim in (3, 4) and tensor.shape[-3] in (1, 3, 4):
        several = tensor if tensor.ndim == 4 else tensor[None]
        found = [image.transpose(1, 2, 0) for image in several[:most]]
    else:
        return []
    return [_scaled(image) for image in found[:most]]


def _scaled(image: Array) -> Array:
    """Scales the smallest to the largest element to 0..255; NaN is black."""
    if image.dtype == np.uint8:
        return image
    wide = image.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if finite.size == 0:
        return np.zeros(image.shape, np.uint8)
    low, high = finite.min(), finite.max()
    width = high / 2 - low / 2 or 1.0
    scaled = np.clip((wide / 2 - low / 2) / width, 0, 1) * 255
    pixels: Array = np.nan_to_num(scaled, nan=0.0).round().astype(np.uint8)
    return pixels


def thinned(image: Array, side: int) -> Array:
    every = max(1, -(-max(image.shape[:2]) // max(1, side)))
    return image[::every, ::every]


def png(image: Array) -> bytes:
    height, width, channels = image.shape
    kind = {1: 0, 3: 2, 4: 6}[channels]
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # a row begins with its filter: none
    rows[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 3)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
