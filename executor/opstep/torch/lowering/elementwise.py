"""Elementwise ops: arithmetic, comparisons, logic, functions of one tensor, activations' parts."""

from __future__ import annotations

import math
from typing import Any

import torch

from opstep.torch.lowering.promotion import (
    HALVES,
    Number,
    arithmetic,
    common_dtype,
    operands,
)
from opstep.torch.lowering.table import lowers, require
from opstep.torch.op_builder import OpBuilder, Value

aten = torch.ops.aten
Operand = Value | Number


def _binary(op: OpBuilder, kind: str, x: Operand, y: Operand) -> Value:
    """Of two operands, computed and given in the result's dtype."""
    result = op.fake.dtype
    dtype = arithmetic(op, result, x, y)
    made = op.append(kind, operands(op, dtype, x, y), {"result": dtype})
    return op.cast(made, result)


# --- arithmetic


@lowers(aten.add.Tensor, aten.add.Scalar)
def add(op: OpBuilder, x: Value, y: Operand, alpha: Number = 1) -> Value:
    require(op.fake.dtype != torch.bool, "a sum of bools")
    if alpha == 1:
        return _binary(op, "add", x, y)
    require(op.fake.dtype not in HALVES, "alpha with half floats")
    dtype = op.fake.dtype
    first, second = operands(op, dtype, x, y)
    return op.add(first, op.mul(second, op.number(alpha, dtype)))


@lowers(aten.sub.Tensor, aten.sub.Scalar)
def sub(op: OpBuilder, x: Value, y: Operand, alpha: Number = 1) -> Value:
    if alpha == 1:
        return _binary(op, "sub", x, y)
    require(op.fake.dtype not in HALVES, "alpha with half floats")
    dtype = op.fake.dtype
    first, second = operands(op, dtype, x, y)
    return op.sub(first, op.mul(second, op.number(alpha, dtype)))


@lowers(aten.mul.Tensor, aten.mul.Scalar)
def mul(op: OpBuilder, x: Value, y: Operand) -> Value:
    if op.fake.dtype == torch.bool:
        return op.logical_and(*operands(op, torch.bool, x, y))
    return _binary(op, "mul", x, y)


@lowers(aten.div.Tensor, aten.div.Scalar)
def div(op: OpBuilder, x: Value, y: Operand) -> Value:
    return _binary(op, "div", x, y)


@lowers(aten.maximum.default)
def maximum(op: OpBuilder, x: Value, y: Value) -> Value:
    require(op.fake.dtype != torch.bool, "bools")
    return _binary(op, "maximum", x, y)


@lowers(aten.minimum.default)
def minimum(op: OpBuilder, x: Value, y: Value) -> Value:
    require(op.fake.dtype != torch.bool, "bools")
    return _binary(op, "minimum", x, y)


@lowers(aten.pow.Tensor_Scalar)
def pow_scalar(op: OpBuilder, x: Value, y: Number) -> Value:
    require(x.dtype == op.fake.dtype and op.fake.dtype.is_floating_point, "a power of integers")
    if y == 2:
        return op.square(x)
    # torch takes roots too, but not of float16: -inf ** 0.5 is inf there.
    if y == 0.5 and x.dtype != torch.float16:
        return op.sqrt(x)
    if y == -0.5 and x.dtype != torch.float16:
        return op.rsqrt(x)
    if y == -1:
        return op.reciprocal(x)
    return _binary(op, "pow", x, y)


@lowers(aten.pow.Tensor_Tensor)
def pow_tensor(op: OpBuilder, x: Value, y: Value) -> Value:
    require(op.fake.dtype.is_floating_point, "a power of integers")
    return _binary(op, "pow", x, y)


@lowers(aten.clamp.default, aten.hardtanh.default)
def clamp(op: OpBuilder, x: Value, low: Number | None = None, high: Number | None = None) -> Value:
    dtype = op.fake.dtype
    require(x.dtype == dtype and dtype.is_floating_point, "limits of another dtype")
    for limit in (low, high):
        require(limit is None or not math.isnan(limit), "a limit that is NaN")
    attrs = {}
    if low is not None:
        attrs["min"] = float(low)
    if high is not None:
        attrs["max"] = float(high)
    require(low is None or high is None or low <= high, "limits that cross")
    return op.clip(x, **attrs)


@lowers(aten.clamp_min.default)
def clamp_min(op: OpBuilder, x: Value, low: Number) -> Value:
    return clamp(op, x, low)


@lowers(aten.clamp_max.default)
def clamp_max(op: OpBuilder, x: Value, high: Number) -> Value:
    return clamp(op, x, None, high)


# --- comparisons and logic


def _enter_comparison(kind: str, *targets: Any) -> None:
    @lowers(*targets)
    def compare(op: OpBuilder, x: Value, y: Operand) -> Value:
        dtype = common_dtype(x, y)
        return op.append(kind, operands(op, dtype, x, y), {})


_enter_comparison("equal", aten.eq.Tensor, aten.eq.Scalar)
_enter_comparison("not_equal", aten.ne.Tensor, aten.ne.Scalar)
_enter_comparison("less", aten.lt.Tensor, aten.lt.Scalar)
_enter_comparison("less_or_equal", aten.le.Tensor, aten.le.Scalar)
_enter_comparison("greater", aten.gt.Tensor, aten.gt.Scalar)
_enter_comparison("greater_or_equal", aten.ge.Tensor, aten.ge.Scalar)


