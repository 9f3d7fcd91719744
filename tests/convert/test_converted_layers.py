"""The class layers, converted: the same results and the same state as line by line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import opstep
from harness.modes import bits, line_by_line
from opstep import imperative, layers

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
LAYERS: dict[str, Callable[[], imperative.Layer]] = {
    "LSTM": lambda: imperative.LSTM(4),
    "GRU": lambda: imperative.GRU(4),
    "MultiHeadAttention": lambda: imperative.MultiHeadAttention(8, 2),
    "BatchNorm": lambda: imperative.BatchNorm(),
    "Dropout": lambda: imperative.Dropout(0.3),
    "Sequential": lambda: imperative.Sequential(
        imperative.FC(3), layers.relu, imperative.LayerNorm()
    ),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_a_class_layer(kind: str) -> None:
    layer, twin = LAYERS[kind](), LAYERS[kind]()
    imperative.seed(1)
    converted = opstep.to_graph(layer)
    got = [converted(X) for _ in range(2)]
    imperative.seed(1)
    with imperative.no_grad():
        wanted = [line_by_line(twin, X) for _ in range(2)]
    assert bits(got) == bits(wanted)
    assert bits(layer.state_dict()) == bits(twin.state_dict())
