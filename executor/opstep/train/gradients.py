"""Gradients as values that can be used in other computations and differentiated again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opstep import _core, context, ops
from opstep._core import Error
from opstep.imperative.value import Value
from opstep.origins import names_in
from opstep.variable import Variable


def gradients(
    outputs: Any, inputs: Any, output_gradients: Sequence[Any] | None = None
) -> list[Any]:
    """The gradients of the sum of all elements of `outputs` for each of `inputs`, in both modes.

    `output_gradients`, one of the same shape for each output, weight the elements. The results can
    be used as any other value, in a loss too: for the gradient of a gradient call `gradients` or
    `minimize` on them. In a program the ops are added to the current block.
    """
    if context.imperative():
        return grad(outputs, inputs, output_gradients, create_graph=True)
    wanted = _many(inputs)
    named = [value for value in _many(outputs) if isinstance(value, Variable)]
    if named and all(isinstance(value, Variable) for value in wanted):
        names = names_in(named[0].program, wanted, "[gradients] no gradient for")
    total = _total(outputs, output_gradients, wanted, Variable)
    program = total.program
    block = program.current_block()
    pairs = program._core.append_backward(block.index, total.name, names)
    return [block.var(gradient) for _, gradient in pairs]


def grad(
    outputs: Any,
    inputs: Any,
    output_gradients: Sequence[Any] | None = None,
    create_graph: bool = False,
    retain: bool | None = None,
) -> list[Value]:
    """`opstep.gradients` for runtime values; it changes no value's `gradient`.

    With `create_graph` the gradients are on the tape themselves. Without it memory that ops kept is
    freed unless `retain` says that it is needed again.
    """
    wanted = _many(inputs)
    total = _total(outputs, output_gradients, wanted, Value)
    keep = create_graph if retain is None else retain
    return _core.gradients(total, wanted, keep, create_graph)


def _many(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]


def _total(
    outputs: Any, output_gradients: Sequence[Any] | None, wanted: list[Any], kind: type
) -> Any:
    """One float, of which the gradients are taken."""
    summed = _many(outputs)
    for value in (*summed, *wanted):
        if not isinstance(value, kind):
            what = "variables of a program" if kind is Variable else "runtime values"
            raise _error(f"takes {what} here, not a {type(value).__name__}")
    if not summed or not wanted:
        raise _error("needs at least one output and one input")
    if output_gradients is not None:
        weights = _many(output_gradients)
        if len(weights) != len(summed):
            raise _error(f"got {len(weights)} output_gradients for {len(summed)} outputs")
        for value, weight in zip(summed, weights, strict=True):
            if tuple(weight.shape) != tuple(value.shape):
                raise _error(
                    f"got an output gradient of shape {list(weight.shape)} for an output of shape "
                    f"{list(value.shape)}"
                )
        summed = [ops.mul(value, weight) for value, weight in zip(summed, weights, strict=True)]
    total = ops.reduce_sum(summed[0])
    for value in summed[1:]:
        total = ops.add(total, ops.reduce_sum(value))
    return total


def _error(what: str) -> Error:
    stack = _core.user_stack()
    where = f" ({stack[0][0].rsplit('/', 1)[-1]}:{stack[0][1]})" if stack else ""
    return Error(f"[gradients] {what}{where}")
