"""Python's operators, indexes and methods of variables, against NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import layers

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5) - 7
INDEXES: list[Any] = [
    0,
    -1,
    (1, 2),
    (1, 2, -5),
    slice(1, 3),
    slice(None, None, 2),
    slice(None, None, -1),
    slice(-2, None),
    slice(2, 0, -1),
    slice(100, 200),
    slice(None, -1),
    (slice(None), 1),
    (slice(None), slice(3, 0, -2), 0),
    ...,
    (..., 0),
    (..., None),
    None,
    (None, 1, None, slice(1, 2), None),
    (0, ..., slice(None, None, 3)),
    (..., 1, None, slice(2, 4)),
    np.int64(2),
    (),
]


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "batch"])
@pytest.mark.parametrize("key", INDEXES, ids=repr)
def test_indexes(world, key: Any, unknown: bool) -> None:
    x = layers.data("x", [None if unknown else 3, 4, 5])
    y = x[key]
    (value,) = world.exe.run(feed={"x": X}, fetch_list=[y])
    assert np.array_equal(value, X[key])
    assert len(y.shape) == X[key].ndim


def test_the_gradient_of_an_index(world) -> None:
    w = world.main.global_block().create_parameter("w", [3, 4])
    ((_, gradient),) = opstep.append_backward(layers.reduce_sum(w[1, ::2] * 2.0))
    world.exe.run(world.startup)
    (value,) = world.exe.run(fetch_list=[gradient])
    expected = np.zeros((3, 4), np.float32)
    expected[1, ::2] = 2
    assert np.array_equal(value, expected)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (3, "index 3 is outside axis 0, which has the size 3"),
        ((0, -5), "index -5 is outside axis 1, which has the size 4"),
        ((0, 0, 0, 0), "4 indexes but 3 axes"),
        ((..., 0, ...), "only once"),
        (slice(None, None, 0), "must not be 0"),
        (slice(0.5, None), "whole numbers"),
        ("a", "a str is not an index"),
        (1.5, "a float is not an index"),
        (True, "a bool is not an index"),
    ],
    ids=repr,
)
def test_a_wrong_index(world, key: Any, message: str) -> None:
    x = layers.data("x", [3, 4, 5])
    with pytest.raises(opstep.Error, match=f"'x', which is .*{message}.*test_operators.py:"):
        x[key]


def test_a_variable_is_not_a_sequence(world) -> None:
    x = layers.data("x", [3])
    with pytest.raises(opstep.Error, match="cannot go through 'x'"):
        list(x)


FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda x: abs(x),
    lambda x: x.T,
    lambda x: x.reshape(4, -1),
    lambda x: x.reshape([15, 4]),
    lambda x: x.reshape(60),
    lambda x: x.sum(),
    lambda x: x.sum(axis=1),
    lambda x: x.max(axis=(0, 2)),
    lambda x: x.min(axis=-1, keepdims=True),
    lambda x: x.mean(axis=0),
    lambda x: x.astype("int32"),
    lambda x: (x > 3) & (x < 20),
    lambda x: (x < 3) | (x > 20),
    lambda x: (x > 3) ^ (x < 20),
    lambda x: ~(x < 3),
    lambda x: (x < 3) & True,
    lambda x: x[0] @ x[1].T,
    lambda x: 2.0 ** x[0],
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_methods_and_operators(world, function: Callable[[Any], Any]) -> None:
    y = function(layers.data("x", [3, 4, 5]))
    (value,) = world.exe.run(feed={"x": X}, fetch_list=[y])
    expected = function(X)
    assert value.dtype == expected.dtype
    np.testing.assert_allclose(value, expected, rtol=1e-5)
