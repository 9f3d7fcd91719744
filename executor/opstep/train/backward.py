"""Gradients, added to the program as ops."""

from __future__ import annotations

from collections.abc import Sequence

from opstep.errors import error
from opstep.operators import Operators
from opstep.origins import names_in
from opstep.variable import Variable


def append_backward(
    loss: Variable, parameters: Sequence[Variable | str] | None = None
) -> list[tuple[Variable, Variable]]:
    """Add the ops that compute the gradients of `loss`; gives each variable with its gradient.

    Without `parameters`: for every trainable parameter that the loss depends on.
    """
    if not isinstance(loss, Variable):
        raise error(
            "append_backward takes a variable of a program: in imperative mode call backward() of "
            "the value"
            if isinstance(loss, Operators)
            else f"append_backward takes a variable of a program, not {type(loss).__name__}"
        )
    program = loss.program
    wanted = names_in(program, parameters or (), "append_backward: no gradient for")
    block = program.current_block()
    pairs = program._core.append_backward(block.index, loss.name, wanted)
    return [(block.var(name), block.var(gradient)) for name, gradient in pairs]
