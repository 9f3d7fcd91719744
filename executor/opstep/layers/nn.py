"""Layers with parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from opstep import context, ops
from opstep.foreign_names import with_hints
from opstep.initializer import (
    Constant,
    Initializer,
    Normal,
    Xavier,
    chosen,
)
from opstep.layers._common import (
    Attrs,
    Step,
    activation,
    base_name,
    chain,
    counter,
    error,
    parameter,
    seed_of,
    text,
)
from opstep.variable import Parameter, Variable


def create_parameter(
    shape: Sequence[int],
    dtype: Any = "float32",
    name: str | None = None,
    initializer: Initializer | None = None,
    trainable: bool = True,
    optimize_attr: Attrs = None,
) -> Parameter:
    """A parameter for a layer that you define.

    Set as an attribute in the `__init__` of an `opstep.imperative.Layer`, it belongs to the layer
    in both modes.
    """
    if context.imperative() or context.making_layer():
        from opstep.imperative.parameters import own_parameter

        made = chosen(initializer, Xavier())
        return own_parameter(name or "param", shape, dtype, made, trainable, optimize_attr)
    program = context.default_main_program()
    name = context.scoped(name) if name else None
    return program.global_block().create_parameter(
        name, shape, dtype, initializer, trainable, optimize_attr
    )


@with_hints
def fc(
    x: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    weight_init: Initializer | None = None,
    bias_init: Initializer | None = None,
    bias: bool = True,
    weight_attr: Attrs = None,
    bias_attr: Attrs = None,
    axis: int = 1,
) -> Variable:
    """Fully connected: act(x @ w + b). Dimensions of x from `axis` on are flattened: with -1 each
    step of [batch, steps, width] passes through it separately.

    `weight_attr` and `bias_attr` are the parameters' `optimize_attr`: {"weight_decay": 0.0}.
    """
    base = base_name(x, fc, name)
    last = activation(fc, act)
    shape = x.shape
    rank = len(shape)
    if rank < 2:
        raise error(fc, f"'{x.name}' has the shape {text(x)}: it needs a batch and features")
    at = axis + rank if axis < 0 else axis
    if not 1 <= at < rank:
        raise error(fc, f"axis {axis} is not behind the batch of '{x.name}', which is {text(x)}")
    if None in shape[at:]:
        which = "all its sizes but the first" if at == 1 else f"its sizes from axis {axis} on"
        raise error(fc, f"'{x.name}' is {text(x)}: {which} must be known")
    width = math.prod(size or 0 for size in shape[at:])
    if rank > at + 1:
        kept = [-1] if at == 1 else [0] * at
        x = ops.reshape(x, shape=[*kept, width], name=f"{base}.reshape")
    w = parameter(x, f"{base}.w", [width, size], chosen(weight_init, Xavier()), weight_attr)
    steps: list[Step] = [(ops.matmul, (w,))]
    if bias:
        b = parameter(x, f"{base}.b", [size], chosen(bias_init, Constant(0.0)), bias_attr)
        steps.append((ops.add, (b,)))
    return chain(x, base, steps + last)


@with_hints
def embedding(
    ids: Variable,
    size: Sequence[int],
    padding_idx: int | None = None,
    dtype: Any = "float32",
    name: str | None = None,
    weight_init: Initializer | None = None,
    weight_attr: Attrs = None,
) -> Variable:
    """The row of a parameter [count, width] for each id; zeros where it is `padding_idx`."""
    base = base_name(ids, embedding, name)
    if ids.dtype not in ("int32", "int64"):
        raise error(embedding, f"'{ids.name}' is {ids.dtype}: ids must be int64 or int32")
    if len(size) != 2:
        raise error(embedding, f"size is {list(size)}: it must be [number of ids, width]")
    w = parameter(ids, f"{base}.w", size, chosen(weight_init, Normal()), weight_attr, dtype)
    if padding_idx is None:
        return ops.gather(w, ids, axis=0, name=f"{base}.gather", out=f"{base}.out")
    if not -size[0] <= padding_idx < size[0]:
        raise error(embedding, f"padding_idx is {padding_idx}, but there are {size[0]} ids")
    rows = ops.gather(w, ids, axis=0, name=f"{base}.gather")
    real = ops.not_equal(ids, padding_idx % size[0], name=f"{base}.not_equal")
    mask = ops.unsqueeze(ops.cast(real, to=dtype, name=f"{base}.cast"), axes=[-1])
    return ops.mul(rows, mask, name=f"{base}.mul", out=f"{base}.out")


@with_hints
def dropout(
    x: Variable,
    ratio: float = 0.5,
    is_test: bool = False,
    seed: int | None = None,
    name: str | None = None,
) -> Variable:
    """Sets random elements of x to 0, others in each run, and scales the rest to keep the mean.

    `<name>.count` counts its runs, so that training can be repeated exactly. A test returns x;
    `Program.clone(for_test=True)` turns `is_test` on.
    """
    if is_test:
        return x
    base = base_name(x, dropout, name)
    count = counter(x, f"{base}.count")
    if seed is None:
        seed = seed_of(x, f"{base}.seed")
    out, _mask = ops.dropout(
        x,
        count,
        ratio=ratio,
        training_mode=True,
        seed=seed,
        out=f"{base}.out",
        mask=f"{base}.mask",
        name=f"{base}.dropout",
    )
    ops.increment(count, out=count, name=f"{base}.increment")
    return out
