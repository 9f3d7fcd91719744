"""The sink of full tensors, read back with NumPy and safetensors."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from harness.tap_batches import CONV, NOON, batch, no_room, opened, read_only, sink, source
from opstep_server.taps.records import Batch, Extra
from opstep_server.taps.sinks.base import SinkError
from opstep_server.taps.sinks.files import safe_name


def index(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "index.jsonl").read_text().splitlines()]


def tensors(path: Path) -> list[Path]:
    """All files but the index, whatever they are."""
    every = (file for file in path.rglob("*") if not file.is_dir())
    return sorted(file for file in every if file != path / "index.jsonl")


def full(*arrays: np.ndarray, first: int = 0, time: int = NOON) -> Batch:
    extras = {number: Extra(tensor=array) for number, array in enumerate(arrays)}
    return batch([CONV] * len(arrays), extras, first=first, time=time)


def steps(path: Path) -> list[int]:
    """Of the index, which must be that of the files."""
    lines = index(path)
    assert sorted(path / line["file"] for line in lines) == tensors(path)
    return [line["step"] for line in lines]


ARRAYS = [
    np.array(2.5),
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.arange(6, dtype=np.int64).reshape(2, 3).T,
    np.array([True, False]),
    np.zeros((0, 3), np.float16),
    *(np.array([1, 2, 3], dtype) for dtype in ("int8", "int16", "int32", "uint8")),
]


@pytest.mark.parametrize("ending", ["npy", "safetensors"])
def test_arrays_come_back(tmp_path: Path, ending: str):
    with opened("tensors", tmp_path, format=ending) as s:
        s.write(full(*ARRAYS))
        s.flush()
        lines = index(tmp_path)
        assert len(lines) == len(tensors(tmp_path)) == len(ARRAYS)
        for line, array in zip(lines, ARRAYS, strict=True):
            if ending == "npy":
                read = np.load(tmp_path / line["file"])
            else:
                with safe_open(tmp_path / line["file"], "np") as file:
                    assert list(file.keys()) == ["conv_0.out"]
                    assert file.metadata()["tap"] == "convs"
                    read = file.get_tensor("conv_0.out")
            assert read.dtype == array.dtype and read.shape == array.shape
            assert np.array_equal(read, array)
            assert (line["dtype"], line["dims"]) == (str(array.dtype), list(array.shape))


def test_a_line_of_the_index(tmp_path: Path):
    extras = {1: Extra(tensor=np.ones((2, 2), np.float32)), 2: Extra(value=1.0)}
    with opened("tensors", tmp_path) as s:
        s.write(batch([CONV] * 3, extras, first=41))
    assert index(tmp_path) == [
        {
            "file": "convs/conv_0/conv_0.out/step-00000042-iteration-1.npy",
            "tap": "convs",
            "op": "conv_0",
            "type": "conv2d",
            "variable": "conv_0.out",
            "slot": "out",
            "program": "main",
            "process": "box:77",
            "step": 42,
            "iteration": 1,
            "time": "2026-03-01T12:00:00.124456+00:00",
            "dtype": "float32",
            "dims": [2, 2],
        }
    ]
    assert os.stat(tmp_path / index(tmp_path)[0]["file"]).st_mode & 0o777 == 0o666 & ~umask()


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_names_stay_in_the_directory_and_are_told_apart(tmp_path: Path):
    names = ["..", ".", "a/b", "a%2Fb", "", "x" * 500, "x" * 501, "ü\n\0", "a:b", "\ud800"]
    sources = [source(op=name, variable=name) for name in names]
    extras = {number: Extra(tensor=np.array(number)) for number in range(len(names))}
    path = tmp_path / "log"
    with opened("tensors", path) as s:
        s.write(batch(sources, extras))
    assert steps(path) == list(range(len(names)))
    assert [int(np.load(path / line["file"])) for line in index(path)] == list(range(len(names)))
    assert [line["op"] for line in index(path)] == names
    assert list(tmp_path.iterdir()) == [path]
    assert len({safe_name(name) for name in names}) == len(names)


def test_a_step_that_comes_again_replaces_nothing(tmp_path: Path):
    for value in range(3):
        with opened("tensors", tmp_path) as s:
            s.write(full(np.array(value), time=NOON + value // 2))
    assert steps(tmp_path) == [0, 0, 0]
    assert [int(np.load(tmp_path / line["file"])) for line in index(tmp_path)] == [0, 1, 2]


def test_the_oldest_are_removed(tmp_path: Path):
    with opened("tensors", tmp_path, max_files=3) as s:
        s.write(full(*[np.ones(4)] * 5))
        assert steps(tmp_path) == [2, 3, 4]
        s.write(full(np.ones(4), first=5))
        assert steps(tmp_path) == [3, 4, 5]
    # What is there counts when the sink is opened again, and what is gone does not.
    (tmp_path / index(tmp_path)[1]["file"]).unlink()
    with opened("tensors", tmp_path, max_files=3) as s:
        assert steps(tmp_path) == [3, 5]
        s.write(full(*[np.ones(4)] * 2, first=6))
        assert steps(tmp_path) == [5, 6, 7]


def test_bytes_are_limited(tmp_path: Path):
    large = np.ones(1000)
    with opened("tensors", tmp_path, max_bytes=20_000) as s:
        s.write(full(large, large, large))
        assert steps(tmp_path) == [1, 2]
        with pytest.raises(SinkError, match=r"conv_0\.out has 24000 bytes, more than max_bytes"):
            s.write(full(np.ones(3000), large, first=3))
        assert steps(tmp_path) == [2, 4]
    assert sum(file.stat().st_size for file in tensors(tmp_path)) <= 20_000


@pytest.mark.parametrize("limit", [0, 100])
def test_half_a_line_and_half_a_file_are_removed(tmp_path: Path, limit: int):
    with opened("tensors", tmp_path) as s:
        s.write(full(np.ones(3), np.ones(3)))
    with (tmp_path / "index.jsonl").open("a") as file:
        file.write('{"file": "conv')
    (tmp_path / ".unfinished-abc").write_bytes(b"\x93NUMPY")
    with opened("tensors", tmp_path, max_files=limit) as s:
        s.write(full(np.ones(3), first=2))
    assert steps(tmp_path) == [0, 1, 2]


@pytest.mark.parametrize("ending", ["npy", "safetensors"])
def test_a_full_disk_leaves_whole_tensors(tmp_path: Path, ending: str):
    s = sink("tensors", tmp_path, format=ending)
    s.open()
    s.write(full(np.ones(100)))
    with no_room(5000), pytest.raises(OSError, match=r"File too large.*step-00000002"):
        s.write(full(np.ones(100), np.ones(10_000), first=1))
    s.close()
    assert steps(tmp_path) == [0, 1]
    s.open()
    s.write(full(np.ones(10_000), first=3))
    s.close()
    assert steps(tmp_path) == [0, 1, 3]


def test_no_room_for_the_index(tmp_path: Path):
    s = sink("tensors", tmp_path)
    s.open()
    s.write(full(*[np.ones(1)] * 10))
    with no_room((tmp_path / "index.jsonl").stat().st_size + 20), pytest.raises(OSError):
        s.write(full(np.ones(1), first=10))
    s.close()
    assert steps(tmp_path) == list(range(10))


def test_a_removed_directory_is_noticed(tmp_path: Path):
    path = tmp_path / "log"
    s = sink("tensors", path)
    s.open()
    s.write(full(np.ones(1)))
    shutil.rmtree(path)
    with pytest.raises(SinkError, match="was removed while it was being written"):
        s.flush()
    with pytest.raises(SinkError, match="was removed while it was being written"):
        s.write(full(np.ones(1)))
    s.close()
    s.open()
    s.write(full(np.ones(1), first=5))
    s.close()
    assert steps(path) == [5]


def test_a_read_only_directory(tmp_path: Path):
    s = sink("tensors", tmp_path)
    s.open()
    with read_only(tmp_path), pytest.raises(OSError):
        s.write(full(np.ones(1)))
    s.close()
    s.open()
    s.write(full(np.ones(1), first=1))
    s.close()
    assert steps(tmp_path) == [1]


def test_other_formats_are_refused(tmp_path: Path):
    with pytest.raises(
        SinkError, match="'csv' is not a format of tensors: write npy or safetensors"
    ):
        sink("tensors", tmp_path, format="csv")
