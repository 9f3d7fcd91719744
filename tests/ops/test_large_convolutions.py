"""Convolutions that are large enough for pieces: float32 against plain loops in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opstep
from opstep import layers, ops

CASES: list[tuple[str, list[int], list[int], dict[str, Any]]] = [
    ("conv", [1, 16, 30, 30], [64, 16, 3, 3], {"pads": [1, 1, 1, 1]}),
    ("conv", [3, 16, 30, 30], [96, 16, 3, 3], {"pads": [0, 1, 2, 1], "strides": [1, 2]}),
    ("conv", [2, 3, 61, 63], [16, 3, 7, 7], {"pads": [3, 3, 3, 3], "strides": [2, 2]}),
    ("conv", [1, 5, 40, 37], [32, 5, 3, 2], {"dilations": [3, 2], "pads": [2, 0, 9, 5]}),
    ("conv", [1, 64, 31, 29], [48, 64, 1, 1], {"strides": [2, 1]}),
    ("conv", [2, 9, 26, 80], [16, 9, 1, 3], {"strides": [1, 3], "pads": [1, 4, 2, 0]}),
    ("conv", [11, 8, 21, 20], [24, 8, 5, 5], {"dilations": [2, 1]}),
    ("conv", [23, 12, 15, 15], [21, 4, 3, 3], {"group": 3}),
    ("conv", [9, 32, 33, 31], [32, 1, 3, 3], {"group": 32, "pads": [1, 1, 1, 1]}),
    ("conv", [5, 16, 2000], [32, 16, 7], {"strides": [2]}),
    ("conv", [5, 8, 9, 10, 11], [16, 8, 3, 3, 3], {}),
    ("conv", [17, 64, 14, 14], [128, 64, 1, 1], {"strides": [2, 2]}),
    ("conv_transpose", [5, 32, 9, 9], [32, 16, 4, 4], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    (
        "conv_transpose",
        [7, 16, 10, 9],
        [16, 8, 3, 3],
        {"strides": [2, 2], "output_padding": [1, 1]},
    ),
    ("conv_transpose", [1, 32, 200], [32, 8, 5], {"strides": [3], "group": 2}),
]


def results(
    op: str, arrays: list[np.ndarray], attrs: dict[str, Any], dtype: str
) -> list[np.ndarray]:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        names = ("X", "W", "B")
        inputs = [layers.data(n, list(a.shape), dtype) for n, a in zip(names, arrays, strict=True)]
        for variable in inputs:
            variable.stop_gradient = False
        out = getattr(ops, op)(*inputs, **attrs)
        # Another factor for each element, so that no gradient is the sum of equal things.
        loss = ops.reduce_sum(ops.mul(out, ops.mul(out, out)), keepdims=False)
        pairs = opstep.append_backward(loss, inputs)
    feed = {n: a.astype(dtype) for n, a in zip(names, arrays, strict=True)}
    fetch = [out, *(gradient for _, gradient in pairs)]
    return opstep.Executor().run(program, feed=feed, fetch_list=fetch, scope=opstep.Scope())


@pytest.mark.parametrize(("op", "x", "w", "attrs"), CASES)
def test_results_and_gradients(op: str, x: list[int], w: list[int], attrs: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    channels = w[0] if op == "conv" else w[1] * attrs.get("group", 1)
    arrays = [rng.uniform(-1, 1, shape) for shape in (x, w, [channels])]
    for got, expected in zip(
        results(op, arrays, attrs, "float32"), results(op, arrays, attrs, "float64"), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
