"""Sources of records in .npy, .npz and .csv files, read by hand and compared with NumPy."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import Error, _core, ops

DTYPES = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool"]


def rest(source: _core.Source) -> list[list[np.ndarray]]:
    return list(iter(source.next, None))


def same(got: list[list[np.ndarray]], *want: np.ndarray) -> None:
    """The records are the rows of the arrays."""
    assert len(got) == len(want[0])
    for record, *rows in zip(got, *want, strict=True):
        for value, row in zip(record, rows, strict=True):
            assert (value.dtype, value.shape) == (row.dtype, row.shape)
            np.testing.assert_array_equal(value, row)


def refused(how: Any, *args: Any, **options: Any) -> str:
    with pytest.raises(Error) as caught:
        rest(how(*args, **options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def array(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(5).integers(0, 100, shape).astype(dtype)


def saved(path: Path, value: np.ndarray) -> str:
    np.save(path, value)
    return str(path)


def written(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


# --- .npy and .npz ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7,), (5, 3), (4, 2, 3, 2), (6, 0), (0, 3)])
def test_rows_of_arrays(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    x, y = array(shape, dtype), np.arange(shape[0])
    source = _core.open_npy([saved(tmp_path / "x.npy", x), saved(tmp_path / "label.npy", y)])
    assert source.fields() == [("x", dtype, list(shape[1:])), ("label", "int64", [])]
    assert source.size() == shape[0]
    same(rest(source), x, y)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_an_archive(tmp_path: Path, save: Any) -> None:
    x, y, z = array((300, 41)), array((300,), "bool"), np.asfortranarray(array((300, 3, 2)))
    path = str(tmp_path / "a.npz")
    save(path, x=x, y=y, z=z)
    assert [name for name, _, _ in _core.open_npy([path]).fields()] == ["x", "y", "z"]
    same(rest(_core.open_npy([path])), x, y, z)
    same(rest(_core.open_npy([path], ["z", "x"])), z, x)


def test_parts_follow_one_another(tmp_path: Path) -> None:
    x = [array((n, 2)) + n for n in (3, 0, 5)]
    y = [np.arange(n) for n in (3, 0, 5)]
    plain = []
    for i in range(3):
        plain += [saved(tmp_path / f"x{i}.npy", x[i]), saved(tmp_path / f"y{i}.npy", y[i])]
        np.savez(tmp_path / f"{i}.npz", x=x[i], y=y[i])
    packed = [str(tmp_path / f"{i}.npz") for i in range(3)]
    for source in (_core.open_npy(plain, ["x", "y"]), _core.open_npy(packed)):
        assert source.size() == 8
        same(rest(source), np.concatenate(x), np.concatenate(y))
        source.restart(1)
        assert source.skip(6) == 6
        same(rest(source), np.concatenate(x)[6:], np.concatenate(y)[6:])
        assert source.skip(9) == 0
        source.restart(2)
        assert source.skip(9) == 8 and source.next() is None


def test_what_is_read_is_the_callers_own(tmp_path: Path) -> None:
    source = _core.open_npy([saved(tmp_path / "x.npy", np.zeros((2, 3)))])
    (value,) = source.next() or []
    value += 1
    source.restart(1)
    same(rest(source), np.zeros((2, 3)))


def test_arrays_that_do_not_fit_together(tmp_path: Path) -> None:
    x, y = saved(tmp_path / "x.npy", array((3, 2))), saved(tmp_path / "y.npy", array((4,)))
    one = saved(tmp_path / "one.npy", np.float32(1))
    wide = saved(tmp_path / "wide.npy", array((3, 5)))
    np.savez(tmp_path / "a.npz", x=array((3, 2)))
    packed = str(tmp_path / "a.npz")
    cases: list[tuple[list[str], list[str], str]] = [
        ([], [], "paths is empty"),
        ([x, y], [], r"'.*y.npy' has 4 rows but '.*x.npy' has 3"),
        ([one], [], "'.*one.npy' is a single number"),
        ([x, wide], ["x"], r"'.*wide.npy' has rows of float32\[5\] but '.*x.npy' .* float32\[2\]"),
        ([x, packed], [], "both .npz and .npy"),
        ([x, y, x], ["x", "y"], "3 files for 2 fields"),
        ([x, x], [], "field 'x' occurs twice"),
        ([x], [""], "empty name"),
        ([packed], ["w"], "'.*a.npz' holds no array 'w'"),
        ([str(tmp_path / "gone.npz")], [], "cannot read '.*gone.npz': No such"),
        ([str(tmp_path)], [], "cannot read .*: it is a directory"),
    ]
    for paths, names, said in cases:
        with pytest.raises(Error, match=said):
            _core.open_npy(paths, names)


def test_a_file_that_changes(tmp_path: Path) -> None:
    source = _core.open_npy([saved(tmp_path / "x.npy", array((3, 2)))])
    saved(tmp_path / "x.npy", array((2, 2)))
    with pytest.raises(Error, match=r"was float32\[3, 2\] when it was opened but is now"):
        source.next()


# --- .csv ---------------------------------------------------------------------------------------

FLOWERS = 'a,b,name,label\n1,2.5,setosa,0\n-3,4e2,"x, y",1\n5,.5,,2\n'


def test_columns_become_fields(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", FLOWERS)
    fields = ["x=a,b", "label:int64", "second: float64[1] = b", "square:int16[2, 1]=a,label"]
    source = _core.open_csv([path], fields)
    assert source.fields() == [
        ("x", "float32", [2]),
        ("label", "int64", []),
        ("second", "float64", [1]),
        ("square", "int16", [2, 1]),
    ]
    assert source.size() == -1
    x = np.array([[1, 2.5], [-3, 400], [5, 0.5]], np.float32)
    label = np.arange(3)
    square = np.stack([x[:, 0], label], 1).astype(np.int16).reshape(3, 2, 1)
    same(rest(source), x, label, x[:, 1:].astype(np.float64), square)


def test_every_column_is_a_field_when_none_is_named(tmp_path: Path) -> None:
    source = _core.open_csv([written(tmp_path / "f.csv", "p; q \n1;2\n3;nan\n")], delimiter=";")
    assert source.fields() == [("p", "float32", []), ("q", "float32", [])]
    same(rest(source), np.array([1, 3], np.float32), np.array([2, np.nan], np.float32))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_lines_as_they_come(tmp_path: Path, end: str, last: bool) -> None:
    lines = ["\ufeffa,b", "", "1,2", '"3"," 4 "', "", '+5,"6"', ""]
    text = end.join(lines if last else lines[:-1])
    source = _core.open_csv([written(tmp_path / "f.csv", text)], ["x:int32=a,b"])
    same(rest(source), np.array([[1, 2], [3, 4], [5, 6]], np.int32))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_numbers_are_those_that_python_reads(tmp_path: Path, dtype: str) -> None:
    rng = random.Random(3)
    texts = ["0", "-0.0", "1e-45", "65504", "inf", "-Infinity", "NaN", "1E2", ".5", "5."]
    texts += [repr(rng.uniform(-1, 1) * 10 ** rng.randint(-8, 4)) for _ in range(2000)]
    texts += ["1.00048828125", "1.000488281250000001", "1.00000005960464477539", "2049", "2051"]
    source = _core.open_csv([written(tmp_path / "f.csv", "\n".join(["a", *texts]))], [f"a:{dtype}"])
    same(rest(source), np.array([float(text) for text in texts]).astype(dtype))


def test_truth(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "a\n1\n0\nTrue\nfalse\nTRUE\n")
    same(rest(_core.open_csv([path], ["a:bool"])), np.array([True, False, True, False, True]))


def random_table(rng: random.Random) -> tuple[str, list[list[str]]]:
    """A table as Python's csv module writes and reads it, with wild text beside the number."""
    rows = []
    for _ in range(rng.randint(0, 60)):
        wild = "".join(rng.choices('ab,;"\n\r \té€', k=rng.randint(0, 12)))
        rows.append([wild, str(rng.randint(-99, 99)), wild[::-1]])
    out = io.StringIO()
    writer = csv.writer(out, quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    writer.writerows([["t", "n", "u"], *rows])
    return out.getvalue(), rows


def test_other_columns_may_hold_anything(tmp_path: Path) -> None:
    rng = random.Random(11)
    for _ in range(300):
        text, rows = random_table(rng)
        path = written(tmp_path / "f.csv", text)
        want = np.array([row[1] for row in rows], np.int64)
        source = _core.open_csv([path], ["n:int64"])
        same(rest(source), want)
        source.restart(1)
        skipped = source.skip(rng.randint(0, 70))
        same(rest(source), want[skipped:])


def test_long_files_and_lines(tmp_path: Path) -> None:
    """Lines that cross the borders of what is read at once, at every place."""
    numbers = np.arange(60_000)
    filler = ["x" * (n % 97) for n in numbers]
    filler[777] = '"' + "long\n" * 200_000 + '"'
    text = "".join(f"{n},{f}\r\n" for n, f in zip(numbers, filler, strict=True))
    path = written(tmp_path / "f.csv", "n,f\r\n" + text)
    same(rest(_core.open_csv([path], ["n:int64"])), numbers)
    source = _core.open_csv([path], ["n:int64"])
    assert source.skip(59_998) == 59_998
    same(rest(source), numbers[59_998:])
    assert source.skip(1) == 0


def test_files_follow_one_another(tmp_path: Path) -> None:
    first = written(tmp_path / "1.csv", "a,b\n1,2\n3,4\n")
    none = written(tmp_path / "2.csv", "b,a\n")
    last = written(tmp_path / "3.csv", "z,b,a\nq,6,5\n")
    source = _core.open_csv([first, none, last], ["x=a,b"])
    want = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    same(rest(source), want)
    source.restart(1)
    same(rest(source), want)
    source.restart(2)
    assert source.skip(2) == 2
    same(rest(source), want[2:])


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("", "a", "'.*f.csv' is empty: its first line must name the columns"),
        ("a,a\n", "a", "names the column 'a' twice"),
        ("a,,b\n", "a", "a column without a name"),
        ("a\n1\n", "b", "'.*f.csv' has no column 'b', which field 'b' needs"),
        ("a,b\n1,2\n\n3\n", "a", "line 4 of '.*f.csv' has 1 value for 2 columns"),
        ("a,b\n1,2\n3,4,5\n", "a", "line 3 of '.*f.csv' has 3 values for 2 columns"),
        (
            'a,b\n1,"two\nlines"\nx,2\n',
            "a",
            "line 4 of '.*f.csv' has 'x' for 'a', .* not a valid float32",
        ),
        ("a\n1\n2.0\n", "a:int64", "line 3 of .* has '2.0' for 'a', which is not a valid int64"),
        ("a\n300\n", "a:uint8", "'300' for 'a', which is beyond uint8"),
        ("a\n-1\n", "a:uint8", "'-1' for 'a', which is beyond uint8"),
        ("a\n9223372036854775808\n", "a:int64", "which is beyond int64"),
        ("a\n1e39\n", "a", "which is beyond float32"),
        ("a\n1e999\n", "a:float64", "which is beyond float64"),
        ("a\n1e5\n", "a:float16", "which is beyond float16"),
        ("a\n2\n", "a:bool", "which is not a valid bool"),
        ("a\n1_000\n", "a", "which is not a valid float32"),
        ("a\n+-1\n", "a", "which is not a valid float32"),
        ("a,b\n,1\n", "a", "line 2 of .* has no value for 'a'; write nan"),
        ("a,b\n ,1\n", "a:int64", "line 2 of .* has no value for 'a'$"),
        ('a\n1\n"2\n3\n', "a", "line 3 of '.*f.csv' opens a quote that is never closed"),
        (b"\xff\xfea\x00\n\x00", "a", "is not a .csv file: its first line is not UTF-8"),
        (b"a\n\xff\x00\n", "a", r"has '\\xff\\x00' for 'a'"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str | bytes, field: str, said: str) -> None:
    path = written(tmp_path / "f.csv", text)
    with pytest.raises(Error, match=said):
        rest(_core.open_csv([path], [field]))


def test_reading_goes_on_behind_a_bad_line(tmp_path: Path) -> None:
    source = _core.open_csv([written(tmp_path / "f.csv", "a\n1\nx\n3\n")])
    assert source.next() is not None
    with pytest.raises(Error, match="line 3"):
        source.next()
    same(rest(source), np.array([3], np.float32))


def test_a_quote_that_is_not_closed_takes_no_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", b'a\n"' + b"1" * (20 << 20))
    assert "line 2" in refused(_core.open_csv, [path]) and "16777216" in refused(
        _core.open_csv, [path]
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([""], "the field '' has no name"),
        (["=a"], "has no name"),
        (["x:=a"], "the unknown dtype ''"),
        (["x:complex64=a"], "the unknown dtype 'complex64'"),
        (["x:float32[3]=a,b"], r"has 2 columns for the shape \[3\]"),
        (["x:float32[?]=a,b"], r"write for example float32 or float32\[2, 3\]"),
        (["x:float32[4611686018427387904, 4]=a"], "too large"),
        (["x=a", "x=b"], "the field 'x' occurs twice"),
    ],
)
def test_fields_that_mean_nothing(tmp_path: Path, fields: list[str], said: str) -> None:
    path = written(tmp_path / "f.csv", "a,b\n1,2\n")
    with pytest.raises(Error, match=said):
        _core.open_csv([path], fields)
    with (
        opstep.program_guard(opstep.Program(), opstep.Program()),
        pytest.raises(Error, match=rf"\[read_csv\] .*{said}.*\(test_sources.py:\d+"),
    ):
        ops.read_csv(paths=[path], fields=fields)


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n", "é"])
def test_delimiters_that_part_nothing(tmp_path: Path, delimiter: str) -> None:
    path = written(tmp_path / "f.csv", "a\n")
    assert "it must be one character" in refused(_core.open_csv, [path], delimiter=delimiter)
