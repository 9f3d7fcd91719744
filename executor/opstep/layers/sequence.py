"""Layers for ragged variables, which know where sequences begin. With several levels of sequences,
they use the innermost one."""

from __future__ import annotations

from opstep import ops
from opstep.layers._common import Layer, error
from opstep.variable import SequenceLevel, Variable


def sequence_pool(
    x: Variable, pool: str, pad_value: float = 0.0, name: str | None = None
) -> Variable:
    """A row for each sequence: the sum, mean, sqrt (the sum divided by the root of the length),
    max, first or last of its rows; of an empty one, `pad_value`."""
    level = _level(sequence_pool, x)
    made = ops.sequence_pool(x, level.offsets, pool=pool, pad_value=pad_value, name=name)
    made._set_lod(x.lod[:-1])
    return made


def sequence_first_step(x: Variable, name: str | None = None) -> Variable:
    """The first row of each sequence; zeros of an empty one."""
    return sequence_pool(x, "first", name=name)


def sequence_last_step(x: Variable, name: str | None = None) -> Variable:
    """The last row of each sequence; zeros of an empty one."""
    return sequence_pool(x, "last", name=name)


def sequence_softmax(x: Variable, name: str | None = None) -> Variable:
    """Exponentials of the rows within each sequence, scaled so that their sum is 1."""
    return ops.sequence_softmax(x, _level(sequence_softmax, x).offsets, name=name)


def sequence_expand(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Row i of x for each row of sequence i of y; the sequences are those of y."""
    return ops.sequence_expand(x, _level(sequence_expand, y).offsets, y, name=name)


def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """The rows of each sequence in reverse order."""
    return ops.sequence_reverse(x, _level(sequence_reverse, x).offsets, name=name)


def sequence_pad(x: Variable, pad_value: float = 0.0, name: str | None = None) -> Variable:
    """The sequences side by side, [steps of the longest, sequences, ...], filled up at the end."""
    level = _level(sequence_pad, x)
    return ops.sequence_pad(x, level.offsets, level.steps, pad_value=pad_value, name=name)


def sequence_unpad(x: Variable, like: Variable, name: str | None = None) -> Variable:
    """The steps of x, [steps, sequences, ...], that are in the sequences of `like`; ragged too."""
    return ops.sequence_unpad(x, _level(sequence_unpad, like).offsets, like, name=name)


def sequence_mask(x: Variable, name: str | None = None) -> Variable:
    """Where `sequence_pad(x)` has a row of x: bool[steps of the longest, sequences]."""
    level = _level(sequence_mask, x)
    return ops.sequence_mask(offsets=[level.offsets], steps=level.steps, name=name)


def _level(layer: Layer, x: Variable) -> SequenceLevel:
    if not isinstance(x, Variable):
        raise error(layer, f"takes a ragged variable, not a {type(x).__name__}")
    if not x.lod_level:
        raise error(
            layer,
            f"'{x.name}' is not ragged: declare its data with lod_level=1, as in "
            "layers.data(..., lod_level=1)",
        )
    return x.lod[-1]
