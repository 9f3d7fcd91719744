"""Layer and batch norm, with their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from opstep.torch.lowering.promotion import HALVES
from opstep.torch.lowering.table import lowers, require, wanted_results
from opstep.torch.op_builder import OpBuilder, Value

aten = torch.ops.aten


@lowers(aten.native_layer_norm.default)
def layer_norm(
    op: OpBuilder,
    x: Value,
    shape: Sequence[int],
    weight: Value | None,
    bias: Value | None,
    epsilon: float,
) -> tuple[Value, ...]:
    require(weight is not None and weight.dtype == x.dtype, "no weight, or one of another dtype")
    return op.layer_norm(
        x, weight, bias, axis=x.rank - len(shape), epsilon=epsilon, also=("mean", "inv_std")
    )


@lowers(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    op: OpBuilder,
    grad: Value,
    x: Value,
    shape: Sequence[int],
    mean: Value,
    inv_std: Value,
    weight: Value | None,
    bias: Value | None,
    wanted: Sequence[bool],
) -> list[Value | None]:
    require(weight is not None and weight.dtype == x.dtype, "no weight, or one of another dtype")
    names = [name for name, want in zip(("dX", "dscale", "dbias"), wanted, strict=True) if want]
    axis = x.rank - len(shape)
    made = op.layer_norm_grad(x, weight, grad, mean, inv_std, axis=axis, also=names)
    return wanted_results(made, wanted)


@lowers(
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit_no_training.default,
)
def batch_norm(
    op: OpBuilder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    var: Value,
    *rest: Any,
) -> list[Value | None]:
    training, momentum, epsilon = rest if len(rest) == 3 else (False, *rest)
    require(weight is not None and bias is not None, "no weight")
    require(x.dtype == mean.dtype and x.dtype not in HALVES, "half floats")
    fakes = len(op.fake)
    if not training:
        out = op.batch_norm(x, weight, bias, mean, var, epsilon=epsilon)
        # Nobody reads the saved moments of inference.
        return [out, *[None] * (fakes - 1)]
    assert x.shape is not None and x.dtype is not None
    count = x.shape[0] * math.prod(x.shape[2:])
    require(count > 1, "one value for each channel")
    # With momentum 0 the running moments become those of the batch.
    out, batch_mean, batch_var = op.batch_norm(
        x,
        weight,
        bias,
        mean,
        var,
        epsilon=epsilon,
        training_mode=True,
        momentum=0.0,
        also=("mean_out", "var_out"),
    )
    number = lambda value: op.number(value, x.dtype)  # noqa: E731
    inv_std = op.rsqrt(op.add(batch_var, number(epsilon)))
    keep = number(1 - momentum)
    new_mean = op.add(op.mul(mean, keep), op.mul(batch_mean, number(momentum)))
    unbiased = number(momentum * count / (count - 1))
    new_var = op.add(op.mul(var, keep), op.mul(batch_var, unbiased))
    return [out, batch_mean, inv_std, new_mean, new_var]


@lowers(aten.native_batch_norm_backward.default)
def batch_norm_backward(
    op: OpBuilder,
    grad: Value,
    x: Value,
    weight: Value | None,
    mean: Value | None,
    var: Value | None,
    saved_mean: Value | None,
    saved_inv_std: Value | None,
    training: bool,
    epsilon: float,
    wanted: Sequence[bool],
) -> list[Value | None]:
    require(weight is not None and x.dtype not in HALVES, "no weight, or half floats")
    moments = {} if training else {"mean": mean, "var": var}
    names = [name for name, want in zip(("dX", "dscale", "dbias"), wanted, strict=True) if want]
    made = op.batch_norm_grad(
        x, weight, grad, epsilon=epsilon, training_mode=training, also=names, **moments
    )
    return wanted_results(made, wanted)
