"""Matrix products. Transposed operands are read as they are in memory."""

from __future__ import annotations

import torch

from opstep.torch.lowering.table import lowers, require
from opstep.torch.op_builder import OpBuilder, Value

aten = torch.ops.aten


def _operand(x: Value) -> tuple[Value, bool]:
    """The matrix in memory, and whether its transpose is meant."""
    if x.transposed is not None and not x.name:
        return x.transposed, True
    return x, False


def _floats(*values: Value) -> bool:
    return all(v.dtype is not None and v.dtype.is_floating_point for v in values)


def _has_elements(*values: Value) -> bool:
    return all(v.shape is not None and 0 not in v.shape for v in values)


@lowers(aten.mm.default)
def mm(op: OpBuilder, x: Value, y: Value) -> Value:
    require(_has_elements(x, y), "no elements")
    (a, flip_a), (b, flip_b) = _operand(x), _operand(y)
    if not flip_a and not flip_b:
        return op.matmul(x, y)
    require(_floats(x, y), "integers")
    return op.gemm(a, b, transA=flip_a, transB=flip_b)


@lowers(aten.addmm.default)
def addmm(op: OpBuilder, c: Value, x: Value, y: Value, beta: float = 1, alpha: float = 1) -> Value:
    require(_floats(c, x, y) and c.dtype == x.dtype, "integers")
    require(_has_elements(x, y), "no elements")
    (a, flip_a), (b, flip_b) = _operand(x), _operand(y)
    # torch does not read what it multiplies by 0.
    added = None if beta == 0 else c
    return op.gemm(a, b, added, alpha=float(alpha), beta=float(beta), transA=flip_a, transB=flip_b)


@lowers(aten.bmm.default, aten.mv.default, aten.dot.default)
def bmm(op: OpBuilder, x: Value, y: Value) -> Value:
    require(_has_elements(x, y), "no elements")
    return op.matmul(x, y)


@lowers(aten.baddbmm.default)
def baddbmm(
    op: OpBuilder, c: Value, x: Value, y: Value, beta: float = 1, alpha: float = 1
) -> Value:
    require(beta == 1 and alpha == 1 and c.dtype == x.dtype, "factors")
    require(_has_elements(x, y), "no elements")
    return op.add(op.matmul(x, y), c)
