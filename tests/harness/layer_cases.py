"""Layers of one tensor with their equivalents in NumPy, and arrays to call layers with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import opstep
from opstep import layers

RNG = np.random.default_rng(5)
X = RNG.uniform(-2, 2, (3, 4)).astype(np.float32)
P = np.exp(X) / np.exp(X).sum(axis=1, keepdims=True)
LABEL = np.array([[2], [0], [3]])
IMAGES = RNG.uniform(-1, 1, (2, 4, 6, 5)).astype(np.float32)

SIMPLE: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "softmax": (lambda x: layers.softmax(x, axis=0), lambda x: np.exp(x) / np.exp(x).sum(axis=0)),
    "log_softmax": (layers.log_softmax, lambda x: np.log(P)),
    "where": (lambda x: layers.where(x > 0.0, x, 0.0), lambda x: np.maximum(x, 0)),
    "where of numbers": (lambda x: layers.where(x > 0.0, 2, -1), lambda x: np.where(x > 0, 2, -1)),
    "gelu": (lambda x: layers.gelu(x) - layers.gelu(-x), lambda x: x),
    "leaky_relu": (lambda x: layers.leaky_relu(x, alpha=0.5), lambda x: np.maximum(x, x / 2)),
    "prelu": (layers.prelu, lambda x: np.maximum(x, x / 4)),
    "prelu for each channel": (
        lambda x: layers.prelu(
            x, per_channel=True, weight_init=opstep.initializer.Assign([0, 0.5, 0.25, 1])
        ),
        lambda x: np.maximum(x, x * np.float32([0, 0.5, 0.25, 1])),
    ),
    "fill_like": (
        lambda x: layers.fill_like(x, 7, "int32"),
        lambda x: np.full_like(x, 7, np.int32),
    ),
    "zeros_like": (layers.zeros_like, np.zeros_like),
    "ones_like": (layers.ones_like, np.ones_like),
    "one_hot": (
        lambda x: layers.one_hot(layers.arg_max(x), 4),
        lambda x: np.eye(4, dtype=np.float32)[x.argmax(1)],
    ),
    "pad": (
        lambda x: layers.pad(x, [(1, 0), (0, 2)], value=9),
        lambda x: np.pad(x, [(1, 0), (0, 2)], constant_values=9),
    ),
    "pad with edges": (
        lambda x: layers.pad(x, [(2, 1), (0, 3)], "edge"),
        lambda x: np.pad(x, [(2, 1), (0, 3)], "edge"),
    ),
    "gather": (
        lambda x: layers.gather(x, layers.constant(np.array([3, 0, 3])), axis=1),
        lambda x: x[:, [3, 0, 3]],
    ),
    "triu": (lambda x: layers.triu(x, 1), lambda x: np.triu(x, 1)),
    "tril": (layers.tril, np.tril),
    "shape": (layers.shape, lambda x: np.array(x.shape)),
    "zeros": (lambda x: x + layers.zeros([4]), lambda x: x),
    "ones": (lambda x: x * layers.ones([3, 1]), lambda x: x),
    "reshape": (lambda x: layers.reshape(x, [2, -1]), lambda x: x.reshape(2, -1)),
    "transpose": (layers.transpose, lambda x: x.T),
    "squeeze": (lambda x: layers.squeeze(layers.unsqueeze(x, [0, 2]), 2), lambda x: x[None]),
    "flatten": (lambda x: layers.flatten(x, axis=0), lambda x: x.reshape(1, -1)),
    "expand": (lambda x: layers.expand(x, [2, 1, 1]), lambda x: np.stack([x, x])),
    "tile": (lambda x: layers.tile(x, [2, 3]), lambda x: np.tile(x, (2, 3))),
    "concat": (lambda x: layers.concat([x, x, x], axis=1), lambda x: np.hstack([x, x, x])),
    "stack": (lambda x: layers.stack([x, x + 1.0], axis=1), lambda x: np.stack([x, x + 1], 1)),
    "stack at the end": (lambda x: layers.stack([x, x], axis=-1), lambda x: np.stack([x, x], -1)),
    "split": (lambda x: layers.split(x, 2, axis=1)[1], lambda x: x[:, 2:]),
    "split by sizes": (lambda x: layers.split(x, [1, 3], axis=1)[1], lambda x: x[:, 1:]),
    "slice": (lambda x: layers.slice(x, [0, 3], [2, 0], steps=[1, -1]), lambda x: x[:2, 3:0:-1]),
    "arg_max": (layers.arg_max, lambda x: x.argmax(axis=-1)),
    "cast": (lambda x: layers.cast(x, "int32"), lambda x: x.astype(np.int32)),
    "maximum": (lambda x: layers.maximum(x, 0.5), lambda x: np.maximum(x, np.float32(0.5))),
    "clip": (lambda x: layers.clip(x, -0.5, 1.0), lambda x: x.clip(-0.5, 1)),
    "clip on one side": (lambda x: layers.clip(x, max=0.5), lambda x: x.clip(max=0.5)),
    "mean": (layers.mean, np.mean),
    "reduce_max": (lambda x: layers.reduce_max(x, 1), lambda x: x.max(axis=1)),
    "reduce_min": (lambda x: layers.reduce_min(x, [0], keepdims=True), lambda x: x.min(0)[None]),
    "reduce_prod": (lambda x: layers.reduce_prod(x, 0), lambda x: x.prod(axis=0)),
    "reduce_l1": (lambda x: layers.reduce_l1(x, 1), lambda x: abs(x).sum(axis=1)),
    "reduce_l2": (layers.reduce_l2, np.linalg.norm),
    "reduce_sum_square": (layers.reduce_sum_square, lambda x: (x * x).sum()),
    "reduce_log_sum": (lambda x: layers.reduce_log_sum(abs(x), 0), lambda x: np.log(abs(x).sum(0))),
    "reduce_log_sum_exp": (layers.reduce_log_sum_exp, lambda x: np.log(np.exp(x).sum())),
    "reduce_all": (lambda x: layers.reduce_all(x > -1.0, 1), lambda x: (x > -1).all(axis=1)),
    "reduce_any": (lambda x: layers.reduce_any(x > 1.0, 1), lambda x: (x > 1).any(axis=1)),
    "arg_min": (layers.arg_min, lambda x: x.argmin(axis=-1)),
    "topk": (lambda x: layers.topk(x, 2)[0], lambda x: -np.sort(-x)[:, :2]),
    "topk's places": (lambda x: layers.topk(x, 2)[1], lambda x: np.argsort(-x)[:, :2]),
    "cumsum": (lambda x: layers.cumsum(x, axis=0), lambda x: x.cumsum(axis=0)),
    "hinge_loss": (
        lambda x: layers.hinge_loss(x, layers.ones_like(x)),
        lambda x: np.maximum(0, 1 - x),
    ),
    "square_error_cost": (lambda x: layers.square_error_cost(x, x * 3.0), lambda x: 4 * x * x),
    "floor": (layers.floor, np.floor),
    "erf": (lambda x: layers.erf(x * 0.0), lambda x: x * 0),
    "isnan": (lambda x: layers.isnan(layers.log(x)), lambda x: x < 0),
}
