"""Imperative mode: the same ops, layers and optimizers run line by line.

with opstep.imperative.guard():
    x = opstep.imperative.to_variable(array)
    loss = layers.mean(model(x))
    loss.backward()
"""

from opstep.gradients import grad
from opstep.imperative.layer import Layer
from opstep.imperative.mode import disable, enable, enabled, guard, no_grad, seed
from opstep.imperative.nn import (
    FC,
    BatchNorm,
    Conv2D,
    Conv2DTranspose,
    Dropout,
    Embedding,
    LayerNorm,
    Pool2D,
    Sequential,
)
from opstep.imperative.value import ParameterValue, Value, to_variable

__all__ = [
    "FC",
    "BatchNorm",
    "Conv2D",
    "Conv2DTranspose",
    "Dropout",
    "Embedding",
    "Layer",
    "LayerNorm",
    "ParameterValue",
    "Pool2D",
    "Sequential",
    "Value",
    "disable",
    "enable",
    "enabled",
    "grad",
    "guard",
    "no_grad",
    "seed",
    "to_variable",
]
