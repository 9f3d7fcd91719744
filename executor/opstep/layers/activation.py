"""Activations. `act="relu"` of a layer takes any of their names."""

from __future__ import annotations

from opstep import ops
from opstep.variable import Variable

relu = ops.relu
sigmoid = ops.sigmoid
tanh = ops.tanh


def softmax(x: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """exp(x) divided by its sum along an axis."""
    return ops.softmax(x, axis=axis, name=name)
