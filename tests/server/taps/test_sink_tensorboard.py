"""The TensorBoard sink, read back with TensorBoard."""

from __future__ import annotations

import io
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import (
    DEFAULT_SIZE_GUIDANCE,
    EventAccumulator,
)
from tensorboard.backend.event_processing.plugin_event_accumulator import (
    EventAccumulator as TensorAccumulator,
)
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import crc32c as their_crc32c
from tensorboard.util.tensor_util import make_ndarray

from harness.tap_batches import CONV, NOON, batch, no_room, opened, read_only, sink, source
from opstep_server.taps.records import STATISTICS, Extra, Histogram
from opstep_server.taps.sinks.base import SinkError
from opstep_server.taps.sinks.checksums import crc32c


def read(run: Path) -> EventAccumulator:
    everything = EventAccumulator(str(run), size_guidance=dict.fromkeys(DEFAULT_SIZE_GUIDANCE, 0))
    return everything.Reload()


def steps(path: Path, tag: str = "convs/conv_0.out/mean") -> list[int]:
    return [event.step for event in read(path / "box-77" / "main").Scalars(tag)]


def picture(path: Path, tag: str) -> np.ndarray:
    (image,) = read(path / "box-77" / "main").Images(tag)
    return np.asarray(Image.open(io.BytesIO(image.encoded_image_string)))


def test_statistics_are_scalars(tmp_path: Path):
    with opened("tensorboard", tmp_path) as s:
        s.write(batch([CONV] * 5, first=10, without=(2,)))
        s.flush()
        found = read(tmp_path / "box-77" / "main")
    assert found.Tags()["scalars"] == [f"convs/conv_0.out/{name}" for name in STATISTICS]
    means = found.Scalars("convs/conv_0.out/mean")
    assert [(event.step, event.value) for event in means] == [(i, i) for i in (10, 11, 13, 14)]
    assert means[0].wall_time == pytest.approx(NOON / 1e9, abs=1e-6)
    assert [event.value for event in found.Scalars("convs/conv_0.out/max")] == [11, 12, 14, 15]


def test_runs_are_programs_of_processes_and_tags_are_told_apart(tmp_path: Path):
    sources = [
        CONV,
        source(program="test"),
        source(process="box:78"),
        source(op="relu_0", variable="conv_0.out"),
        source(op="relu_0", variable="relu_0"),
        source(tap="../x", process="../../y", program=""),
    ]
    with opened("tensorboard", tmp_path / "log") as s:
        s.write(batch(sources))
    files = list(tmp_path.rglob("*tfevents*"))
    runs = {str(file.parent.relative_to(tmp_path / "log")) for file in files}
    assert runs == {"box-77/main", "box-77/test", "box-78/main", "%2E.%2F..%2Fy"}
    tags = read(tmp_path / "log" / "box-77" / "main").Tags()["scalars"]
    bases = {tag.rpartition("/")[0] for tag in tags}
    assert bases == {"convs/conv_0.out", "convs/relu_0/conv_0.out", "convs/relu_0"}


def test_numbers_that_are_not_finite_and_other_values(tmp_path: Path):
    made = batch([CONV] * 5, without=(1, 2, 3, 4))
    made.statistics["mean"][0], made.statistics["max"][0] = math.nan, math.inf
    made.statistics["min"][0] = -1e300
    extras = {1: Extra(value=True), 2: Extra(value=2.5), 3: Extra(value="a"), 4: Extra(error="no")}
    made.extras.update(extras)
    with opened("tensorboard", tmp_path) as s:
        s.write(made)
    found = read(tmp_path / "box-77" / "main")
    assert math.isnan(found.Scalars("convs/conv_0.out/mean")[0].value)
    assert found.Scalars("convs/conv_0.out/max")[0].value == math.inf
    assert found.Scalars("convs/conv_0.out/min")[0].value == -math.inf
    values = found.Scalars("convs/conv_0.out/value")
    assert [(event.step, event.value) for event in values] == [(1, 1.0), (2, 2.5)]


def test_histograms(tmp_path: Path):
    extras = {
        0: Extra(Histogram(-1.0, 3.0, (1, 0, 2, 5))),
        1: Extra(Histogram(0.0, 4.0, (1, 1, 1, 1))),
        2: Extra(Histogram(2.0, 2.0, (6,))),
    }
    with opened("tensorboard", tmp_path) as s:
        s.write(batch([CONV] * 3, extras, without=(1,)))
    histograms = read(tmp_path / "box-77" / "main").Histograms("convs/conv_0.out/histogram")
    first, second, third = (event.histogram_value for event in histograms)
    assert (first.min, first.max, first.num, first.sum) == (-1, 3, 8, 0)
    assert first.bucket_limit == [0, 1, 2, 3]
    assert first.bucket == [1, 0, 2, 5]
    assert (second.sum, second.sum_squares) == (8.0, 0.25 + 2.25 + 6.25 + 12.25)
    assert (third.min, third.max, third.num) == (2, 2, 6)
    # What its pages show: rows of left edge, right edge and count.
    shown = TensorAccumulator(str(tmp_path / "box-77" / "main")).Reload()
    tensors = shown.Tensors("convs/conv_0.out/histogram")
    values = make_ndarray(tensors[0].tensor_proto)
    assert values[values[:, 2] > 0].tolist() == [[-1, 0, 1], [1, 2, 2], [2, 3, 5]]
    assert make_ndarray(tensors[2].tensor_proto)[:, 2].sum() == 6


