"""Ops that make tensors from nothing but numbers."""

from __future__ import annotations

from typing import Any

import torch

from opstep.torch.lowering.table import lowers, require
from opstep.torch.memory import COMPUTED
from opstep.torch.op_builder import OpBuilder, Value, check_number

aten = torch.ops.aten


def filled(op: OpBuilder, value: float) -> Value:
    """A tensor like the node's result with the same value everywhere."""
    dtype = op.fake.dtype
    check_number(value, dtype)
    return op.fill(shape=list(op.fake.shape), dtype=COMPUTED[dtype], value=float(value))


@lowers(aten.full.default)
def full(op: OpBuilder, size: Any, value: float, **options: Any) -> Value:
    require(not isinstance(value, complex | Value), "a value that is no number")
    return filled(op, value)


@lowers(aten.full_like.default)
def full_like(op: OpBuilder, x: Value, value: float, **options: Any) -> Value:
    require(not isinstance(value, complex | Value), "a value that is no number")
    return filled(op, value)


@lowers(aten.scalar_tensor.default)
def scalar_tensor(op: OpBuilder, value: float, **options: Any) -> Value:
    return filled(op, value)


@lowers(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)
def zeros(op: OpBuilder, *args: Any, **options: Any) -> Value:
    return filled(op, 0)


@lowers(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(op: OpBuilder, *args: Any, **options: Any) -> Value:
    return filled(op, 1)


@lowers(
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_strided.default,
    aten.empty_permuted.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
)
def empty(op: OpBuilder, *args: Any, **options: Any) -> Value:
    # Any value is right; zeros are the same in each run.
    return filled(op, 0)


@lowers(aten.arange.start_step, aten.arange.start, aten.arange.default)
def arange(op: OpBuilder, *numbers: float, **options: Any) -> Value:
    require(op.fake.dtype in (torch.int32, torch.int64), "floats")
    require(all(isinstance(n, int) for n in numbers), "floats")
    start, end, step = 0, 0, 1
    if len(numbers) == 1:
        end = int(numbers[0])
    else:
        start, end, *rest = (int(n) for n in numbers)
        step = rest[0] if rest else 1
    require(max(abs(start), abs(end)) < 2**53, "numbers that a float does not hold")
    return op.range(
        start=float(start), limit=float(end), delta=float(step), dtype=COMPUTED[op.fake.dtype]
    )
