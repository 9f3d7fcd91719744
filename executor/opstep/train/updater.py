"""Updaters change the parameters that a machine has gradients for."""

from __future__ import annotations

import itertools

import numpy as np

from opstep import context, layers, owners
from opstep._core import Error
from opstep.executor import Executor, Scope
from opstep.optimizer import Optimizer
from opstep.program import Program
from opstep.show import tables
from opstep.train.machine import GradientMachine, OutputModel
from opstep.variable import Parameter, Variable

_numbers = itertools.count()


class Updater:
    """The second half of a training step: `update` after the machine's `backward`."""

    def update(
        self, machine: GradientMachine, only: OutputModel | Variable | str | None = None
    ) -> None:
        """Change the parameters of all models that the machine covers, or with `only` those of the
        model with this output: all others keep every bit."""
        if not isinstance(machine, GradientMachine):
            raise Error(
                "an updater updates the models of a machine: give that, "
                f"not a {type(machine).__name__}"
            )
        if not machine.gradients:
            raise Error("there are no gradients to update with: call the machine's backward first")
        chosen = machine.gradients
        if only is not None:
            own = {p.name for p in machine.model(only).parameters}
            chosen = {name: value for name, value in chosen.items() if name in own}
            if not chosen:
                raise Error(
                    f"the model '{machine.model(only).name}' has no trainable parameter that "
                    f"'{machine.output}' depends on"
                )
        if machine.builds:
            self._add(machine, tuple(chosen))
        else:
            self._apply(machine, tuple(chosen))

    def _apply(self, machine: GradientMachine, names: tuple[str, ...]) -> None:
        raise NotImplementedError

    def _add(self, machine: GradientMachine, names: tuple[str, ...]) -> None:
        """The same as ops of the program that the machine's gradients are variables of."""
        raise NotImplementedError


class SimpleUpdater(Updater):
    """Updates in this process. Its state (moments, learning rates, counters of steps) is in the
    machine's scope, under names that begin with `prefix`."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.prefix = f"updater_{next(_numbers)}"
        self.steps = 0
        """The number of its updates."""
        self._executor = Executor()
        self._programs: dict[tuple[Scope, tuple[str, ...]], Program] = {}

    def _apply(self, machine: GradientMachine, names: tuple[str, ...]) -> None:
        key = machine.scope, names
        if key not in self._programs:
            self._programs[key] = self._build(machine, names)
        feed: dict[str | Variable, np.ndarray] = {
            _gradient(name): machine.gradients[name] for name in names
        }
        self._executor.run(self._programs[key], feed, scope=machine.scope)
        self.steps += 1

    def _add(self, machine: GradientMachine, names: tuple[str, ...]) -> None:
        program = machine.gradients[names[0]].program
        home = program.global_block()
        with context.program_guard(program):
            pairs = [(home.var(name), machine.gradients[name]) for name in names]
            self.optimizer.apply_gradients(pairs, prefix=f"{self.prefix}/")

    def _build(self, machine: GradientMachine, names: tuple[str, ...]) -> Program:
        """The program that changes these parameters with gradients that are fed."""
        # Parameters that are always updated together count their steps together.
        place = f"{self.prefix}.{len(self._programs)}"
        main, startup = Program(place), Program(f"{place}.startup")
        block = machine.program.global_block()
        with context.program_guard(main, startup), context.names_below(place):
            pairs = [_pair(main, block.var(name)) for name in names]
            self.optimizer.apply_gradients(pairs, prefix=f"{self.prefix}/")
        new = [name for name in startup.global_block().vars if name not in machine.scope]
        if new:
            startup.prune(new).run(scope=machine.scope)
        return main

    def __repr__(self) -> str:
        return f"<updater {self.prefix} with {type(self.optimizer).__name__}>"

    def _repr_html_(self) -> str:
        names = [name for _, names in self._programs for name in names]
        facts = {
            "optimizer": type(self.optimizer).__name__,
            "learning rate": self.optimizer.learning_rate,
            "steps": f"{self.steps:,}",
            "updates": ", ".join(dict.fromkeys(names)) or "nothing yet",
        }
        return tables.facts_table(f"updater {self.prefix}", facts)


def updater(optimizer: Optimizer) -> Updater:
    """An updater of machines with this optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise Error(f"an updater needs one of opstep.optimizer, not a {type(optimizer).__name__}")
    if isinstance(optimizer.learning_rate, Variable):
        raise Error(
            "an updater's learning rate must be a number or a schedule of opstep.lr: it runs its "
            f"own program, which does not have '{optimizer.learning_rate.name}'"
        )
    return SimpleUpdater(optimizer)


def _gradient(name: str) -> str:
    return f"{name}@grad"


def _pair(main: Program, parameter: Variable) -> tuple[Variable, Variable]:
    """The parameter and its gradient as variables of the update's program."""
    assert isinstance(parameter, Parameter)
    name, dtype, shape = parameter.name, parameter.dtype, parameter.shape
    main._core.create_var(0, name, dtype, shape, True, True, True, False)
    main._core.set_var_attrs(0, name, parameter.optimize_attr)
    owners.set_owner(main, name, owners.owner_of(parameter.program, name))
    return main.global_block().var(name), layers.data(_gradient(name), shape, dtype)
