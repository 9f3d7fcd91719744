"""Activations, softmax and losses, with their gradients."""

from __future__ import annotations

from typing import Any

import torch

from opstep.torch.lowering.table import lowers, require
from opstep.torch.op_builder import OpBuilder, Value

aten = torch.ops.aten


@lowers(aten.gelu.default)
def gelu(op: OpBuilder, x: Value, approximate: str = "none") -> Value:
    return op.gelu(x, approximate=approximate)


@lowers(aten.gelu_backward.default)
def gelu_backward(op: OpBuilder, grad: Value, x: Value, approximate: str = "none") -> Value:
    return op.gelu_grad(x, grad, approximate=approximate)


@lowers(aten.threshold_backward.default)
def threshold_backward(op: OpBuilder, grad: Value, out: Value, threshold: float) -> Value:
    require(threshold == 0, "a threshold other than 0")
    return op.relu_grad(out, grad)


@lowers(aten.tanh_backward.default)
def tanh_backward(op: OpBuilder, grad: Value, out: Value) -> Value:
    return op.tanh_grad(out, grad)


@lowers(aten.sigmoid_backward.default)
def sigmoid_backward(op: OpBuilder, grad: Value, out: Value) -> Value:
    return op.sigmoid_grad(out, grad)


@lowers(aten.silu_backward.default)
def silu_backward(op: OpBuilder, grad: Value, x: Value) -> Value:
    return op.silu_grad(x, grad)


@lowers(aten.leaky_relu.default)
def leaky_relu(op: OpBuilder, x: Value, slope: float = 0.01) -> Value:
    return op.leaky_relu(x, alpha=float(slope))


@lowers(aten.elu.default)
def elu(
    op: OpBuilder, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> Value:
    require(scale == 1 and input_scale == 1, "scales")
    return op.elu(x, alpha=float(alpha))


@lowers(aten._softmax.default)
def softmax(op: OpBuilder, x: Value, dim: int, half_to_float: bool) -> Value:
    require(not half_to_float and x.rank > 0, "half floats made float32")
    return op.softmax(x, axis=dim % x.rank)


@lowers(aten._log_softmax.default)
def log_softmax(op: OpBuilder, x: Value, dim: int, half_to_float: bool) -> Value:
    require(not half_to_float and x.rank > 0, "half floats made float32")
    return op.log_softmax(x, axis=dim % x.rank)


@lowers(aten._softmax_backward_data.default)
def softmax_backward(op: OpBuilder, grad: Value, out: Value, dim: int, dtype: Any) -> Value:
    require(dtype == grad.dtype == out.dtype and out.rank > 0, "half floats made float32")
    return op.softmax_grad(out, grad, axis=dim % out.rank)


@lowers(aten._log_softmax_backward_data.default)
def log_softmax_backward(op: OpBuilder, grad: Value, out: Value, dim: int, dtype: Any) -> Value:
    require(dtype == grad.dtype == out.dtype and out.rank > 0, "half floats made float32")
    return op.log_softmax_grad(out, grad, axis=dim % out.rank)


# --- losses


@lowers(aten.nll_loss_forward.default)
def nll_loss(
    op: OpBuilder, x: Value, target: Value, weight: Value | None, reduction: int, ignore: int
) -> list[Value | None]:
    require(x.rank == 2 and weight is None, "weights, or no batch")
    require(reduction in (1, 2), "no reduction")
    how = "mean" if reduction == 1 else "sum"
    loss = op.nll_loss(x, target, reduction=how, ignore_index=ignore)
    assert x.dtype is not None
    counted = op.not_equal(target, op.number(ignore, torch.int64), result=torch.bool)
    count = op.reduce_sum(op.cast(counted, x.dtype), axes=[0], keepdims=False)
    return [loss, count]