def test_images_are_scaled(tmp_path: Path):
    flat = np.array([[-1.0, 0.0], [1.0, np.nan], [np.inf, -np.inf]], np.float32)
    color = np.arange(3 * 4 * 5, dtype=np.int32).reshape(3, 4, 5)
    several = np.random.default_rng(0).normal(size=(6, 1, 3, 3))
    bytes_ = np.arange(4 * 2 * 2, dtype=np.uint8).reshape(4, 2, 2)
    tensors = [flat, color, several, bytes_, np.zeros(9), np.zeros((2, 5, 5)), np.zeros((0, 3))]
    names = ["flat", "color", "several", "bytes", "line", "features", "empty"]
    sources = [source(variable=f"conv_0.{name}") for name in names]
    extras = {i: Extra(tensor=tensor) for i, tensor in enumerate(tensors)}
    with opened("tensorboard", tmp_path, images=2) as s:
        s.write(batch(sources, extras))
    tags = read(tmp_path / "box-77" / "main").Tags()["images"]
    shown = ["flat/image/0", "color/image/0", "several/image/0", "several/image/1", "bytes/image/0"]
    assert tags == [f"convs/conv_0.{name}" for name in shown]
    assert picture(tmp_path, tags[0]).tolist() == [[0, 128], [255, 0], [255, 0]]
    expected = (color / color.max() * 255).round().transpose(1, 2, 0)
    assert np.array_equal(picture(tmp_path, tags[1]), expected)
    assert picture(tmp_path, tags[3]).max() == 255
    assert np.array_equal(picture(tmp_path, tags[4]), bytes_.transpose(1, 2, 0))


def test_large_images_are_thinned_out(tmp_path: Path):
    large = np.tile(np.arange(300.0), (100, 1))
    with opened("tensorboard", tmp_path, image_side=100) as s:
        s.write(batch([CONV], {0: Extra(tensor=large)}))
    shown = picture(tmp_path, "convs/conv_0.out/image/0")
    assert shown.shape == (34, 100)
    assert shown[0].tolist() == [round(x * 255 / 299) for x in range(0, 300, 3)]


def test_images_can_be_switched_off(tmp_path: Path):
    with opened("tensorboard", tmp_path, images=0) as s:
        s.write(batch([CONV], {0: Extra(tensor=np.eye(3))}))
    assert read(tmp_path / "box-77" / "main").Tags()["images"] == []


def test_files_end_at_their_size(tmp_path: Path):
    with opened("tensorboard", tmp_path, rotate_bytes=2000) as s:
        for number in range(40):
            s.write(batch([CONV], first=number))
    files = list(tmp_path.rglob("*tfevents*"))
    assert len(files) > 3
    assert max(file.stat().st_size for file in files) < 2500
    assert sorted(steps(tmp_path)) == list(range(40))


def test_many_runs_do_not_keep_many_files_open(tmp_path: Path):
    sources = [source(process=f"box:{number}") for number in range(150)]
    with opened("tensorboard", tmp_path) as s:
        for first in (0, 1000):
            s.write(batch(sources, first=first))
            held = [file for file in Path("/proc/self/fd").iterdir() if "tfevents" in name(file)]
            assert len(held) == 64
    found = read(tmp_path / "box-149" / "main").Scalars("convs/conv_0.out/mean")
    assert [event.step for event in found] == [149, 1149]


def name(file: Path) -> str:
    return str(file.readlink()) if file.is_symlink() else ""


def test_a_full_disk_takes_back_what_was_not_flushed(tmp_path: Path):
    s = sink("tensorboard", tmp_path)
    s.open()
    with no_room(9000), pytest.raises(OSError, match="tfevents"):
        for first in range(0, 1000, 10):
            s.write(batch([CONV] * 10, first=first))
            if first == 10:
                s.flush()
    s.close()
    assert steps(tmp_path) == list(range(20))
    (file,) = tmp_path.rglob("*tfevents*")
    size = file.stat().st_size
    # Attempts that fail leave nothing behind.
    for room in (0, 10, 60):
        s.open()
        with no_room(room), pytest.raises(OSError, match="tfevents"):
            s.write(batch([CONV] * 10, first=500))
        s.close()
    assert list(tmp_path.rglob("*tfevents*")) == [file]
    s.open()
    s.write(batch([CONV] * 10, first=1000))
    s.close()
    assert steps(tmp_path) == [*range(20), *range(1000, 1010)]
    assert file.stat().st_size == size


def test_a_removed_directory_is_noticed(tmp_path: Path):
    path = tmp_path / "log"
    s = sink("tensorboard", path)
    s.open()
    s.write(batch([CONV]))
    shutil.rmtree(path)
    with pytest.raises(SinkError, match="was removed while it was being written"):
        s.flush()
    with pytest.raises(SinkError, match="was removed while it was being written"):
        s.write(batch([CONV]))
    s.close()
    s.open()
    s.write(batch([CONV], first=5))
    s.close()
    assert steps(path) == [5]


def test_a_read_only_directory(tmp_path: Path):
    s = sink("tensorboard", tmp_path / "log")
    with read_only(tmp_path), pytest.raises(OSError):
        s.open()
    s.close()
    s.open()
    s.write(batch([CONV]))
    s.close()
    assert steps(tmp_path / "log") == [0]


def test_checksums_are_those_of_tensorboard():
    random = np.random.default_rng(1)
    lengths = [0, 1, 3, 127, 128, 129, 256, 5000, 70_000, *random.integers(0, 400, 100)]
    messages = [random.bytes(length) for length in lengths]
    assert crc32c(messages).tolist() == [their_crc32c(message) for message in messages]
    assert crc32c([b"123456789"]).tolist() == [0xE3069283]
