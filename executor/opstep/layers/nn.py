"""Layers with parameters."""

from __future__ import annotations

import math

from opstep import ops
from opstep.initializer import Constant, Initializer, Xavier
from opstep.layers._common import Attrs, activation, base_name, chain, error, parameter, text
from opstep.variable import Variable


def fc(
    x: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    weight_init: Initializer | None = None,
    bias_init: Initializer | None = None,
    bias: bool = True,
    weight_attr: Attrs = None,
    bias_attr: Attrs = None,
) -> Variable:
    """Fully connected: act(x @ w + b). Dimensions of x after the first are taken as one.

    `weight_attr` and `bias_attr` are the parameters' `optimize_attr`: {"weight_decay": 0.0}.
    """
    base = base_name(x, fc, name)
    last = activation(fc, act)
    if len(x.shape) < 2:
        raise error(fc, f"'{x.name}' has the shape {text(x)}: it needs a batch and features")
    features = x.shape[1:]
    if None in features:
        raise error(fc, f"'{x.name}' is {text(x)}: all its sizes but the first must be known")
    width = math.prod(size or 0 for size in features)
    if len(x.shape) > 2:
        x = ops.reshape(x, shape=[-1, width], name=f"{base}.reshape")
    w = parameter(x, f"{base}.w", [width, size], weight_init or Xavier(), weight_attr)
    steps = [(ops.matmul, (w,))]
    if bias:
        b = parameter(x, f"{base}.b", [size], bias_init or Constant(0.0), bias_attr)
        steps.append((ops.add, (b,)))
    return chain(x, base, steps + last)
