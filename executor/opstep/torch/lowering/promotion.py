"""The dtypes in which torch computes, for entries of several themes."""

from __future__ import annotations

from typing import Any

import torch

from opstep.torch.lowering.table import require
from opstep.torch.op_builder import OpBuilder, Value

HALVES = (torch.float16, torch.bfloat16)
Number = bool | int | float


def dtype_of(fake: Any) -> torch.dtype:
    """Of the node's only result."""
    return fake.dtype


def common_dtype(x: Value | Number, y: Value | Number) -> torch.dtype:
    """The dtype in which torch compares two operands."""
    return torch.result_type(_operand(x), _operand(y))


def operands(op: OpBuilder, dtype: torch.dtype, *items: Value | Number) -> tuple[Value, ...]:
    """Tensors and numbers as tensors of that dtype."""
    return tuple(
        op.cast(item, dtype) if isinstance(item, Value) else op.number(item, dtype)
        for item in items
    )


def arithmetic(op: OpBuilder, dtype: torch.dtype, *items: Value | Number) -> torch.dtype:
    """The dtype to compute in. torch computes with numbers and half floats in float32."""
    require(not any(isinstance(item, complex) for item in items), "a complex number")
    if dtype not in HALVES:
        return dtype
    if all(isinstance(item, Value) and item.dtype == dtype for item in items):
        return dtype
    scalar = any(isinstance(item, Value) and item.shape == () for item in items)
    require(not scalar, "a tensor without dimensions beside half floats")
    return torch.float32


def _operand(item: Value | Number) -> Any:
    return item.fake if isinstance(item, Value) else item
