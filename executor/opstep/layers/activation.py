"""Activations. `act="relu"` of a layer takes any of their names."""

from __future__ import annotations

from opstep import ops
from opstep.initializer import Constant, Initializer, chosen
from opstep.layers._common import Attrs, base_name, error, parameter, text
from opstep.variable import Variable

celu = ops.celu
elu = ops.elu
gelu = ops.gelu
hard_sigmoid = ops.hard_sigmoid
hard_swish = ops.hard_swish
leaky_relu = ops.leaky_relu
mish = ops.mish
relu = ops.relu
selu = ops.selu
sigmoid = ops.sigmoid
silu = ops.silu
softplus = ops.softplus
softsign = ops.softsign
tanh = ops.tanh
thresholded_relu = ops.thresholded_relu


def softmax(x: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """exp(x) divided by its sum along an axis."""
    return ops.softmax(x, axis=axis, name=name)


def log_softmax(x: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """The logarithm of softmax, computed without overflow."""
    return ops.log_softmax(x, axis=axis, name=name)


def prelu(
    x: Variable,
    per_channel: bool = False,
    name: str | None = None,
    weight_init: Initializer | None = None,
    weight_attr: Attrs = None,
) -> Variable:
    """x where it is not negative, else x times a slope that is learned, one or for each channel."""
    base = base_name(x, prelu, name)
    shape = [1]
    if per_channel:
        if len(x.shape) < 2 or x.shape[1] is None:
            raise error(prelu, f"'{x.name}' is {text(x)}: its channels, axis 1, must be known")
        shape = [x.shape[1], *[1] * (len(x.shape) - 2)]
    slope = parameter(x, f"{base}.w", shape, chosen(weight_init, Constant(0.25)), weight_attr)
    return ops.prelu(x, slope, name=base)
