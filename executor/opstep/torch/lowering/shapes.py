"""Ops that only move elements: views, slices, permutations, joins, pads."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from opstep.torch.lowering.elementwise import convert
from opstep.torch.lowering.table import lowers, require
from opstep.torch.op_builder import OpBuilder, Value

aten = torch.ops.aten


def reshaped(op: OpBuilder, x: Value, shape: Sequence[int]) -> Value:
    """The same elements in another shape; no op if it is the same."""
    if tuple(shape) == x.shape:
        return x
    made: Value = op.reshape(x, shape=_sizes(shape), result=x.dtype)
    made.shape = tuple(shape)
    return made


def _sizes(shape: Sequence[int]) -> list[int]:
    # In ONNX's reshape a 0 would keep the size.
    require(0 not in shape, "a shape without elements")
    return [int(size) for size in shape]


@lowers(
    aten.view.default,
    aten._unsafe_view.default,
    aten.reshape.default,
    aten._reshape_copy.default,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.flatten.using_ints,
)
def view(op: OpBuilder, x: Value, *_: object) -> Value:
    return reshaped(op, x, tuple(op.fake.shape))


def transposed(op: OpBuilder, x: Value, perm: Sequence[int]) -> Value:
    perm = [axis % max(x.rank, 1) for axis in perm]
    if perm == list(range(x.rank)):
        return x
    if perm == [1, 0]:
        return flipped(x, op.fake)
    return op.transpose(x, perm=perm)


def flipped(x: Value, fake: torch.Tensor | None) -> Value:
    """A transposed matrix. Products read the original, so an op makes it only for others."""
    assert x.shape is not None
    if x.transposed is not None:
        return x.transposed
    return Value("", x.dtype, (x.shape[1], x.shape[0]), fake, transposed=x)


@lowers(aten.t.default)
def t(op: OpBuilder, x: Value) -> Value:
    return transposed(op, x, [1, 0]) if x.rank == 2 else x


@lowers(aten.permute.default)
def permute(op: OpBuilder, x: Value, dims: Sequence[int]) -> Value:
    return transposed(op, x, dims)


@lowers(aten.transpose.int)
def transpose(op: OpBuilder, x: Value, first: int, second: int) -> Value:
    perm = list(range(x.rank))
    if x.rank:
        perm[first], perm[second] = perm[second], perm[first]
    return transposed(op, x, perm)


@lowers(aten.expand.default)
def expand(op: OpBuilder, x: Value, sizes: Sequence[int], implicit: bool = False) -> Value:
    shape = list(op.fake.shape)
    if tuple(shape) == x.shape:
        return x
    return op.expand(x, shape=shape)


@lowers(aten.repeat.default)
def repeat(op: OpBuilder, x: Value, repeats: Sequence[int]) -> Value:
    assert x.shape is not None
    require(0 not in repeats, "no repetitions")
    padded = [1] * (len(repeats) - x.rank) + list(x.shape)
    return op.tile(reshaped(op, x, padded), repeats=list(repeats))


@lowers(aten.slice.Tensor)
def slice_(
    op: OpBuilder,
    x: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    assert x.shape is not None
    axis = dim % x.rank
    first, last, _ = slice(start, end, 1).indices(x.shape[axis])
    last = max(first, last)
    if (first, last, step) == (0, x.shape[axis], 1):
        return x
    return op.slice(x, starts=[first], ends=[last], axes=[axis], steps=[step])


@lowers(aten.select.int)
def select(op: OpBuilder, x: Value, dim: int, index: int) -> Value:
    assert x.shape is not None
    axis = dim % x.rank
    first = index % x.shape[axis]
    part = op.slice(x, starts=[first], ends=[first + 1], axes=[axis], steps=[1])
    return op.squeeze(part, axes=[axis])


@lowers(aten.cat.default)
def cat(op: OpBuilder, tensors: Sequence[Value], dim: int = 0) -> Value:
    # torch leaves out tensors of shape [0].
    given = [x for x in tensors if x.shape != (0,)]
    require(given, "nothing to join")
    require(len({x.rank for x in given}) == 1, "different ranks")
    dtype = op.fake.dtype
    return op.concat([op.cast(x, dtype) for x in given], axis=dim % given[0].rank)


@lowers(aten.split_with_sizes.default)
def split_with_sizes(op: OpBuilder, x: Value, sizes: Sequence[int], dim: int = 0) -> list[Value]:
    made = op.split(x, axis=dim % x.rank, split=list(sizes))
    return list(made)


@lowers(aten.split.Tensor)
def split(op: OpBuilder, x: Value, size: int, dim: int = 0) -> list[Value]:
    axis = dim % x.rank
    return split_with_sizes(op, x, [each.shape[axis] for each in op.fake], axis)


@lowers(aten.unbind.int)
def unbind(op: OpBuilder, x: Value, dim: int = 0) -> list[Value]:
    axis = dim % x.rank
    parts = split_with_sizes(op, x, [1] * len(op.fake), axis)
    return [op.squeeze(part, axes=[axis]) for part in parts]


@lowers(aten.stack.default)
def stack(op: OpBuilder, tensors: Sequence[Value], dim: int = 0) -> Value:
    axis = dim % (tensors[0].rank + 1)
    dtype = op.fake.dtype
    return op.concat([op.unsqueeze(op.cast(x, dtype), axes=[axis]) for x in tensors], axis=axis)


@lowers(aten.constant_pad_nd.default)
def constant_pad_nd(op: OpBuilder, x: Value, pad: Sequence[int], value: float = 0) -> Value:
    # Pairs from the last axis; ONNX wants all starts, then all ends.
    before, after = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        before[x.rank - 1 - i], after[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return _padded(op, x, before, after, value)


def _padded(op: OpBuilder, x: Value, before: list[int], after: list[int], value: float) -> Value:
    return op.pad(x, pads=before + after, constant_value=float(value))


@lowers(aten.slice_backward.default)
def slice_backward(
    op: OpBuilder, grad: Value, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Value:
    require(step == 1, "steps")
    axis = dim % len(sizes)
    first, last, _ = slice(start, end, 1).indices(sizes[axis])
    before, after = [0] * len(sizes), [0] * len(sizes)
    before[axis], after[axis] = first, sizes[axis] - max(first, last)
    return _padded(op, grad, before, after, 0)


@lowers(aten.select_backward.default)
def select_backward(
    op: OpBuilder, grad: Value, sizes: Sequence[int], dim: int, index: int
) -> Value:
    axis = dim % len(sizes)
    first = index % sizes[axis]
    before, after = [0] * len(sizes), [0] * len(sizes)
    before[axis], after[axis] = first, sizes[axis] - first - 1
    return _padded(op, op.unsqueeze(grad, axes=[axis]), before, after, 0)


@lowers(aten.slice_scatter.default)
def slice_scatter(
    op: OpBuilder,
    x: Value,
    source: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    assert x.shape is not None
    axis = dim % x.rank
    first, last, _ = slice(start, end, 1).indices(x.shape[axis])
    require((first, last, step) == (0, x.shape[axis], 1), "a part of the tensor")
    return convert(op, source, op.fake.dtype)
