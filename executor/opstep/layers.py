"""Layers: what networks are made of. Each call adds ops to the current block and gives variables.

Names: `fc_0` has the ops `fc_0.matmul`, `fc_0.add` and `fc_0.relu`, the parameters `fc_0.w` and
`fc_0.b` and the result `fc_0.out`. A layer of one op is called after it: `relu_0`, `relu_0.out`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opstep import _core, context, ops
from opstep._core import Error
from opstep.control_flow import While as While
from opstep.initializer import Constant, Initializer, Xavier
from opstep.variable import Operand, Variable

# --- input --------------------------------------------------------------------------------------


def data(name: str, shape: Sequence[int | None], dtype: Any = "float32") -> Variable:
    """A variable that the caller of a run feeds. None in `shape` is a size known only then."""
    block = context.default_main_program().global_block()
    dtype = _core.dtype_name(dtype)
    if name in block.vars:
        found = block.var(name)
        if (list(found.shape), found.dtype) != (list(shape), dtype):
            raise Error(
                f"there is already a variable '{name}', and it is not {dtype}{list(shape)}; "
                "give the data another name"
            )
        return found
    block.create_var(name, shape, dtype, stop_gradient=True)
    return ops.feed(
        name=name, dtype=dtype, shape=shape, out=block.var(name), op_name=f"{name}.feed"
    )


def fill(shape: Sequence[int], value: float, dtype: Any = "float32", **more: Any) -> Variable:
    """A tensor with the same value everywhere."""
    return ops.fill(shape=shape, value=value, dtype=dtype, **more)


def constant(value: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """A tensor with given values; Python floats become float32 unless `dtype` says otherwise."""
    array = np.asarray(value, dtype=None if dtype is None else _core.dtype_name(dtype))
    if dtype is None and not hasattr(value, "dtype") and array.dtype == np.float64:
        array = array.astype(np.float32)
    return ops.constant(value=array, name=name)


# --- layers with parameters ---------------------------------------------------------------------


def fc(
    x: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    weight_init: Initializer | None = None,
    bias_init: Initializer | None = None,
    bias: bool = True,
) -> Variable:
    """Fully connected: act(x @ w + b). Dimensions of x after the first are taken as one."""
    program = x.program
    base = context.scoped(name) if name else program.unique_name("fc")
    activation = _activation(act)
    if len(x.shape) < 2:
        raise _error("fc", f"'{x.name}' has the shape {_text(x)}: it needs a batch and features")
    features = x.shape[1:]
    if None in features:
        raise _error("fc", f"'{x.name}' is {_text(x)}: all its sizes but the first must be known")
    width = math.prod(size or 0 for size in features)
    block = program.global_block()
    if len(x.shape) > 2:
        x = ops.reshape(x, shape=[-1, width], name=f"{base}.reshape")
    w = block.create_parameter(f"{base}.w", [width, size], x.dtype, weight_init or Xavier())
    steps: list[tuple[Callable[..., Variable], tuple[Variable, ...]]] = [(ops.matmul, (w,))]
    if bias:
        b = block.create_parameter(f"{base}.b", [size], x.dtype, bias_init or Constant(0.0))
        steps.append((ops.add, (b,)))
    if activation is not None:
        steps.append((activation, ()))
    for number, (op, others) in enumerate(steps, 1):
        last = {"out": f"{base}.out"} if number == len(steps) else {}
        x = op(x, *others, name=f"{base}.{op.__name__}", **last)
    return x


def _activation(act: str | None) -> Callable[..., Variable] | None:
    if act is None:
        return None
    try:
        return getattr(ops, act)
    except AttributeError as error:
        raise _error("fc", f"act='{act}': {error}") from None


# --- activations --------------------------------------------------------------------------------


def relu(x: Variable, name: str | None = None) -> Variable:
    """max(x, 0)."""
    return ops.relu(x, name=name)


def tanh(x: Variable, name: str | None = None) -> Variable:
    """The hyperbolic tangent."""
    return ops.tanh(x, name=name)


def sigmoid(x: Variable, name: str | None = None) -> Variable:
    """1 / (1 + exp(-x))."""
    return ops.sigmoid(x, name=name)


def softmax(x: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """exp(x) divided by its sum along an axis."""
    return ops.softmax(x, axis=axis, name=name)


# --- losses and measures ------------------------------------------------------------------------


def softmax_with_cross_entropy(
    logits: Variable, label: Variable, name: str | None = None
) -> Variable:
    """-log(softmax(logits)[label]) for each row, computed without overflow."""
    loss, _ = ops.softmax_with_cross_entropy(logits, label, name=name)
    return loss


def square_error_cost(x: Variable, label: Variable, name: str | None = None) -> Variable:
    """(x - label) squared, element by element."""
    base = context.scoped(name) if name else x.program.unique_name("square_error_cost")
    difference = ops.sub(x, label, name=f"{base}.sub")
    return ops.mul(difference, difference, name=f"{base}.mul", out=f"{base}.out")


def accuracy(scores: Variable, label: Variable, name: str | None = None) -> Variable:
    """The share of rows whose largest score is at the label's place."""
    base = context.scoped(name) if name else scores.program.unique_name("accuracy")
    keep = len(label.shape) == len(scores.shape)
    guess = ops.arg_max(scores, axis=-1, keepdims=keep, name=f"{base}.arg_max")
    right = ops.equal(guess, label, name=f"{base}.equal")
    as_float = ops.cast(right, to="float32", name=f"{base}.cast")
    return ops.reduce_mean(as_float, keepdims=False, name=f"{base}.reduce_mean", out=f"{base}.out")


