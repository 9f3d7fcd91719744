"""Reductions: sums, means, extremes, truth, running sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opstep.torch.lowering.promotion import HALVES
from opstep.torch.lowering.table import lowers, require
from opstep.torch.op_builder import OpBuilder, Value

aten = torch.ops.aten
Dims = int | Sequence[int] | None


def _axes(x: Value, dims: Dims) -> list[int]:
    """The axes; none given means all."""
    if dims is None:
        return list(range(x.rank))
    listed = [dims] if isinstance(dims, int) else list(dims)
    return sorted(axis % max(x.rank, 1) for axis in listed) or list(range(x.rank))


def _reduce(op: OpBuilder, kind: str, x: Value, dims: Dims, keepdim: bool) -> Value:
    if x.rank == 0:
        return op.assign(x)
    return op.append(kind, (x,), {"axes": _axes(x, dims), "keepdims": keepdim})


@lowers(aten.sum.dim_IntList, aten.sum.default)
def sum_(
    op: OpBuilder, x: Value, dims: Dims = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    return _reduce(op, "reduce_sum", op.cast(x, op.fake.dtype), dims, keepdim)


@lowers(aten.mean.dim, aten.mean.default)
def mean(
    op: OpBuilder, x: Value, dims: Dims = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    return _reduce(op, "reduce_mean", op.cast(x, op.fake.dtype), dims, keepdim)


@lowers(aten.amax.default)
def amax(op: OpBuilder, x: Value, dims: Dims = None, keepdim: bool = False) -> Value:
    return _reduce(op, "reduce_max", x, dims, keepdim)


@lowers(aten.amin.default)
def amin(op: OpBuilder, x: Value, dims: Dims = None, keepdim: bool = False) -> Value:
    return _reduce(op, "reduce_min", x, dims, keepdim)


@lowers(aten.max.default)
def max_(op: OpBuilder, x: Value) -> Value:
    return _reduce(op, "reduce_max", x, None, False)


@lowers(aten.min.default)
def min_(op: OpBuilder, x: Value) -> Value:
    return _reduce(op, "reduce_min", x, None, False)


@lowers(aten.any.default, aten.any.dim, aten.any.dims)
def any_(op: OpBuilder, x: Value, dims: Dims = None, keepdim: bool = False) -> Value:
    require(x.dtype == torch.bool, "values that are not bool")
    return _reduce(op, "reduce_any", x, dims, keepdim)


@lowers(aten.all.default, aten.all.dim, aten.all.dims)
def all_(op: OpBuilder, x: Value, dims: Dims = None, keepdim: bool = False) -> Value:
    require(x.dtype == torch.bool, "values that are not bool")
    return _reduce(op, "reduce_all", x, dims, keepdim)


@lowers(aten.argmax.default)
def argmax(op: OpBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    require(dim is not None and x.rank > 0, "over all axes")
    return op.arg_max(x, axis=dim, keepdims=keepdim)


@lowers(aten.argmin.default)
def argmin(op: OpBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    require(dim is not None and x.rank > 0, "over all axes")
    return op.arg_min(x, axis=dim, keepdims=keepdim)


@lowers(aten.cumsum.default)
def cumsum(op: OpBuilder, x: Value, dim: int, dtype: Any = None) -> Value:
    require(x.rank > 0 and op.fake.dtype not in HALVES, "half floats")
    return op.cum_sum(op.cast(x, op.fake.dtype), axis=dim % x.rank)
