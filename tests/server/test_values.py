"""Text for values."""

from __future__ import annotations

import numpy as np
import pytest

from opstep_server import values
from opstep_server.wire import debug_pb2 as pb


def tensor(array: np.ndarray, *, dtype: str | None = None, data: bool = True) -> pb.Value:
    finite = array[np.isfinite(array)].astype(np.float64)
    summary = pb.TensorSummary(
        count=array.size, nan=int(np.isnan(array).sum()), inf=int(np.isinf(array).sum()),
        zeros=int((array == 0).sum()),
    )  # fmt: skip
    if finite.size:
        summary.min, summary.max = finite.min(), finite.max()
        summary.mean, summary.std = finite.mean(), finite.std()
    return pb.Value(
        tensor=pb.Tensor(
            dtype=(dtype or array.dtype.name).upper(),
            dims=array.shape,
            summary=summary,
            data=array.tobytes() if data else b"",
        )
    )


F32 = np.float32


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pb.Value(b=True), "True"),
        (pb.Value(i=-3), "-3"),
        (pb.Value(f=1 / 3), "0.3333"),
        (pb.Value(s="relu"), "'relu'"),
        (pb.Value(absent="released after op #12"), "<released after op #12>"),
        (pb.Value(list={"values": [pb.Value(i=1), pb.Value(i=2)]}), "[1, 2]"),
        (pb.Value(), "<no value>"),
        (tensor(np.array(2.5, F32)), "float32[] 2.5"),
        (tensor(np.array([[2.5]], F32)), "float32[1, 1] [[2.5]]"),
        (tensor(np.array([1, 2, 3])), "int64[3] [1, 2, 3]"),
        (tensor(np.array([True, False])), "bool[2] [True, False]"),
        (tensor(np.array([1, np.nan, -np.inf], F32)), "float32[3] [1, nan, -inf]"),
        (
            tensor(np.linspace(-2, 4, 1280, dtype=F32).reshape(128, 10), data=False),
            "float32[128, 10] mean 1 std 1.733 [-2, 4]",
        ),
        (
            tensor(np.array([[1, np.nan], [3, np.inf]] * 3, F32)),
            "float32[6, 2] mean 2 std 1 [1, 3] 3 NaN 3 Inf",
        ),
        (tensor(np.full(20, np.nan, F32)), "float32[20] 20 NaN"),
        (tensor(np.arange(20)), "int64[20] mean 9.5 std 5.766 [0, 19]"),
        (tensor(np.arange(20) > 14), "bool[20] 5 of 20 True"),
        (tensor(np.zeros((0, 3), F32)), "float32[0, 3] empty"),
    ],
)
def test_describe(value: pb.Value, text: str):
    assert values.describe(value) == text


def ragged(rows: int, *levels: list[int]) -> pb.Value:
    value = tensor(np.ones((rows, 2), F32))
    for lengths in levels:
        # As the executor sends them, with the first lengths only.
        value.tensor.sequences.add(offsets="x@offsets", count=len(lengths), lengths=lengths[:16])
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ragged(7, [3, 0, 4]), "[7 rows in 3 sequences, 2] lengths 3, 0, 4"),
        (
            ragged(6, [1, 2], [1, 2, 3]),
            "[6 rows in 3 sequences in 2 outer ones, 2] lengths 1, 2, 3",
        ),
        (ragged(20, [1] * 20), f"[20 rows in 20 sequences, 2] lengths {'1, ' * 8}…"),
        (ragged(0, [0]), "[0 rows in 1 sequences, 2] lengths 0"),
        (ragged(0, []), "[0 rows in 0 sequences, 2]"),
    ],
)
def test_describe_ragged(value: pb.Value, text: str):
    figures = "mean 1 std 0 [1, 1]" if value.tensor.dims[0] else "empty"
    assert values.describe(value) == f"ragged float32{text} {figures}"


def test_in_full_shows_rows():
    text = values.in_full(tensor(np.arange(6, dtype=F32).reshape(1, 2, 3)))
    assert text.splitlines()[1:] == ["[[[0, 1, 2],", "  [3, 4, 5]]]"]
    assert "\n" not in values.in_full(tensor(np.arange(6, dtype=F32).reshape(2, 3), data=False))


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool"]
)
def test_elements_of_every_dtype(dtype: str):
    array = np.array([0, 1, 3], dtype)
    assert values.elements(tensor(array).tensor) == array.tolist()


def test_bfloat16_elements():
    array = np.array([1.0, -2.5, 3e38], F32)
    upper = (array.view(np.uint32) >> 16).astype(np.uint16)
    found = values.elements(tensor(upper, dtype="bfloat16").tensor)
    assert found[:2] == [1.0, -2.5]
    assert found[2] == pytest.approx(3e38, rel=0.01)


def test_type_name_has_a_mark_for_unknown_sizes():
    assert values.type_name(1, [-1, 10]) == "float32[?, 10]"


@pytest.mark.parametrize(
    "array",
    [
        np.array([[0.1, -1e-30], [np.inf, -0.0], [np.finfo(F32).max, np.finfo(F32).tiny]], F32),
        np.array([1 / 3, -0.0, 1e100, np.nan], np.float64),
        np.array([0.1, 65504, 6e-8], np.float16),
        np.array([[[1], [2**62]]], np.int64),
        np.array([True, False]),
        np.array(2.5, F32),
        np.zeros((2, 0), F32),
    ],
)
def test_a_copied_tensor_is_the_same_in_python(array: np.ndarray) -> None:
    copied = eval(values.as_array(tensor(array).tensor), {"np": np})
    assert copied.dtype == array.dtype
    assert copied.shape == array.shape
    assert copied.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (float(F32(0.1)), "0.1"),
        (0.1, "0.1"),
        (1 / 3, "0.3333333333333333"),
        (1e300, "1e+300"),
        (5.0, "5"),
        (float("-inf"), "-np.inf"),
    ],
)
def test_a_copied_number_has_all_its_digits(number: float, text: str) -> None:
    assert values.as_number(number) == text


def test_elements_as_bits() -> None:
    vector = tensor(np.array([1, -2, np.nan], F32))
    bits = values.describe(vector, vector.tensor.dtype)
    assert bits == "float32[3] [0x3f800000, 0xc0000000, 0x7fc00000]"
    vector = tensor(np.array([-1, 255], np.int16))
    assert values.describe(vector, vector.tensor.dtype) == "int16[2] [0xffff, 0x00ff]"
