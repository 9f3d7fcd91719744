"""save, load, save_combined and load_combined: what they write, and what they refuse to read."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import opstep
from opstep import layers, ops

DTYPES = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool"]
SHAPES: list[list[int]] = [[], [1], [7], [0, 3], [3, 5], [2, 3, 1, 5]]


def array(dtype: str, shape: list[int]) -> np.ndarray:
    values = np.random.default_rng(7).integers(-100, 100, shape)
    return np.asarray(values).astype(dtype)


def run_save(path: Path, value: np.ndarray, **attrs: Any) -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", shape=list(value.shape), dtype=str(value.dtype))
        ops.save(x, path=str(path), **attrs)
    opstep.Executor().run(program, feed={"x": value}, scope=opstep.Scope())


def run_load(path: Path, dtype: str, shape: list[int], **attrs: Any) -> np.ndarray:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        out = ops.load(path=str(path), dtype=dtype, shape=shape, **attrs)
    (value,) = opstep.Executor().run(program, fetch_list=[out], scope=opstep.Scope())
    return value


def same(got: np.ndarray, want: np.ndarray) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(got, want)


def refused(path: Path, dtype: str = "float32", shape: tuple[int, ...] = (2, 3)) -> str:
    """The sentence, which names the op and the file."""
    with pytest.raises(opstep.Error) as caught:
        run_load(path, dtype, list(shape))
    text = str(caught.value)
    assert text.startswith("[load] ") and "op #1 load_0" in text and "\n" not in text
    assert path.name in text
    return text


# --- what is written and read -------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_reads_what_save_writes_and_the_other_way(
    tmp_path: Path, dtype: str, shape: list[int]
) -> None:
    value = array(dtype, shape)
    run_save(tmp_path / "a.npy", value)
    same(np.load(tmp_path / "a.npy"), value)
    assert (tmp_path / "a.npy").stat().st_size % 64 == value.nbytes % 64
    np.save(tmp_path / "b.npy", value)
    same(run_load(tmp_path / "b.npy", dtype, shape), value)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_safetensors_reads_what_save_writes_and_the_other_way(
    tmp_path: Path, dtype: str, shape: list[int]
) -> None:
    value = array(dtype, shape)
    run_save(tmp_path / "a.st", value)
    (got,) = load_file(tmp_path / "a.st").values()
    same(got, value)
    run_save(tmp_path / "a.st", value, key='a "name"\\ of\tits ówn')
    assert list(load_file(tmp_path / "a.st")) == ['a "name"\\ of\tits ówn']
    save_file({"w": value, "other": value}, tmp_path / "b.st", metadata={"made": "elsewhere"})
    same(run_load(tmp_path / "b.st", dtype, shape, key="w"), value)


def test_bfloat16_goes_through_safetensors(tmp_path: Path) -> None:
    program, path = opstep.Program(), tmp_path / "w.safetensors"
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", shape=[3], dtype="bfloat16")
        ops.save(x, path=str(path))
    raw = struct.pack("<3H", 0x3F80, 0xC000, 0x7FC0)
    header = b'{"x":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}'
    path.write_bytes(struct.pack("<Q", len(header)) + header + raw)
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        x = ops.load(path=str(path), dtype="bfloat16", shape=[3])
        ops.save(x, path=str(tmp_path / "copy.st"))
        ops.save(x, path=str(tmp_path / "copy.npy"))
    with pytest.raises(opstep.Error, match=r"a \.npy file cannot hold bfloat16"):
        opstep.Executor().run(program, scope=opstep.Scope())
    assert (tmp_path / "copy.st").read_bytes().endswith(raw)
    assert not (tmp_path / "copy.npy").exists()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_format_and_order_of_npy(
    tmp_path: Path, version: tuple[int, int], order: str
) -> None:
    value = np.asarray(array("int16", [3, 4, 5]), order=order)
    with open(tmp_path / "a.npy", "wb") as file:
        np.lib.format.write_array(file, value, version)
    same(run_load(tmp_path / "a.npy", "int16", [3, 4, 5]), value)


def test_combined(tmp_path: Path) -> None:
    values = {f"t{i}": array(dtype, [i, 3]) for i, dtype in enumerate(DTYPES)}
    path = tmp_path / "all.safetensors"
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        feeds = [layers.data(k, shape=list(v.shape), dtype=str(v.dtype)) for k, v in values.items()]
        ops.save_combined(feeds, path=str(path))
    opstep.Executor().run(program, feed=values, scope=opstep.Scope())
    read = load_file(path)
    assert read.keys() == values.keys()
    for name, value in values.items():
        same(read[name], value)

    program = opstep.Program()
    chosen = ["t5", "t0"]
    with opstep.program_guard(program, opstep.Program()):
        types = [f"{values[name].dtype}{list(values[name].shape)}" for name in chosen]
        outs = ops.load_combined(path=str(path), names=chosen, types=types, out=["a", "b"])
    got = opstep.Executor().run(program, fetch_list=list(outs), scope=opstep.Scope())
    for name, value in zip(chosen, got, strict=True):
        same(value, values[name])


def test_a_parameter_is_filled_from_a_file(tmp_path: Path) -> None:
    value = array("float32", [3, 2])
    np.save(tmp_path / "w.npy", value)
    startup, scope = opstep.Program(), opstep.Scope()
    with opstep.program_guard(startup):
        target = startup.global_block().create_var("w", [3, 2], persistable=True)
        ops.load(path=str(tmp_path / "w.npy"), shape=[3, 2], out=target)
    opstep.Executor().run(startup, scope=scope)
    same(scope.find("w"), value)
    # The file is read anew by each run.
    np.save(tmp_path / "w.npy", value + 1)
    opstep.Executor().run(startup, scope=scope)
    same(scope.find("w"), value + 1)


# --- what is refused ----------------------------------------------------------------------------


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "No such file or directory" in refused(tmp_path / "w.npy")
    assert "No such file or directory" in refused(tmp_path / "w.safetensors")


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    (tmp_path / "d.npy").mkdir()
    assert "it is a directory" in refused(tmp_path / "d.npy")
    os.mkfifo(tmp_path / "pipe.npy")  # must not hold us up
    assert "it is not a regular file" in refused(tmp_path / "pipe.npy")


@pytest.mark.parametrize("ending", [".npy", ".safetensors"])
def test_a_file_cut_anywhere(tmp_path: Path, ending: str) -> None:
    whole = tmp_path / f"whole{ending}"
    run_save(whole, array("float32", [2, 3]))
    data = whole.read_bytes()
    cut = tmp_path / f"cut{ending}"
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        refused(cut)
    cut.write_bytes(data + b"\0")
    refused(cut)
    cut.write_bytes(data)
    run_load(cut, "float32", [2, 3])


@pytest.mark.parametrize("ending", [".npy", ".safetensors"])
def test_another_dtype_or_shape(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"w{ending}"
    run_save(path, array("float32", [2, 3]))
    assert "float32[2, 3] but float64[2, 3] is wanted" in refused(path, "float64")
    assert "float32[2, 3] but float32[3, 2] is wanted" in refused(path, shape=(3, 2))
    assert "float32[2, 3] but float32[6] is wanted" in refused(path, shape=(6,))


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode("latin-1")
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a .npy file"),
        (b"PK\x03\x04 not at all a npy", "is not a .npy file"),
        (npy("{}"), "no proper .npy header"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)", b""), "no proper"),
        (npy("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 3)}"), "no proper"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}"), "no proper"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1e9)}"), "no proper"),
        (npy("{'descr': '<f4', 'shape': (2, 3)}"), "no proper"),
        (npy("{'descr': '<f4', 'descr': '<f4', 'shape': (2, 3)}"), "no proper"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} + 1"), "no proper"),
        (
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 30 + ",)}"),
            "no proper",
        ),
        (
            npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**62}, {2**62}, 2)}}"),
            "which is too large",
        ),
        (
            npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**40},)}}"),
            f"should have {2**42} bytes of data",
        ),
        (
            npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({'1, ' * 9})}}"),
            "more than 8 dimensions",
        ),
        (npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}"), "big-endian"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (2, 3)}"), "does not know"),
        (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}"), "records"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", b"abcd", 4), "format 4"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "header of 4294967295 bytes"),
    ],
)
def test_broken_npy_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "w.npy"
    path.write_bytes(content)
    assert message in refused(path)


def st(header: Any, data: bytes = bytes(24)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: str = "F32", shape: Any = (2, 3), place: Any = (0, 24)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": place}


TEXT = json.dumps(entry())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "too short"),
        (struct.pack("<Q", 2**63) + b"{}", "its header would have"),
        (struct.pack("<Q", 0), "its header would have 0 bytes"),
        (struct.pack("<Q", 100) + b"{}", "its header is cut"),
        (st(b"[]  "), "its header is not JSON"),
        (st(b'{"w":' + TEXT.encode()), "',' expected"),
        (st(b'{"w":' + TEXT.encode() + b"}x"), "the end expected"),
        (st(b'{"w":' + TEXT.encode() + b",}"), "a string expected"),
        (st(b'{"w":' + b'{"a":' * 100_000 + b"}"), "unknown field 'a'"),
        (st(b'{"w\xff":' + TEXT.encode() + b"}"), "UTF-8 expected"),
        (st(b'{"w\\ud800":' + TEXT.encode() + b"}"), "a whole character expected"),
        (st(b'{"w\n":' + TEXT.encode() + b"}"), "a printable character expected"),
        (st(f'{{"w":{TEXT},"w":{TEXT}}}'.encode()), "tensor 'w' occurs twice"),
        (st({"w": entry("F8_E4M3")}), "dtype 'F8_E4M3', which opstep does not know"),
        (st({"w": {"dtype": "F32", "shape": [2, 3]}}), "has no data_offsets"),
        (st({"w": entry(shape=[2, -3])}), "a whole number of 0 or more expected"),
        (st({"w": entry(shape=[2, 3.0])}), "expected"),
        (st({"w": entry(shape=[2, "3"])}), "a whole number of 0 or more expected"),
        (st({"w": entry(shape=[2, 2**64])}), "a whole number of 0 or more expected"),
        (st({"w": entry(shape=[2**62, 2**62])}), "which is too large"),
        (st({"w": entry(shape=[1] * 9)}), "more than 8 dimensions"),
        (st({"w": entry(shape=[2, 4])}), "needs 32 bytes, but its place is from 0 to 24"),
        (st({"w": entry(place=(24, 0))}), "its place is from 24 to 0"),
        (st({"w": entry(place=(8, 32))}), "leaves a hole before it"),
        (st({"w": entry()}, bytes(23)), "is not whole: tensor 'w' ends at byte 24"),
        (st({"w": entry()}, bytes(25)), "1 bytes that belong to no tensor"),
        (st({"w": entry(), "v": entry(place=(8, 32))}, bytes(32)), "overlaps"),
        (st({"w": entry(), "v": entry(place=(0, 24))}), "overlaps the one before it"),
        (st({"w": entry(), "v": entry(place=(2**62, 2**62 + 24))}), "leaves a hole"),
        (st({"__metadata__": {"a": 1}, "w": entry()}), "a string expected"),
        (st({"__metadata__": {}}, b""), "has 0 tensors: say with key which one"),
    ],
)
def test_broken_safetensors_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    assert message in refused(path)


def test_a_bool_that_is_none(tmp_path: Path) -> None:
    header = {"w": entry("BOOL", [2], (0, 2))}
    path = tmp_path / "w.safetensors"
    path.write_bytes(st(header, b"\x01\x02"))
    assert "a bool that is neither 0 nor 1" in refused(path, "bool", (2,))
    path = tmp_path / "w.npy"
    path.write_bytes(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", b"\x01\xff"))
    assert "a bool that is neither 0 nor 1" in refused(path, "bool", (2,))


def test_which_tensor_of_several(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"a": array("int8", [2]), "b": array("int8", [3])}, path)
    with pytest.raises(opstep.Error, match="has 2 tensors: say with key which one is wanted"):
        run_load(path, "int8", [2])
    with pytest.raises(opstep.Error, match="has no tensor 'c'"):
        run_load(path, "int8", [2], key="c")


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    value = array("float32", [2])
    (tmp_path / "d.npy").mkdir()
    (tmp_path / "plain").write_text("")
    for path, message in [
        (tmp_path / "new" / "w.npy", "there is no directory '.*/new'"),
        (tmp_path / "plain" / "w.npy", "there is no directory '.*/plain'"),
        (tmp_path / "d.npy", "it is a directory"),
        (Path("/dev/null"), "it is not a regular file"),
        (tmp_path / ("x" * 300 + ".st"), "File name too long"),
    ]:
        with pytest.raises(opstep.Error, match=message) as caught:
            run_save(path, value)
        assert str(caught.value).startswith("[save] cannot write ")
    assert {p.name for p in tmp_path.iterdir()} == {"d.npy", "plain"}  # no leftovers


def test_overwriting_is_a_choice(tmp_path: Path) -> None:
    path = tmp_path / "w.npy"
    run_save(path, array("int64", [2]), overwrite=False)
    path.chmod(0o640)
    with pytest.raises(opstep.Error, match="exists already and may not be overwritten"):
        run_save(path, array("int64", [3]), overwrite=False)
    same(np.load(path), array("int64", [2]))
    run_save(path, array("int64", [3]))
    same(np.load(path), array("int64", [3]))
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    np.save(tmp_path / "real" / "w.npy", np.zeros(1))
    (tmp_path / "w.npy").symlink_to(tmp_path / "real" / "w.npy")
    run_save(tmp_path / "w.npy", array("int64", [3]))
    assert (tmp_path / "w.npy").is_symlink()
    same(np.load(tmp_path / "real" / "w.npy"), array("int64", [3]))


FULL_DISK = """
import resource, sys, numpy as np, opstep
from opstep import layers, ops
with opstep.program_guard(program := opstep.Program(), opstep.Program()):
    x = layers.data("x", shape=[None])
    ops.save(x, path=sys.argv[1])
