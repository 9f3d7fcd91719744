"""Attention: each query looks at all keys and takes a mean of their values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opstep import layers, ops
from opstep._core import Error
from opstep.imperative.function_layers import FC, Dropout
from opstep.imperative.layer import Layer
from opstep.layers._common import error, text

# Added to scores that do not count: e to that power is 0, and no sum of them overflows.
_FAR_BELOW = {"float16": -3e4}
_FAR_BELOW_OTHERS = -1e9


class MultiHeadAttention(Layer):
    """Attention with several heads (Vaswani and others, 2017): `attention(query, key, value)`.

    query is [batch, queries, width], key and value are [batch, keys, width]; without them the query
    looks at itself. `size` is the width of the result and of all heads together. Options other than
    `dropout`, of the attention's weights while training, are those of `layers.fc` and go to the
    four projections `query`, `key`, `value` and `out`.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        dropout: float = 0.0,
        name: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name)
        if heads < 1 or size % heads:
            raise Error(f"MultiHeadAttention: {heads} heads cannot divide the size {size}")
        self._size, self._heads = size, heads
        for part in ("query", "key", "value", "out"):
            setattr(self, part, FC(size, axis=2, **options))
        self.drop = Dropout(dropout) if dropout else None

    def forward(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        mask: Any = None,
        causal: bool = False,
        weights: bool = False,
    ) -> Any:
        """`mask` is broadcast with [batch, heads, queries, keys]: bools that are true where a query
        may look, or floats that are added to the scores. With `causal`, a query sees no key behind
        its own place. With `weights`, gives also the weights, [batch, heads, queries, keys].
        """
        key = query if key is None else key
        value = key if value is None else value
        for each in (query, key, value):
            if len(each.shape) != 3:
                raise error(
                    MultiHeadAttention,
                    f"'{each.name}' is {text(each)}: it must be [batch, steps, width]",
                )
        width = self._size // self._heads
        scaled = self.query(query) * (1.0 / math.sqrt(width))
        scores = ops.matmul(
            self._split(scaled, [0, 2, 1, 3]), self._split(self.key(key), [0, 2, 3, 1])
        )
        if causal:
            scores = _masked(scores, self._causal(query, key))
        if mask is not None:
            scores = _masked(scores, mask)
        shares = ops.softmax(scores, axis=-1)
        used = shares if self.drop is None else self.drop(shares)
        heads = ops.matmul(used, self._split(self.value(value), [0, 2, 1, 3]))
        joined = ops.reshape(ops.transpose(heads, perm=[0, 2, 1, 3]), shape=[0, 0, self._size])
        result = self.out(joined)
        return (result, shares) if weights else result

    def _split(self, x: Any, perm: list[int]) -> Any:
        """[batch, steps, size] as [batch, steps, heads, width], in that order of axes."""
        shape = [0, 0, self._heads, self._size // self._heads]
        return ops.transpose(ops.reshape(x, shape=shape), perm=perm)

    def _causal(self, query: Any, key: Any) -> Any:
        steps, seen = query.shape[1], key.shape[1]
        if steps is None or seen is None:
            raise error(
                MultiHeadAttention,
                f"'{query.name}' is {text(query)}: with causal=True the number of steps must be "
                "known",
            )
        return causal_mask(steps, seen)


def causal_mask(steps: int, keys: int | None = None) -> Any:
    """bool[steps, keys]: may a step look at a key? At those up to its own place, the last step at
    the last key. By default the number of keys is `steps`."""
    keys = steps if keys is None else keys
    return layers.constant(np.tri(steps, keys, keys - steps, dtype=bool))


def length_mask(lengths: Any, keys: int) -> Any:
    """bool[batch, 1, 1, keys]: which of the keys are inside sequences of these lengths, int64."""
    places = layers.constant(np.arange(keys))
    return ops.less(places, ops.reshape(lengths, shape=[-1, 1, 1, 1]))


def _masked(scores: Any, mask: Any) -> Any:
    if mask.dtype != "bool":
        return ops.add(scores, mask)
    return layers.where(mask, scores, _FAR_BELOW.get(scores.dtype, _FAR_BELOW_OTHERS))
