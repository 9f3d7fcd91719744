"""The 16-bit floats bit by bit, narrow integers, and their way from and to NumPy."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opstep
from opstep import layers, ops

# NaN and what overflows are part of what is tested.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
BFLOAT16 = ml_dtypes.bfloat16
FLOATS = [np.float16, BFLOAT16]


def run(array: np.ndarray, op: Any) -> np.ndarray:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        out = op(layers.data("x", list(array.shape), str(array.dtype)))
    (value,) = opstep.Executor().run(program, {"x": array}, [out], scope=opstep.Scope())
    return value


def cast(array: np.ndarray, to: Any) -> np.ndarray:
    return run(array, lambda x: ops.cast(x, to=np.dtype(to).name))


def same(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), nan)
    bits = f"u{got.dtype.itemsize}"
    np.testing.assert_array_equal(got.view(bits)[~nan], expected.view(bits)[~nan])


@pytest.mark.parametrize("kind", FLOATS)
def test_every_value_widens_as_in_numpy(kind: Any) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(kind)
    same(cast(every, np.float32), every.astype(np.float32))
    same(cast(every, np.float64), every.astype(np.float64))


@pytest.mark.parametrize("kind", FLOATS)
def test_floats_round_to_the_nearest_even(kind: Any) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(kind)
    finite = np.unique(every[np.isfinite(every)].astype(np.float32))
    with np.errstate(over="ignore"):
        # The middle of two neighbours, and what lies next to it.
        middle = finite[:-1] / 2 + finite[1:] / 2
        near = [np.nextafter(middle, np.float32(to)) for to in (-np.inf, np.inf)]
        ends = np.array([65519.99, 65520, 3.39e38, 3.4e38, 1e-46], np.float32)
        values = np.concatenate([middle, *near, ends, -ends, [np.nan, np.inf, -np.inf, -0.0]])
        values = values.astype(np.float32)
        same(cast(values, kind), values.astype(kind))


@pytest.mark.parametrize(("kind", "bits"), [(np.float16, 11), (BFLOAT16, 8)])
def test_doubles_are_rounded_once(kind: Any, bits: int) -> None:
    # Rounded to float32 first these would lie in the middle, and then go to the even side.
    unit = 2.0 ** (1 - bits)
    values = np.array([1 + unit / 2 + 2**-40, 1 + 1.5 * unit - 2**-40])
    values = np.concatenate([values, -values])
    expected = [1 + unit, 1 + unit, -1 - unit, -1 - unit]
    assert cast(values, kind).astype(np.float64).tolist() == expected


def test_floats_that_integers_cannot_hold_become_their_limits() -> None:
    values = np.array([1e30, -1e30, np.inf, -np.inf, np.nan, 300.7, -300.7])
    for kind in FLOATS:
        assert cast(values.astype(kind), np.int8).tolist() == [127, -128, 127, -128, 0, 127, -128]
    assert cast(values, np.uint8).tolist() == [255, 0, 255, 0, 0, 255, 0]
    assert cast(values, np.int64).tolist()[:4] == [2**63 - 1, -(2**63)] * 2


def test_narrow_integers_wrap() -> None:
    x = np.array([127, -128, 100], np.int8)
    assert run(x, lambda v: v + v).tolist() == [-2, 0, -56]
    assert run(x, lambda v: ops.abs(v)).tolist() == [127, -128, 100]
    assert run(x, lambda v: ops.reduce_sum(v, keepdims=False)).tolist() == 99
    assert run(x.view(np.uint8), lambda v: v * v).tolist() == [1, 0, 16]


def test_sums_of_16_bit_floats_are_rounded_once() -> None:
    # In 16 bits 2048 + 1 is 2048 and 256 + 1 is 256.
    assert run(np.ones(5000, np.float16), lambda v: ops.reduce_sum(v, keepdims=False)) == 5000
    ones = np.ones((3000, 2), BFLOAT16)
    got = run(ones, lambda v: ops.reduce_sum(v, axes=[0], keepdims=False))
    assert got.astype(np.float32).tolist() == [3008.0, 3008.0]


def test_bfloat16_needs_ml_dtypes_only_when_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(3).astype(BFLOAT16)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert run(array, lambda v: ops.cast(v + v, to="float32")).tolist() == [0, 2, 4]
    with pytest.raises(opstep.Error, match="install ml_dtypes"):
        run(array, lambda v: v + v)


def test_a_constant_may_be_bfloat16() -> None:
    array = np.array([1.5, -2.0]).astype(BFLOAT16)
    assert run(array, lambda v: v + layers.constant(array)).tolist() == [3.0, -4.0]


def test_lists_become_bfloat16() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        out = layers.data("x", [2], "bfloat16") * layers.constant([3, 4.0], dtype="bfloat16")
    (value,) = opstep.Executor().run(program, {"x": [1, -2.5]}, [out], scope=opstep.Scope())
    assert (value.dtype, value.tolist()) == (BFLOAT16, [3.0, -10.0])


def test_a_value_must_fit_its_dtype() -> None:
    with pytest.raises(opstep.Error, match="value is 300, which uint8 cannot hold"):
        run(np.zeros(1), lambda v: layers.fill([1], 300, "uint8"))
