"""Convolutions and pooling over [batch, channels, ...] with one to three spatial dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opstep import ops
from opstep.foreign_names import with_hints
from opstep.initializer import Constant, Initializer, Xavier, chosen
from opstep.layers._common import Attrs, Layer, activation, base_name, chain, error, parameter, text
from opstep.variable import Variable

# One number for all dimensions or one for each.
Sizes = int | Sequence[int]
# Also "same" or "valid", or (before, after) for each dimension.
Padding = int | str | Sequence[int] | Sequence[tuple[int, int]]


@with_hints
def conv1d(x: Variable, filters: int, kernel: Sizes, **options: Any) -> Variable:
    """Convolution of [batch, channels, length]; options as for conv2d."""
    return _conv(conv1d, 1, False, x, filters, kernel, **options)


@with_hints
def conv2d(
    x: Variable,
    filters: int,
    kernel: Sizes,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    act: str | None = None,
    name: str | None = None,
    weight_init: Initializer | None = None,
    bias_init: Initializer | None = None,
    bias: bool = True,
    weight_attr: Attrs = None,
    bias_attr: Attrs = None,
) -> Variable:
    """Convolution of [batch, channels, height, width]: act(conv(x, w) + b).

    `padding` is a number for all sides, one for each dimension, a pair (before, after) for each, or
    "same" or "valid". `weight_attr` and `bias_attr` are the parameters' `optimize_attr`.
    """
    return _conv(
        conv2d,
        2,
        False,
        x,
        filters,
        kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        act=act,
        name=name,
        weight_init=weight_init,
        bias_init=bias_init,
        bias=bias,
        weight_attr=weight_attr,
        bias_attr=bias_attr,
    )


@with_hints
def conv3d(x: Variable, filters: int, kernel: Sizes, **options: Any) -> Variable:
    """Convolution of [batch, channels, depth, height, width]; options as for conv2d."""
    return _conv(conv3d, 3, False, x, filters, kernel, **options)


@with_hints
def conv1d_transpose(x: Variable, filters: int, kernel: Sizes, **options: Any) -> Variable:
    """Transposed convolution of [batch, channels, length]; options as for conv2d_transpose."""
    return _conv(conv1d_transpose, 1, True, x, filters, kernel, **options)


@with_hints
def conv2d_transpose(x: Variable, filters: int, kernel: Sizes, **options: Any) -> Variable:
    """Transposed convolution of [batch, channels, height, width], which makes images larger.

    Options as for conv2d; `output_padding` adds rows and columns at the end.
    """
    return _conv(conv2d_transpose, 2, True, x, filters, kernel, **options)


@with_hints
def conv3d_transpose(x: Variable, filters: int, kernel: Sizes, **options: Any) -> Variable:
    """Transposed convolution of [batch, channels, d, h, w]; options as for conv2d_transpose."""
    return _conv(conv3d_transpose, 3, True, x, filters, kernel, **options)


def _conv(
    layer: Layer,
    rank: int,
    transposed: bool,
    x: Variable,
    filters: int,
    kernel: Sizes,
    *,
    output_padding: Sizes | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    act: str | None = None,
    name: str | None = None,
    weight_init: Initializer | None = None,
    bias_init: Initializer | None = None,
    bias: bool = True,
    weight_attr: Attrs = None,
    bias_attr: Attrs = None,
) -> Variable:
    base = base_name(x, layer, name)
    last = activation(layer, act)
    channels = _grouped_channels(layer, rank, x, filters, groups)
    window = {
        "strides": _each(layer, "stride", stride, rank),
        "dilations": _each(layer, "dilation", dilation, rank),
        **_pads(layer, padding, rank),
        "group": groups,
    }
    if transposed:
        window["output_padding"] = _each(
            layer, "output_padding", output_padding or 0, rank, least=0
        )
    elif output_padding is not None:
        raise error(layer, "output_padding is an option of transposed convolutions only")
    outer, inner = (channels, filters) if transposed else (filters, channels)
    shape = [outer, inner // groups, *_each(layer, "kernel", kernel, rank)]
    inputs = {"W": parameter(x, f"{base}.w", shape, chosen(weight_init, Xavier()), weight_attr)}
    if bias:
        first = chosen(bias_init, Constant(0.0))
        inputs["B"] = parameter(x, f"{base}.b", [filters], first, bias_attr)
    op = ops.conv_transpose if transposed else ops.conv
    return chain(x, base, [(op, inputs | window), *last])


global_average_pool = ops.global_average_pool
global_max_pool = ops.global_max_pool


@with_hints
def pool2d(
    x: Variable,
    kernel: Sizes,
    pool_type: str = "max",
    stride: Sizes | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Variable:
    """The largest ("max") or mean ("average") element of each window of [batch, c, h, w].

    Windows lie side by side unless `stride` says otherwise; means leave out padding.
    """
    pools = {"max": ops.max_pool, "average": ops.average_pool}
    if pool_type not in pools:
        raise error(pool2d, f"pool_type is '{pool_type}': it must be 'max' or 'average'")
    _channels(pool2d, 2, x)
    return pools[pool_type](
        x,
        kernel_shape=_each(pool2d, "kernel", kernel, 2),
        strides=_each(pool2d, "stride", kernel if stride is None else stride, 2),
        **_pads(pool2d, padding, 2),
        ceil_mode=ceil_mode,
        name=base_name(x, pool2d, name),
    )


def _channels(layer: Layer, rank: int, x: Variable) -> int:
    if len(x.shape) != rank + 2:
        raise error(
            layer,
            f"'{x.name}' is {text(x)}: it needs {rank + 2} dimensions, batch and channels first",
        )
    channels = x.shape[1]
    if channels is None:
        raise error(layer, f"'{x.name}' is {text(x)}: the number of channels must be known")
    return channels


def _grouped_channels(layer: Layer, rank: int, x: Variable, filters: int, groups: int) -> int:
    channels = _channels(layer, rank, x)
    if groups < 1 or channels % groups or filters % groups:
        raise error(
            layer,
            f"'{x.name}' has {channels} channels and there are {filters} filters: "
            f"{groups} groups must divide both",
        )
    return channels


def _each(layer: Layer, what: str, value: Sizes, rank: int, least: int = 1) -> list[int]:
    sizes = [value] * rank if isinstance(value, int) else list(value)
    if len(sizes) != rank or min(sizes) < least:
        raise error(
            layer, f"{what} is {value}: it must be a number, {least} or more, or {rank} of them"
        )
    return sizes


def _pads(layer: Layer, padding: Padding, rank: int) -> dict[str, Any]:
    if isinstance(padding, str):
        modes = {"same": "SAME_UPPER", "valid": "VALID"}
        if padding not in modes:
            raise error(layer, f"padding is '{padding}': it must be 'same', 'valid' or numbers")
        return {"auto_pad": modes[padding]}
    each: list[Any] = [padding] * rank if isinstance(padding, int) else list(padding)
    pairs = [(side, side) if isinstance(side, int) else tuple(side) for side in each]
    if len(pairs) != rank or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise error(
            layer,
            f"padding is {padding}: it must be a number, {rank} numbers or {rank} pairs, 0 or more",
        )
    return {"pads": [before for before, _ in pairs] + [after for _, after in pairs]}
