"""Losses and measures."""

from __future__ import annotations

from opstep import ops
from opstep.layers._common import base_name
from opstep.variable import Variable


def softmax_with_cross_entropy(
    logits: Variable, label: Variable, name: str | None = None
) -> Variable:
    """-log(softmax(logits)[label]) for each row, computed without overflow."""
    loss, _ = ops.softmax_with_cross_entropy(logits, label, name=name)
    return loss


def square_error_cost(x: Variable, label: Variable, name: str | None = None) -> Variable:
    """(x - label) squared, element by element."""
    base = base_name(x, square_error_cost, name)
    difference = ops.sub(x, label, name=f"{base}.sub")
    return ops.mul(difference, difference, name=f"{base}.mul", out=f"{base}.out")


def accuracy(scores: Variable, label: Variable, name: str | None = None) -> Variable:
    """The share of rows whose largest score is at the label's place."""
    base = base_name(scores, accuracy, name)
    keep = len(label.shape) == len(scores.shape)
    guess = ops.arg_max(scores, axis=-1, keepdims=keep, name=f"{base}.arg_max")
    right = ops.equal(guess, label, name=f"{base}.equal")
    as_float = ops.cast(right, to="float32", name=f"{base}.cast")
    return ops.reduce_mean(as_float, keepdims=False, name=f"{base}.reduce_mean", out=f"{base}.out")
