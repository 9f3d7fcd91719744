"""Ops that look elements up by index."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from opstep.torch.lowering.table import lowers, require
from opstep.torch.op_builder import OpBuilder, Value

aten = torch.ops.aten


def checked(op: OpBuilder, indices: Value, x: Value, axis: int) -> Value:
    """The indices; negative ones are an error, as in torch's functions other than `x[i]`."""
    assert x.shape is not None
    return op.check_indices(indices, size=x.shape[axis])


@lowers(aten.index.Tensor)
def index(op: OpBuilder, x: Value, indices: Sequence[Value | None]) -> Value:
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    require(len(given) == 1, "several tensors of indices")
    axis, places = given[0]
    require(places.dtype in (torch.int32, torch.int64), "a mask")
    return op.gather(x, places, axis=axis)


@lowers(aten.embedding.default)
def embedding(
    op: OpBuilder,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    require(indices.dtype in (torch.int32, torch.int64), "indices of another dtype")
    return op.gather(weight, checked(op, indices, weight, 0), axis=0)


@lowers(aten.index_select.default)
def index_select(op: OpBuilder, x: Value, dim: int, indices: Value) -> Value:
    require(x.rank > 0 and indices.rank == 1, "a tensor without dimensions")
    axis = dim % x.rank
    return op.gather(x, checked(op, indices, x, axis), axis=axis)


@lowers(aten.gather.default)
def gather(op: OpBuilder, x: Value, dim: int, indices: Value, sparse_grad: bool = False) -> Value:
    require(x.rank > 0 and indices.rank == x.rank, "a tensor without dimensions")
    axis = dim % x.rank
    return op.gather_elements(x, checked(op, indices, x, axis), axis=axis)
