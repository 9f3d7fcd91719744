"""Imperative mode: the same ops, layers and optimizers run line by line.

with opstep.imperative.guard():
    x = opstep.imperative.to_variable(array)
    loss = layers.mean(model(x))
    loss.backward()
"""

from opstep.imperative.attention import MultiHeadAttention, causal_mask, length_mask
from opstep.imperative.containers import LayerList, Sequential
from opstep.imperative.function_layers import (
    FC,
    BatchNorm,
    Conv2D,
    Conv2DTranspose,
    Dropout,
    Embedding,
    LayerNorm,
    Pool2D,
)
from opstep.imperative.layer import Layer
from opstep.imperative.mode import disable, enable, enabled, guard, no_grad, seed
from opstep.imperative.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from opstep.imperative.value import ParameterValue, Value, to_variable
from opstep.train.gradients import grad

__all__ = [
    "FC",
    "GRU",
    "LSTM",
    "RNN",
    "BatchNorm",
    "Conv2D",
    "Conv2DTranspose",
    "Dropout",
    "Embedding",
    "GRUCell",
    "LSTMCell",
    "Layer",
    "LayerList",
    "LayerNorm",
    "MultiHeadAttention",
    "ParameterValue",
    "Pool2D",
    "RNNCell",
    "Sequential",
    "Value",
    "causal_mask",
    "disable",
    "enable",
    "enabled",
    "grad",
    "guard",
    "length_mask",
    "no_grad",
    "seed",
    "to_variable",
]
