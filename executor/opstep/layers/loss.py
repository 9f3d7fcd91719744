"""Losses and measures. Losses give one number for each row or element: take their mean."""

from __future__ import annotations

from opstep import ops
from opstep.variable import Variable

hinge_loss = ops.hinge_loss
huber_loss = ops.huber_loss
kl_div = ops.kl_div
nll_loss = ops.nll_loss
sigmoid_cross_entropy_with_logits = ops.sigmoid_cross_entropy_with_logits
smooth_l1_loss = ops.smooth_l1_loss


def cross_entropy(
    probabilities: Variable, label: Variable, soft_label: bool = False, name: str | None = None
) -> Variable:
    """-log of the label's probability for each row.

    `label` has one class a row, or with `soft_label` a probability for each class.
    """
    return ops.cross_entropy(probabilities, label, soft_label=soft_label, name=name)


def softmax_with_cross_entropy(
    logits: Variable, label: Variable, name: str | None = None
) -> Variable:
    """-log(softmax(logits)[label]) for each row, computed without overflow."""
    loss, _ = ops.softmax_with_cross_entropy(logits, label, name=name)
    return loss


def square_error_cost(x: Variable, label: Variable, name: str | None = None) -> Variable:
    """(x - label) squared, element by element."""
    return ops.square_error_cost(x, label, name=name)


def accuracy(scores: Variable, label: Variable, k: int = 1, name: str | None = None) -> Variable:
    """The share of rows whose label is among the k largest scores."""
    return ops.accuracy(scores, label, k=k, name=name)
