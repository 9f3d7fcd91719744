"""Convolutions and pools, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opstep.torch.lowering.table import lowers, require, wanted_results
from opstep.torch.op_builder import OpBuilder, Value

aten = torch.ops.aten


def _each(numbers: Sequence[int], count: int) -> list[int]:
    """One number for all axes, or one for each."""
    listed = list(numbers)
    return listed * count if len(listed) == 1 else listed


def _conv_attrs(
    spatial: int, stride: Any, padding: Any, dilation: Any, groups: int
) -> dict[str, Any]:
    return {
        "strides": _each(stride, spatial),
        "pads": _each(padding, spatial) * 2,
        "dilations": _each(dilation, spatial),
        "group": groups,
    }


@lowers(aten.convolution.default)
def convolution(
    op: OpBuilder,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    flip: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    spatial = x.rank - 2
    require(1 <= spatial <= 3 and 0 not in op.fake.shape, "no image")
    attrs = _conv_attrs(spatial, stride, padding, dilation, groups)
    if flip:
        more = _each(output_padding, spatial)
        return op.conv_transpose(x, weight, bias, **attrs, output_padding=more)
    return op.conv(x, weight, bias, **attrs)


@lowers(aten.convolution_backward.default)
def convolution_backward(
    op: OpBuilder,
    grad: Value,
    x: Value,
    weight: Value,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    flip: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> list[Value | None]:
    spatial = x.rank - 2
    require(1 <= spatial <= 3 and 0 not in grad.shape, "no image")  # type: ignore[operator]
    attrs = _conv_attrs(spatial, stride, padding, dilation, groups)
    also = [name for name, want in zip(("dX", "dW", "dB"), wanted, strict=True) if want]
    if flip:
        attrs["output_padding"] = _each(output_padding, spatial)
        return wanted_results(op.conv_transpose_grad(x, weight, grad, also=also, **attrs), wanted)
    return wanted_results(op.conv_grad(x, weight, grad, also=also, **attrs), wanted)


def _pool_attrs(
    x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> dict[str, Any]:
    require(x.rank == 4, "images without a batch")
    require(not ceil_mode, "ceil_mode")
    kernel = _each(kernel, 2)
    attrs: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": _each(stride, 2) if stride else kernel,
        "pads": _each(padding, 2) * 2,
    }
    if dilation is not None:
        attrs["dilations"] = _each(dilation, 2)
    return attrs


@lowers(aten.max_pool2d_with_indices.default)
def max_pool(
    op: OpBuilder,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Value, Value]:
    attrs = _pool_attrs(x, kernel, stride, padding, dilation, ceil_mode)
    assert x.shape is not None
    out, indices = op.max_pool(x, **attrs, also=("indices",))
    # ONNX numbers the elements of the whole tensor, torch those of a channel.
    plane = op.number(x.shape[2] * x.shape[3], torch.int64)
    return out, op.mod(indices, plane)


@lowers(aten.max_pool2d_with_indices_backward.default)
def max_pool_backward(
    op: OpBuilder,
    grad: Value,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Value,
) -> Value:
    attrs = _pool_attrs(x, kernel, stride, padding, dilation, ceil_mode)
    return op.max_pool_grad(x, grad, **attrs)


@lowers(aten.avg_pool2d.default)
def avg_pool(
    op: OpBuilder,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Value:
    require(divisor is None, "a divisor")
    attrs = _pool_attrs(x, kernel, stride, padding, None, ceil_mode)
    return op.average_pool(x, **attrs, count_include_pad=count_include_pad)


@lowers(aten.avg_pool2d_backward.default)
def avg_pool_backward(
    op: OpBuilder,
    grad: Value,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Value:
    require(divisor is None, "a divisor")
    attrs = _pool_attrs(x, kernel, stride, padding, None, ceil_mode)
    return op.average_pool_grad(x, grad, **attrs, count_include_pad=count_include_pad)
