"""Arithmetic, functions of one element, comparisons, logic and reductions.

Layers that need nothing beyond their op are the op's function: `help(layers.erf)` shows it.
"""

from __future__ import annotations

from opstep import ops
from opstep.layers._common import Axes, Out, base_name, error
from opstep.variable import Operand, Variable

# --- arithmetic ---------------------------------------------------------------------------------


def add(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """x + y."""
    return ops.add(x, y, out=out, name=name)


def sub(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """x - y."""
    return ops.sub(x, y, out=out, name=name)


def mul(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """x * y."""
    return ops.mul(x, y, out=out, name=name)


def div(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """x / y; integers are cut towards 0."""
    return ops.div(x, y, out=out, name=name)


def pow(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """x to the power of y."""
    return ops.pow(x, y, out=out, name=name)


def maximum(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """The larger one, element by element."""
    return ops.maximum(x, y, out=out, name=name)


def minimum(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """The smaller one, element by element."""
    return ops.minimum(x, y, out=out, name=name)


def clip(
    x: Variable, min: float | None = None, max: float | None = None, name: str | None = None
) -> Variable:
    """Each element, at least `min` and at most `max`."""
    if min is None and max is None:
        raise error(clip, f"'{x.name}' needs a min or a max to be cut at")
    return ops.clip(x, min=min, max=max, name=name)


def matmul(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The matrix product; leading dimensions are a batch."""
    return ops.matmul(x, y, name=name)


def increment(x: Variable, step: float = 1.0, name: str | None = None) -> Variable:
    """Add `step` to x itself, for counters of loops."""
    return ops.increment(x, step=step, out=x, name=name)


# --- functions of one element -------------------------------------------------------------------

abs = ops.abs
acos = ops.acos
acosh = ops.acosh
asin = ops.asin
asinh = ops.asinh
atan = ops.atan
atanh = ops.atanh
ceil = ops.ceil
cos = ops.cos
cosh = ops.cosh
erf = ops.erf
exp = ops.exp
floor = ops.floor
isinf = ops.is_inf
isnan = ops.is_nan
log = ops.log
neg = ops.neg
reciprocal = ops.reciprocal
round = ops.round
rsqrt = ops.rsqrt
sign = ops.sign
sin = ops.sin
sinh = ops.sinh
sqrt = ops.sqrt
square = ops.square
tan = ops.tan

# --- comparisons and logic ----------------------------------------------------------------------


def less_than(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """x < y."""
    return ops.less(x, y, out=out, name=name)


def less_or_equal(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """x <= y."""
    return ops.less_or_equal(x, y, out=out, name=name)


def greater_than(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """x > y."""
    return ops.greater(x, y, out=out, name=name)


def greater_or_equal(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """x >= y."""
    return ops.greater_or_equal(x, y, out=out, name=name)


def equal(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """x == y, element by element."""
    return ops.equal(x, y, out=out, name=name)


def not_equal(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """x != y, element by element."""
    return ops.not_equal(x, y, out=out, name=name)


logical_and = ops.logical_and
logical_not = ops.logical_not
logical_or = ops.logical_or
logical_xor = ops.logical_xor

# --- reductions ---------------------------------------------------------------------------------


def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements, as a tensor with no dimensions."""
    return ops.reduce_mean(x, keepdims=False, name=base_name(x, mean, name))


def reduce_mean(
    x: Variable, axes: Axes = None, keepdims: bool = False, name: str | None = None
) -> Variable:
    """The mean along axes; along all without `axes`."""
    return ops.reduce_mean(x, axes=axes, keepdims=keepdims, name=name)


def reduce_sum(
    x: Variable, axes: Axes = None, keepdims: bool = False, name: str | None = None
) -> Variable:
    """The sum along axes; along all without `axes`."""
    return ops.reduce_sum(x, axes=axes, keepdims=keepdims, name=name)


def reduce_max(
    x: Variable, axes: Axes = None, keepdims: bool = False, name: str | None = None
) -> Variable:
    """The largest element along axes; along all without `axes`."""
    return ops.reduce_max(x, axes=axes, keepdims=keepdims, name=name)


def reduce_min(
    x: Variable, axes: Axes = None, keepdims: bool = False, name: str | None = None
) -> Variable:
    """The smallest element along axes; along all without `axes`."""
    return ops.reduce_min(x, axes=axes, keepdims=keepdims, name=name)


def reduce_prod(
    x: Variable, axes: Axes = None, keepdims: bool = False, name: str | None = None
) -> Variable:
    """The product along axes; along all without `axes`."""
    return ops.reduce_prod(x, axes=axes, keepdims=keepdims, name=name)


def reduce_l1(
    x: Variable, axes: Axes = None, keepdims: bool = False, name: str | None = None
) -> Variable:
    """The sum of absolute values along axes; along all without `axes`."""
    return ops.reduce_l1(x, axes=axes, keepdims=keepdims, name=name)


def reduce_l2(
    x: Variable, axes: Axes = None, keepdims: bool = False, name: str | None = None
) -> Variable:
    """The root of the sum of squares along axes; along all without `axes`."""
    return ops.reduce_l2(x, axes=axes, keepdims=keepdims, name=name)


def reduce_sum_square(
    x: Variable, axes: Axes = None, keepdims: bool = False, name: str | None = None
) -> Variable:
    """The sum of squares along axes; along all without `axes`."""
    return ops.reduce_sum_square(x, axes=axes, keepdims=keepdims, name=name)


def reduce_log_sum(
    x: Variable, axes: Axes = None, keepdims: bool = False, name: str | None = None
) -> Variable:
    """The logarithm of the sum along axes; along all without `axes`."""
    return ops.reduce_log_sum(x, axes=axes, keepdims=keepdims, name=name)


def reduce_log_sum_exp(
    x: Variable, axes: Axes = None, keepdims: bool = False, name: str | None = None
) -> Variable:
    """log(sum(exp(x))) along axes, computed without overflow."""
    return ops.reduce_log_sum_exp(x, axes=axes, keepdims=keepdims, name=name)


def reduce_all(
    x: Variable, axes: Axes = None, keepdims: bool = False, name: str | None = None
) -> Variable:
    """Are all elements true along axes?"""
    return ops.reduce_all(x, axes=axes, keepdims=keepdims, name=name)


def reduce_any(
    x: Variable, axes: Axes = None, keepdims: bool = False, name: str | None = None
) -> Variable:
    """Is an element true along axes?"""
    return ops.reduce_any(x, axes=axes, keepdims=keepdims, name=name)
