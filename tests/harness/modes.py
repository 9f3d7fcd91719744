"""A function in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import opstep
from opstep import imperative
from opstep.convert.merged_values import mapped


def line_by_line(function: Callable[..., Any], *arrays: Any) -> Any:
    """The function's result in imperative mode, with arrays for values."""
    with imperative.guard():
        given = [imperative.to_variable(a) if isinstance(a, np.ndarray) else a for a in arrays]
        result = function(*given)
    return mapped(lambda v: v.numpy() if isinstance(v, imperative.Value) else v, result)


def bits(value: Any) -> Any:
    def leaf(each: Any) -> Any:
        return (each.tobytes(), each.dtype, each.shape) if isinstance(each, np.ndarray) else each

    return mapped(leaf, value)


def same(function: Callable[..., Any], *arrays: Any) -> opstep.convert.Converted:
    """Checks that the modes give the same bits; returns the converted function."""
    converted = opstep.to_graph(function)
    wanted = line_by_line(function, *arrays)
    assert bits(converted(*arrays)) == bits(wanted)
    return converted


def op_types(program: opstep.Program) -> list[str]:
    return [op.type for block in program.blocks for op in block.ops]