# --- reductions ---------------------------------------------------------------------------------

Axes = int | Sequence[int] | None


def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements, as a tensor with no dimensions."""
    base = context.scoped(name) if name else x.program.unique_name("mean")
    return ops.reduce_mean(x, keepdims=False, name=base)


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


# --- arithmetic ---------------------------------------------------------------------------------
# `out` is a variable to write into, for loops.

Out = Variable | str | None


def matmul(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The matrix product; leading dimensions are a batch."""
    return ops.matmul(x, y, name=name)


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
    """x / y."""
    return ops.div(x, y, out=out, name=name)


def pow(x: Operand, y: Operand, out: Out = None, name: str | None = None) -> Variable:
    """x to the power of y."""
    return ops.pow(x, y, out=out, name=name)


def exp(x: Variable, name: str | None = None) -> Variable:
    """e to the power of x."""
    return ops.exp(x, name=name)


def log(x: Variable, name: str | None = None) -> Variable:
    """The natural logarithm."""
    return ops.log(x, name=name)


def sqrt(x: Variable, name: str | None = None) -> Variable:
    """The square root."""
    return ops.sqrt(x, name=name)


def increment(x: Variable, step: float = 1.0, name: str | None = None) -> Variable:
    """Add `step` to x itself, for counters of loops."""
    return ops.increment(x, step=step, out=x, name=name)


def assign(x: Variable, out: Out = None, name: str | None = None) -> Variable:
    """Copy x, into `out` when it is given."""
    return ops.assign(x, out=out, name=name)


# --- comparisons --------------------------------------------------------------------------------


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


# --- shapes and dtypes --------------------------------------------------------------------------


def reshape(x: Variable, shape: Sequence[int], name: str | None = None) -> Variable:
    """The same elements in another shape; one size may be -1, 0 keeps the size of x."""
    return ops.reshape(x, shape=shape, name=name)


def transpose(x: Variable, perm: Sequence[int] | None = None, name: str | None = None) -> Variable:
    """Axis i of the result is axis perm[i] of x; without `perm` the order is turned round."""
    return ops.transpose(x, perm=perm, name=name)


def cast(x: Variable, dtype: Any, name: str | None = None) -> Variable:
    """The same values in another dtype."""
    return ops.cast(x, to=dtype, name=name)


# --- looking ------------------------------------------------------------------------------------


def print(x: Variable, message: str = "", name: str | None = None) -> Variable:
    """Write the tensor to standard output whenever the op runs; gives it on."""
    return ops.print(x, message=message, name=name)


# --- helpers ------------------------------------------------------------------------------------


def _text(x: Variable) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in x.shape) + "]"


def _error(layer: str, what: str) -> Error:
    stack = _core.user_stack()
    where = f" ({stack[0][0].rsplit('/', 1)[-1]}:{stack[0][1]})" if stack else ""
    return Error(f"[{layer}] {what}{where}")