exe = opstep.Executor()
exe.run(program, feed={"x": np.ones(10, np.float32)})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    exe.run(program, feed={"x": np.ones(1000, np.float32)})
except opstep.Error as error:
    print(error)
exe.run(program, feed={"x": np.full(20, 2, np.float32)})
"""


@pytest.mark.parametrize("ending", ["npy", "safetensors"])
def test_the_old_file_stays_when_the_new_one_does_not_fit(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"w.{ending}"
    command = [sys.executable, "-c", FULL_DISK, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"[save] cannot write '{path}': File too large" in done.stdout
    read = np.load(path) if ending == "npy" else next(iter(load_file(path).values()))
    same(read, np.full(20, 2, np.float32))
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_load_leaves_scope_and_process_usable(tmp_path: Path) -> None:
    scope, exe = opstep.Scope(), opstep.Executor()
    scope.set("w", np.arange(3, dtype=np.float32))
    program = opstep.Program()
    with opstep.program_guard(program):
        w = program.global_block().create_var("w", [3], persistable=True)
        ops.load_combined(path=str(tmp_path / "w.st"), types=["float32[3]"], out=[w])
    save_file({"w": np.zeros(4, np.float32)}, tmp_path / "w.st")
    with pytest.raises(opstep.Error, match=r"'w' as float32\[4\] but float32\[3\] is wanted"):
        exe.run(program, scope=scope)
    same(scope.find("w"), np.arange(3, dtype=np.float32))
    save_file({"w": np.ones(3, np.float32)}, tmp_path / "w.st")
    exe.run(program, scope=scope)
    same(scope.find("w"), np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: ops.save(x, path=""), r"\[save\] path is empty"),
        (lambda x: ops.save([x, x], path="a"), "takes one variable, not 2"),
        (lambda x: ops.load(path="a", shape=[-1]), "every size must be 0 or more"),
        (
            lambda x: ops.save_combined([x], path="a", names=["b", "c"]),
            "names has 2 names for 1 tensors",
        ),
        (
            lambda x: ops.load_combined(path="a", types=["float32"], out=["b"]),
            r"types holds 'float32': write for example float32\[2, 3\]",
        ),
        (
            lambda x: ops.load_combined(path="a", types=["float32[2,x]"], out=["b"]),
            "types holds 'float32",
        ),
        (
            lambda x: ops.load_combined(path="a", types=[], out=["b"]),
            "types has 0 types for 1 tensors",
        ),
    ],
)
def test_while_building(build: Any, message: str) -> None:
    with opstep.program_guard(opstep.Program(), opstep.Program()):
        x = layers.data("x", shape=[2])
        with pytest.raises(opstep.Error, match=message) as caught:
            build(x)
    assert "test_files.py:" in str(caught.value)


def test_two_tensors_of_one_name(tmp_path: Path) -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", shape=[2])
        ops.save_combined([x, x], path=str(tmp_path / "a"))
    with pytest.raises(opstep.Error, match="two tensors are called 'x'"):
        opstep.Executor().run(program, feed={"x": np.zeros(2, np.float32)})
    assert not list(tmp_path.iterdir())
