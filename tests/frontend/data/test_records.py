"""Record files: what is written comes back, from files, several files and other formats."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from opstep import Error, records

DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]
COMMAND = [sys.executable, "-m", "opstep_server", "records"]


def numbered(path: Path, begin: int, end: int, **options: object) -> Path:
    with records.Writer(path, {"n": ("int64", [])}, **options) as writer:  # type: ignore[arg-type]
        for n in range(begin, end):
            writer.write(n=n)
    return path


@pytest.mark.parametrize("codec", ["zlib", "none"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(tmp_path: Path, dtype: str, codec: str) -> None:
    path = tmp_path / "a.rec"
    values = np.random.default_rng(1).integers(0, 2, (50, 3, 5)).astype(dtype)
    with records.Writer(path, {"x": (dtype, [3, 5])}, codec, chunk_bytes=300) as writer:
        for value in values[:20]:
            writer.write(x=value)
        writer.write_batch(x=values[20:])
    reader = records.Reader(path)
    assert reader.fields == {"x": (dtype, [3, 5])} and len(reader) == 50 and reader.chunks > 1
    read = np.stack([record["x"] for record in reader])
    assert read.dtype == dtype and (read == values).all()
    assert not reader.verify()


def test_bfloat16(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.arange(6, dtype=ml_dtypes.bfloat16)
    with records.Writer(tmp_path / "a.rec", {"x": ("bfloat16", [6])}) as writer:
        writer.write(x=values)
    (record,) = records.Reader(tmp_path / "a.rec")
    assert record["x"].dtype == values.dtype and (record["x"] == values).all()


def test_sizes_that_differ(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    rng = np.random.default_rng(2)
    made = [
        {
            "words": rng.integers(0, 99, rng.integers(0, 9)),
            "image": rng.random((rng.integers(1, 4), 3, rng.integers(1, 4)), np.float32),
            "flag": np.array(bool(rng.integers(2))),
        }
        for _ in range(40)
    ]
    fields = {
        "words": ("int64", [None]),
        "image": ("float32", [-1, 3, None]),
        "flag": ("bool", []),
    }
    with records.Writer(path, fields, chunk_bytes=400) as writer:
        for record in made:
            writer.write(**record)
    reader = records.Reader(path)
    assert reader.fields["image"] == ("float32", [None, 3, None])
    for i in [0, 39, 7, -1, *range(40)]:
        for name, value in made[i].items():
            assert reader[i][name].dtype == value.dtype
            np.testing.assert_array_equal(reader[i][name], value)


def test_a_record_is_a_copy(tmp_path: Path) -> None:
    reader = records.Reader(numbered(tmp_path / "a.rec", 0, 3))
    reader[1]["n"][...] = 9
    assert reader[1]["n"] == 1


def test_no_records(tmp_path: Path) -> None:
    reader = records.Reader(numbered(tmp_path / "a.rec", 0, 0))
    assert len(reader) == 0 and list(reader) == [] and not reader.verify()
    with pytest.raises(IndexError, match="there is no record 0"):
        reader[0]


def test_records_without_elements(tmp_path: Path) -> None:
    with records.Writer(tmp_path / "a.rec", {"x": ("float32", [0, 2])}) as writer:
        writer.write_batch(x=np.zeros((5, 0, 2), np.float32))
    reader = records.Reader(tmp_path / "a.rec")
    assert [record["x"].shape for record in reader] == [(0, 2)] * 5


def test_several_files(tmp_path: Path) -> None:
    paths = [
        numbered(tmp_path / f"{begin}_{end}.rec", begin, end, chunk_bytes=20)
        for begin, end in [(0, 10), (10, 10), (10, 11), (11, 30)]
    ]
    reader = records.Reader(paths)
    assert len(reader) == 30 and [int(record["n"]) for record in reader] == list(range(30))
    assert [int(reader[i]["n"]) for i in (0, 9, 10, 11, 29, -1)] == [0, 9, 10, 11, 29, 29]
    with records.Writer(tmp_path / "other.rec", {"n": ("int32", [])}):
        pass
    with pytest.raises(Error, match=r"other.rec' has other fields than '.*0_10.rec'"):
        records.Reader([*paths, tmp_path / "other.rec"])


def test_flush_ends_a_chunk(tmp_path: Path) -> None:
    with records.Writer(tmp_path / "a.rec", {"n": ("int64", [])}) as writer:
        for n in range(3):
            writer.write(n=n)
            writer.flush()
        writer.flush()
    assert records.Reader(tmp_path / "a.rec").chunks == 3


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.rec", 0, 4)
    with pytest.raises(KeyError), records.Writer(path, {"n": ("int64", [])}) as writer:
        writer.write(n=1)
        raise KeyError
    assert len(records.Reader(path)) == 4 and os.listdir(tmp_path) == ["a.rec"]


def test_a_wrong_record_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    with records.Writer(path, {"x": ("float32", [2]), "y": ("int64", [])}) as writer:
        writer.write(x=[1, 2], y=3)
        for wrong, why in [
            ({"x": [1, 2]}, "there is no value for 'y'"),
            ({"x": [1, 2], "y": 1, "z": 1}, "it has no field 'z'"),
            ({"x": [1, 2, 3], "y": 1}, r"'x' is float32\[3\] but the file has it as float32\[2\]"),
            ({"x": [1, 2], "y": np.float32(1)}, r"'y' is float32\[\] but the file has it as int64"),
            ({"x": "ab", "y": 1}, "'x' is not a float32 array"),
        ]:
            with pytest.raises(Error, match=rf"a\.rec'.*{why}"):
                writer.write(**wrong)
        with pytest.raises(Error, match="'x' has 2 of them but 'y' has 3"):
            writer.write_batch(x=[[1, 2], [3, 4]], y=[1, 2, 3])
    with pytest.raises(Error, match=r"a\.rec': it is closed"):
        writer.write(x=[1, 2], y=3)
    (record,) = records.Reader(path)
    assert record["x"].tolist() == [1, 2] and record["y"] == 3


@pytest.mark.parametrize(
    ("fields", "options", "why"),
    [
        ({}, {}, "a record needs one field or more"),
        ({"x": "float32"}, {}, r"write \(dtype, sizes\)"),
        ({"x": ("float32", [-2])}, {}, "field 'x' has the size -2"),
        ({"x": ("float32", [1 << 20, 1 << 20])}, {}, "field 'x' is too large"),
        ({"x": ("float32", [1] * 8)}, {}, "more than 7 dimensions"),
        ({"x": ("float32", [])}, {"codec": "lzo"}, "the codec 'lzo' is not known"),
        ({"x": ("float32", [])}, {"chunk_bytes": 0}, "chunk_bytes is 0"),
    ],
)
def test_what_no_file_can_have(tmp_path: Path, fields: dict, options: dict, why: str) -> None:
    with pytest.raises(Error, match=why):
        records.Writer(tmp_path / "a.rec", fields, **options)
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Error, match=r"cannot read '.*none.rec': No such file"):
        records.Reader(tmp_path / "none.rec")
    with pytest.raises(Error, match="needs one path or more"):
        records.Reader([])


# --- converting ---------------------------------------------------------------------------------


def test_npz(tmp_path: Path) -> None:
    x, y = np.random.default_rng(3).random((30, 4, 2)), np.arange(30)
    np.savez(tmp_path / "a.npz", x=x, y=y)
    assert records.convert(tmp_path / "a.npz", tmp_path / "a.rec") == 30
    reader = records.Reader(tmp_path / "a.rec")
    assert reader.fields == {"x": ("float64", [4, 2]), "y": ("int64", [])}
    assert (np.stack([record["x"] for record in reader]) == x).all() and reader[7]["y"] == 7


def test_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("width, kind\n1.5,2\n-3,4\n\n")
    assert records.convert(tmp_path / "a.csv", tmp_path / "a.rec") == 2
    reader = records.Reader(tmp_path / "a.rec")
    assert reader.fields == {"width": ("float32", []), "kind": ("int64", [])}
    assert [(r["width"], r["kind"]) for r in reader] == [(1.5, 2), (-3, 4)]


def test_dicts(tmp_path: Path) -> None:
    made = ({"x": np.arange(n, dtype=np.int32), "n": n} for n in range(5))
    assert records.convert(made, tmp_path / "a.rec") == 5
    reader = records.Reader(tmp_path / "a.rec")
    assert reader.fields == {"x": ("int32", [None]), "n": ("int64", [])}
    assert [record["x"].tolist() for record in reader] == [list(range(n)) for n in range(5)]


def test_what_cannot_be_converted(tmp_path: Path) -> None:
    bad = {
        "a.csv": ("a,b\n1,x\n", "line 2 of '.*a.csv' has 'x' for 'b', which is not a number"),
        "b.csv": ("a,b\n1\n", "line 2 of '.*b.csv' has 1 values for 2 columns"),
        "c.csv": ("", "'.*c.csv' is empty"),
        "d.csv": ("a,a\n", "'.*d.csv' names a column twice"),
        "e.npz": ("no", "'.*e.npz' is not a .npz file"),
        "f.txt": ("", "cannot convert '.*f.txt': give a .npz or a .csv file"),
    }
    for name, (text, why) in bad.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(Error, match=why):
            records.convert(tmp_path / name, tmp_path / "out.rec")
    with pytest.raises(Error, match=r"cannot read '.*g.npz'"):
        records.convert(tmp_path / "g.npz", tmp_path / "out.rec")
    with pytest.raises(Error, match="there is no record"):
        records.convert([], tmp_path / "out.rec")
    assert not (tmp_path / "out.rec").exists()


# --- the command --------------------------------------------------------------------------------


def test_the_command(tmp_path: Path) -> None:
    def said(*words: object, code: int = 0) -> str:
        done = subprocess.run(
            [*COMMAND, *map(str, words)], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    np.savez(tmp_path / "a.npz", x=np.zeros((9, 2), np.float32), label=np.arange(9))
    assert said("convert", "a.npz", "a.rec").startswith("a.rec: 9 records, ")
    info = said("info", "a.rec")
    assert (
        info.startswith("9 records in 1 chunks") and "\nx      float32[2]\nlabel  int64[]" in info
    )
    assert said("verify", "a.rec") == "a.rec: 9 records in 1 chunks, all intact\n"
    data = bytearray((tmp_path / "a.rec").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "a.rec").write_bytes(data)
    assert "bytes skipped" in said("verify", "a.rec", code=1)
    assert said("info", "none.rec", code=1).startswith("opstep: cannot read 'none.rec'")
