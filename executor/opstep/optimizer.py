"""Optimizers: `minimize` adds the gradients and the ops that change the parameters."""

from __future__ import annotations

from collections.abc import Sequence

from opstep import context, ops
from opstep._core import Error
from opstep.backward import append_backward
from opstep.initializer import Constant, add_startup_value
from opstep.program import Program
from opstep.variable import Variable


class Optimizer:
    """What all optimizers share; a subclass says how one parameter is changed."""

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = learning_rate

    def minimize(
        self,
        loss: Variable,
        startup: Program | None = None,
        parameters: Sequence[Variable | str] | None = None,
    ) -> list[tuple[Variable, Variable]]:
        """Add one training step for `loss`; gives each parameter with its gradient."""
        main = loss.program
        with context.program_guard(main, startup):
            pairs = append_backward(loss, parameters)
            if not pairs:
                raise Error(f"'{loss.name}' depends on no trainable parameter: nothing to minimize")
            rates: dict[str, Variable] = {}
            taken = set(main._core.op_names())
            for parameter, gradient in pairs:
                if parameter.dtype not in rates:
                    rates[parameter.dtype] = self._rate(main, parameter.dtype)
                name = f"{parameter.name}.{type(self).__name__.lower()}"
                if name in taken:  # another loss changes the parameter too
                    name = main.unique_name(name)
                self._update(parameter, gradient, rates[parameter.dtype], name)
        return pairs

    def _rate(self, main: Program, dtype: str) -> Variable:
        """The learning rate as a variable, so that it can be seen and changed between runs."""
        name = main.unique_name("learning_rate")
        rate = main.global_block().create_var(name, [], dtype, persistable=True, stop_gradient=True)
        add_startup_value(rate, Constant(self.learning_rate))
        return rate

    def _update(self, parameter: Variable, gradient: Variable, rate: Variable, name: str) -> None:
        raise NotImplementedError


class SGD(Optimizer):
    """Gradient descent: parameter -= learning_rate * gradient."""

    def _update(self, parameter: Variable, gradient: Variable, rate: Variable, name: str) -> None:
        ops.sgd(parameter, gradient, rate, param_out=parameter, name=name)