def _truth(op: OpBuilder, x: Value) -> Value:
    """Is each element other than 0?"""
    if x.dtype == torch.bool:
        return x
    assert x.dtype is not None
    return op.not_equal(x, op.number(0, x.dtype), result=torch.bool)


def _enter_logic(kind: str, logical: Any, bitwise: Any) -> None:
    @lowers(logical.default)
    def by_truth(op: OpBuilder, x: Value, y: Value) -> Value:
        return op.append(kind, (_truth(op, x), _truth(op, y)), {})

    @lowers(bitwise.Tensor, bitwise.Scalar)
    def of_bools(op: OpBuilder, x: Value, y: Operand) -> Value:
        require(op.fake.dtype == torch.bool, "bits of integers")
        return op.append(kind, operands(op, torch.bool, x, y), {})


_enter_logic("logical_and", aten.logical_and, aten.bitwise_and)
_enter_logic("logical_or", aten.logical_or, aten.bitwise_or)
_enter_logic("logical_xor", aten.logical_xor, aten.bitwise_xor)


@lowers(aten.logical_not.default)
def logical_not(op: OpBuilder, x: Value) -> Value:
    return op.logical_not(_truth(op, x))


@lowers(aten.bitwise_not.default)
def bitwise_not(op: OpBuilder, x: Value) -> Value:
    require(x.dtype == torch.bool, "bits of integers")
    return op.logical_not(x)


@lowers(aten.isnan.default)
def isnan(op: OpBuilder, x: Value) -> Value:
    return op.is_nan(x)


@lowers(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def where(op: OpBuilder, condition: Value, x: Operand, y: Operand) -> Value:
    require(condition.dtype == torch.bool, "a condition that is not bool")
    return op.where(condition, *operands(op, op.fake.dtype, x, y))


@lowers(aten.masked_fill.Scalar)
def masked_fill(op: OpBuilder, x: Value, mask: Value, value: Number) -> Value:
    require(mask.dtype == torch.bool, "a mask that is not bool")
    return op.where(mask, *operands(op, op.fake.dtype, value, x))


# --- functions of one tensor


def _enter_unary(kind: str, target: Any) -> None:
    @lowers(target)
    def unary(op: OpBuilder, x: Value) -> Value:
        # torch computes functions of integers in the default float dtype.
        return op.append(kind, (op.cast(x, op.fake.dtype),), {})


for _kind, _target in {
    "abs": aten.abs.default,
    "neg": aten.neg.default,
    "exp": aten.exp.default,
    "log": aten.log.default,
    "sqrt": aten.sqrt.default,
    "rsqrt": aten.rsqrt.default,
    "reciprocal": aten.reciprocal.default,
    "sin": aten.sin.default,
    "cos": aten.cos.default,
    "tan": aten.tan.default,
    "asin": aten.asin.default,
    "acos": aten.acos.default,
    "atan": aten.atan.default,
    "sinh": aten.sinh.default,
    "cosh": aten.cosh.default,
    "asinh": aten.asinh.default,
    "acosh": aten.acosh.default,
    "atanh": aten.atanh.default,
    "tanh": aten.tanh.default,
    "sigmoid": aten.sigmoid.default,
    "erf": aten.erf.default,
    "relu": aten.relu.default,
    "silu": aten.silu.default,
    "mish": aten.mish.default,
    "hard_swish": aten.hardswish.default,
}.items():
    _enter_unary(_kind, _target)


def _enter_rounding(kind: str, target: Any) -> None:
    @lowers(target)
    def rounding(op: OpBuilder, x: Value) -> Value:
        require(x.dtype is not None and x.dtype.is_floating_point, "integers")
        return op.append(kind, (x,), {})


_enter_rounding("floor", aten.floor.default)
_enter_rounding("ceil", aten.ceil.default)
_enter_rounding("round", aten.round.default)


# --- dtypes


@lowers(aten._to_copy.default)
def to_copy(op: OpBuilder, x: Value, **options: Any) -> Value:
    # Its memory format only shows in the strides of the results, which are as torch has them.
    others = {k for k, v in options.items() if v is not None} - {
        "dtype",
        "device",
        "layout",
        "memory_format",
        "non_blocking",
    }
    require(not others, "pinned memory")
    return convert(op, x, op.fake.dtype)


@lowers(aten.copy.default)
def copy(op: OpBuilder, into: Value, source: Value, non_blocking: bool = False) -> Value:
    made = convert(op, source, op.fake.dtype)
    if source.shape == into.shape:
        return made
    return op.expand(made, shape=list(into.shape or ()))


def convert(op: OpBuilder, x: Value, dtype: torch.dtype) -> Value:
    """Another dtype, as torch converts."""
    assert x.dtype is not None
    small = dtype in (torch.int8, torch.int16, torch.uint8)
    require(not (x.dtype.is_floating_point and small), "floats as small integers")
    if dtype == torch.bool:
        return _truth(op, x)
    return op.cast(x, dtype)
