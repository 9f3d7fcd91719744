"""Losses and measures."""

from __future__ import annotations

from opstep import ops
from opstep.layers._common import Step, base_name, chain, error, text
from opstep.variable import Variable


def cross_entropy(
    probabilities: Variable, label: Variable, soft_label: bool = False, name: str | None = None
) -> Variable:
    """-log of the label's probability for each row.

    `label` has one class a row, or with `soft_label` a probability for each class.
    """
    base = base_name(probabilities, cross_entropy, name)
    if soft_label:
        logs = ops.log(probabilities, name=f"{base}.log")
        terms = ops.mul(logs, label, name=f"{base}.mul")
        total = ops.reduce_sum(terms, axes=[-1], name=f"{base}.reduce_sum")
        return ops.neg(total, name=f"{base}.neg", out=f"{base}.out")
    flat = len(label.shape) == len(probabilities.shape) - 1
    if flat:
        label = ops.unsqueeze(label, axes=[-1], name=f"{base}.unsqueeze")
    elif len(label.shape) != len(probabilities.shape) or label.shape[-1] not in (1, None):
        raise error(
            cross_entropy,
            f"'{probabilities.name}' is {text(probabilities)} but '{label.name}' is {text(label)}: "
            "a label must be one class for each row",
        )
    steps: list[Step] = [
        (ops.gather_elements, {"indices": label, "axis": -1}),
        (ops.log, ()),
        (ops.neg, ()),
    ]
    if flat:
        steps.append((ops.squeeze, {"axes": [-1]}))
    return chain(probabilities, base, steps)


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
