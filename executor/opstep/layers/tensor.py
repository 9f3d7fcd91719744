"""Making tensors, looking at them, and moving their elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opstep import _core, context, ops, ragged
from opstep._core import Error
from opstep.initializer import Constant, add_startup_value
from opstep.layers._common import Axes, Out, base_name, error, text
from opstep.operators import Operators
from opstep.variable import Operand, Variable

# --- making -------------------------------------------------------------------------------------


def data(
    name: str, shape: Sequence[int | None], dtype: Any = "float32", lod_level: int = 0
) -> Variable:
    """A variable that the caller of a run feeds. None in `shape` is a size known only then.

    With `lod_level=1` it is ragged: its first axis has the rows of sequences of different lengths,
    and it is fed an `opstep.Ragged` or a list of arrays; with 2, of lists of sequences.
    """
    if context.imperative():
        raise error(
            data,
            f"'{name}' is for programs: in imperative mode make a value of an array with "
            "opstep.imperative.to_variable",
        )
    block = context.default_main_program().global_block()
    dtype = _core.dtype_name(dtype)
    if block.has_var(name):
        found = block.var(name)
        wanted = (list(shape), dtype, lod_level)
        if (list(found.shape), found.dtype, found.lod_level) != wanted:
            sequences = f" with lod_level={lod_level}" if lod_level else ""
            raise Error(
                f"there is already a variable '{name}', and it is not {dtype}{list(shape)}"
                f"{sequences}; give the data another name"
            )
        return found
    if lod_level == 0:
        return _feed(block.create_var(name, shape, dtype, stop_gradient=True))
    made = ragged.declare(block, name, shape, dtype, lod_level, stop_gradient=True)
    for companion in (each for level in made.lod for each in level):
        _feed(companion)
    return _feed(made)


def _feed(variable: Variable) -> Variable:
    return ops.feed(
        name=variable.name,
        dtype=variable.dtype,
        shape=variable.shape,
        out=variable,
        op_name=f"{variable.name}.feed",
    )


def setting(name: str, value: float, dtype: Any = "float32") -> Variable:
    """A number that can be changed without building the program again, such as a learning rate: by
    `scope.set(name, …)` between runs, or `opstep run --set NAME=VALUE`."""
    program = context.default_main_program()
    block = program.global_block()
    if block.has_var(name):
        raise error(setting, f"there is a variable '{name}' already: give it another name")
    made = block.create_var(name, [], dtype, persistable=True, stop_gradient=True)
    add_startup_value(made, Constant(value))
    return made


def fill(shape: Sequence[int], value: float, dtype: Any = "float32", **more: Any) -> Variable:
    """A tensor with the same value everywhere."""
    return ops.fill(shape=shape, value=value, dtype=dtype, **more)


def zeros(shape: Sequence[int], dtype: Any = "float32", name: str | None = None) -> Variable:
    """A tensor of zeros."""
    return ops.fill(shape=shape, value=0, dtype=dtype, name=name)


def ones(shape: Sequence[int], dtype: Any = "float32", name: str | None = None) -> Variable:
    """A tensor of ones."""
    return ops.fill(shape=shape, value=1, dtype=dtype, name=name)


def fill_like(x: Variable, value: float, dtype: Any = None, name: str | None = None) -> Variable:
    """A tensor shaped as x with the same value everywhere."""
    return ops.fill_like(x, value=value, dtype=dtype, name=name)


def zeros_like(x: Variable, dtype: Any = None, name: str | None = None) -> Variable:
    """Zeros, shaped as x."""
    return ops.fill_like(x, value=0, dtype=dtype, name=name)


def ones_like(x: Variable, dtype: Any = None, name: str | None = None) -> Variable:
    """Ones, shaped as x."""
    return ops.fill_like(x, value=1, dtype=dtype, name=name)


def one_hot(
    ids: Variable, depth: int, dtype: Any = "float32", axis: int = -1, name: str | None = None
) -> Variable:
    """A new axis of `depth` zeros, with a 1 at the place that the id names."""
    return ops.one_hot(ids, depth=depth, dtype=dtype, axis=axis, name=name)


bernoulli = ops.bernoulli
eye_like = ops.eye_like
normal = ops.normal
range = ops.range
uniform = ops.uniform


def constant(value: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """A tensor with given values; Python floats become float32 unless `dtype` says otherwise."""
    array = np.asarray(value, dtype=None if dtype is None else _core.numpy_dtype(dtype))
    if dtype is None and not hasattr(value, "dtype") and array.dtype == np.float64:
        array = array.astype(np.float32)
    return ops.constant(value=array, name=name)


def assign(x: Variable, out: Out = None, name: str | None = None) -> Variable:
    """Copy x, into `out` when it is given."""
    return ops.assign(x, out=out, name=name)


def cast(x: Variable, dtype: Any, name: str | None = None) -> Variable:
    """The same values in another dtype."""
    return ops.cast(x, to=dtype, name=name)


def print(x: Variable, message: str = "", name: str | None = None) -> Variable:
    """Write the tensor to standard error whenever the op runs, and pass it on."""
    return ops.print(x, message=message, name=name)


def where(condition: Variable, x: Operand, y: Operand, name: str | None = None) -> Variable:
    """Elements of x where the condition is true, else of y."""
    given = next((v.dtype for v in (x, y) if isinstance(v, Operators)), None)
    whole = all(isinstance(v, int) for v in (x, y))
    dtype = given or ("int64" if whole else "float32")
    x, y = (
        v if isinstance(v, Operators) else ops.fill(shape=[], value=v, dtype=dtype) for v in (x, y)
    )
    return ops.where(condition, x, y, name=name)


# --- shapes -------------------------------------------------------------------------------------


def reshape(x: Variable, shape: Sequence[int], name: str | None = None) -> Variable:
    """The same elements in another shape; one size may be -1, 0 keeps the size of x."""
    return ops.reshape(x, shape=shape, name=name)


def transpose(x: Variable, perm: Sequence[int] | None = None, name: str | None = None) -> Variable:
    """Axis i of the result is axis perm[i] of x; without `perm`, axes are reversed."""
    return ops.transpose(x, perm=perm, name=name)


def squeeze(x: Variable, axes: Axes = None, name: str | None = None) -> Variable:
    """Remove axes of size 1: those in `axes`, or all of them."""
    return ops.squeeze(x, axes=axes, name=name)


def unsqueeze(x: Variable, axes: Axes, name: str | None = None) -> Variable:
    """Insert axes of size 1 at these places of the result."""
    return ops.unsqueeze(x, axes=axes, name=name)


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """A matrix: the axes before `axis` are its rows, the others its columns."""
    return ops.flatten(x, axis=axis, name=name)


def expand(x: Variable, shape: Sequence[int], name: str | None = None) -> Variable:
    """x broadcast with a shape; a 1 there keeps the size of x."""
    return ops.expand(x, shape=shape, name=name)


def tile(x: Variable, repeats: Sequence[int], name: str | None = None) -> Variable:
    """x repeated along each axis."""
    return ops.tile(x, repeats=repeats, name=name)


def pad(
    x: Variable,
    pads: Sequence[tuple[int, int]],
    mode: str | None = None,
    value: float = 0.0,
    name: str | None = None,
) -> Variable:
    """Add margins, (before, after) for each axis: of `value`, or as `mode` says.

    Modes are reflect, edge and wrap.
    """
    if len(pads) != len(x.shape) or any(len(pair) != 2 for pair in pads):
        raise error(pad, f"'{x.name}' is {text(x)}: pads must be {len(x.shape)} pairs, not {pads}")
    sides = [before for before, _ in pads] + [after for _, after in pads]
    return ops.pad(x, pads=sides, mode=mode, constant_value=value, name=name)


shape = ops.shape
size = ops.size

# --- parts --------------------------------------------------------------------------------------


def concat(xs: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """The tensors joined along an axis."""
    if not xs:
        raise error(concat, "there are no tensors to join")
    return ops.concat(list(xs), axis=axis, name=name)


def stack(xs: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """The tensors, all of one shape, joined along a new axis."""
    if not xs:
        raise error(stack, "there are no tensors to join")
    for x in xs[1:]:
        if len(x.shape) != len(xs[0].shape):
            raise error(
                stack,
                f"'{xs[0].name}' is {text(xs[0])} but '{x.name}' is {text(x)}: "
                "all shapes must be equal",
            )
    base = base_name(xs[0], stack, name)
    parts = [
        ops.unsqueeze(x, axes=[axis], name=f"{base}.unsqueeze_{number}")
        for number, x in enumerate(xs)
    ]
    return ops.concat(parts, axis=axis, name=f"{base}.concat", out=f"{base}.out")


def split(
    x: Variable, parts: int | Sequence[int], axis: int = 0, name: str | None = None
) -> list[Variable]:
    """x cut along an axis: into a number of equal parts, or into parts of these sizes."""
    if isinstance(parts, int):
        if parts < 1:
            raise error(split, f"'{x.name}' cannot be cut into {parts} parts")
        return list(ops.split(x, num_outputs=parts, axis=axis, name=name))
    return list(ops.split(x, split=list(parts), axis=axis, name=name))


def slice(
    x: Variable,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    name: str | None = None,
) -> Variable:
    """The elements from start to end in steps along each of the axes; see also x[1:3, ::2]."""
    return ops.slice(x, starts=starts, ends=ends, axes=axes, steps=steps, name=name)


def gather(x: Variable, indices: Variable, axis: int = 0, name: str | None = None) -> Variable:
    """Elements of x along an axis by their indexes; see also x[indices]."""
    return ops.gather(x, indices, axis=axis, name=name)


gather_elements = ops.gather_elements
gather_nd = ops.gather_nd
scatter_elements = ops.scatter_elements
scatter_nd = ops.scatter_nd


def triu(x: Variable, k: int = 0, name: str | None = None) -> Variable:
    """The upper triangle of each matrix, from diagonal k on; the rest is 0."""
    return ops.tri(x, upper=True, k=k, name=name)


def tril(x: Variable, k: int = 0, name: str | None = None) -> Variable:
    """The lower triangle of each matrix, up to diagonal k; the rest is 0."""
    return ops.tri(x, upper=False, k=k, name=name)


def arg_max(
    x: Variable, axis: int = -1, keepdims: bool = False, name: str | None = None
) -> Variable:
    """The index of the largest element along an axis."""
    return ops.arg_max(x, axis=axis, keepdims=keepdims, name=name)


def arg_min(
    x: Variable, axis: int = -1, keepdims: bool = False, name: str | None = None
) -> Variable:
    """The index of the smallest element along an axis."""
    return ops.arg_min(x, axis=axis, keepdims=keepdims, name=name)


def topk(
    x: Variable, k: int, axis: int = -1, largest: bool = True, name: str | None = None
) -> tuple[Variable, Variable]:
    """The k largest elements along an axis, the largest first, and their indexes."""
    return ops.top_k(x, k=k, axis=axis, largest=largest, name=name)


def cumsum(
    x: Variable,
    axis: int = -1,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Variable:
    """Each element plus all before it along an axis."""
    return ops.cum_sum(x, axis=axis, exclusive=exclusive, reverse=reverse, name=name)
