"""Normalization."""

from __future__ import annotations

from opstep import ops
from opstep.foreign_names import with_hints
from opstep.initializer import Constant, Initializer
from opstep.layers._common import (
    Attrs,
    Layer,
    activation,
    base_name,
    chain,
    error,
    parameter,
    text,
)
from opstep.variable import Variable

lrn = ops.lrn


@with_hints
def batch_norm(
    x: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    name: str | None = None,
    scale_init: Initializer | None = None,
    bias_init: Initializer | None = None,
    scale_attr: Attrs = None,
    bias_attr: Attrs = None,
) -> Variable:
    """Each channel (axis 1) of a batch with mean 0 and variance 1, then scale and bias.

    Running means of both moments are kept in `<name>.mean` and `<name>.var`; a test uses those.
    `Program.clone(for_test=True)` turns `is_test` on.
    """
    base = base_name(x, batch_norm, name)
    last = activation(batch_norm, act)
    channels = _channels(batch_norm, x)
    inputs = _affine(x, base, [channels], (scale_init, bias_init), (scale_attr, bias_attr))
    for moment, value in (("mean", 0.0), ("var", 1.0)):
        inputs[moment] = parameter(
            x, f"{base}.{moment}", [channels], Constant(value), trainable=False
        )
    more = {"epsilon": epsilon, "momentum": momentum, "training_mode": not is_test}
    if is_test:
        return chain(x, base, [(ops.batch_norm, inputs | more), *last])
    out = f"{base}.batch_norm.out" if last else f"{base}.out"
    result, *_ = ops.batch_norm(
        x,
        **inputs,
        **more,
        out=out,
        mean_out=inputs["mean"],
        var_out=inputs["var"],
        name=f"{base}.batch_norm",
    )
    return chain(result, base, last)


@with_hints
def layer_norm(
    x: Variable,
    axis: int = 1,
    act: str | None = None,
    epsilon: float = 1e-5,
    name: str | None = None,
    scale_init: Initializer | None = None,
    bias_init: Initializer | None = None,
    scale_attr: Attrs = None,
    bias_attr: Attrs = None,
) -> Variable:
    """Each row, from an axis to the end, with mean 0 and variance 1, then scale and bias."""
    base = base_name(x, layer_norm, name)
    last = activation(layer_norm, act)
    rank = len(x.shape)
    if not -rank <= axis < rank:
        raise error(layer_norm, f"axis {axis} is outside '{x.name}', which is {text(x)}")
    shape = [size for size in x.shape[axis:] if size is not None]
    if len(shape) != len(x.shape[axis:]):
        raise error(layer_norm, f"'{x.name}' is {text(x)}: sizes from axis {axis} must be known")
    inputs = _affine(x, base, shape, (scale_init, bias_init), (scale_attr, bias_attr))
    more = {"axis": axis, "epsilon": epsilon}
    return chain(x, base, [(ops.layer_norm, inputs | more), *last])


def group_norm(
    x: Variable,
    groups: int,
    act: str | None = None,
    epsilon: float = 1e-5,
    name: str | None = None,
    scale_init: Initializer | None = None,
    bias_init: Initializer | None = None,
    scale_attr: Attrs = None,
    bias_attr: Attrs = None,
) -> Variable:
    """Each group of channels (axis 1) per image with mean 0 and variance 1, then scale and bias."""
    base = base_name(x, group_norm, name)
    last = activation(group_norm, act)
    channels = _channels(group_norm, x)
    if groups < 1 or channels % groups:
        raise error(
            group_norm, f"'{x.name}' has {channels} channels: {groups} groups cannot divide them"
        )
    inputs = _affine(x, base, [channels], (scale_init, bias_init), (scale_attr, bias_attr))
    more = {"num_groups": groups, "epsilon": epsilon}
    return chain(x, base, [(ops.group_norm, inputs | more), *last])


def instance_norm(
    x: Variable,
    act: str | None = None,
    epsilon: float = 1e-5,
    name: str | None = None,
    scale_init: Initializer | None = None,
    bias_init: Initializer | None = None,
    scale_attr: Attrs = None,
    bias_attr: Attrs = None,
) -> Variable:
    """Each channel of each image with mean 0 and variance 1, then scale and bias."""
    base = base_name(x, instance_norm, name)
    last = activation(instance_norm, act)
    channels = _channels(instance_norm, x)
    inputs = _affine(x, base, [channels], (scale_init, bias_init), (scale_attr, bias_attr))
    return chain(x, base, [(ops.instance_norm, {**inputs, "epsilon": epsilon}), *last])


def l2_normalize(
    x: Variable, axis: int = -1, epsilon: float = 1e-12, name: str | None = None
) -> Variable:
    """x divided by its L2 norm along an axis."""
    base = base_name(x, l2_normalize, name)
    norm = ops.reduce_l2(x, axes=[axis], name=f"{base}.reduce_l2")
    norm = ops.maximum(norm, epsilon, name=f"{base}.maximum")
    return ops.div(x, norm, name=f"{base}.div", out=f"{base}.out")


def _affine(
    x: Variable,
    base: str,
    shape: list[int],
    inits: tuple[Initializer | None, Initializer | None],
    attrs: tuple[Attrs, Attrs],
) -> dict[str, Variable]:
    """Scale and bias, ones and zeros at first."""
    return {
        "scale": parameter(x, f"{base}.w", shape, inits[0] or Constant(1.0), attrs[0]),
        "bias": parameter(x, f"{base}.b", shape, inits[1] or Constant(0.0), attrs[1]),
    }


def _channels(layer: Layer, x: Variable) -> int:
    channels = x.shape[1] if len(x.shape) > 1 else None
    if channels is None:
        raise error(layer, f"'{x.name}' is {text(x)}: its channels, axis 1, must be known")
    return channels
