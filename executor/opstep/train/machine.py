"""Models named by their output, and machines that compute them and their gradients.

generator, judge = opstep.model_of(fake), opstep.model_of(loss)
machine = opstep.compose(generator, judge, connect={sample: fake})
machine.feed({"noise": noise, "label": ones}).backward()
opstep.updater(opstep.optimizer.Adam(0.001)).update(machine, only=generator)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opstep import _core, context, owners
from opstep._core import Error
from opstep.executor import Executor, Scope, global_scope
from opstep.model import _persistables
from opstep.origins import accepts, name_in
from opstep.program import Program
from opstep.program_join import joined
from opstep.show import tables
from opstep.train.backward import append_backward
from opstep.variable import Parameter, Variable


class OutputModel:
    """The ops that compute one variable, and the values of its parameters; made by `model_of`."""

    def __init__(self, output: Variable, scope: Scope) -> None:
        self.output = output
        self.scope = scope
        self.program = _part(output)
        self.feeds: list[str] = self.program._core.feed_names()
        _fill(self.program, output.program, scope)

    @property
    def name(self) -> str:
        """The output's name."""
        return self.output.name

    @property
    def parameters(self) -> list[Parameter]:
        return self.program.parameters()

    @property
    def values(self) -> dict[str, np.ndarray]:
        """Copies of the parameters' values, by name."""
        return {p.name: self.scope.find(p.name) for p in self.parameters}

    def __repr__(self) -> str:
        fed = ", ".join(self.feeds) or "nothing"
        return f"<model '{self.name}' of {fed}, with {len(self.parameters)} parameters>"

    def _repr_html_(self) -> str:
        return tables.model_table(self)


def model_of(output: Variable, scope: Scope | None = None) -> OutputModel:
    """The model that computes `output`: the ops that it needs, and their parameters in the scope.

    Parameters without a value get their first one, as the startup program says.
    """
    if not isinstance(output, Variable):
        raise Error(f"a model is named by its output, a variable, not by a {type(output).__name__}")
    return OutputModel(output, global_scope() if scope is None else scope)


class GradientMachine:
    """Computes models and the gradients of the last one's output, after `feed`.

    `forward` changes nothing: layers behave as in a test. `backward` is the first half of a
    training step, which updates batch_norm's averages and dropout's counters; an updater does the
    other half.

    Fed with variables instead of values, as in the body of a loop, `forward`, `backward` and the
    updater add their ops to the program that is being built, and give variables.
    """

    def __init__(self, models: tuple[OutputModel, ...], connect: Mapping[str, str]) -> None:
        self.models = models
        self.scope = models[-1].scope
        self.connected = dict(connect)
        self.program = _joint(models, self.connected)
        self.feeds: list[str] = self.program._core.feed_names()
        self.gradients: dict[str, Any] = {}
        """By parameter, from the last `backward`."""
        self._fed: dict[str, Any] = {}
        self._test = self.program.clone(for_test=True)
        self._targets: dict[str, Program] = {}
        self._training: tuple[Program, list[tuple[str, str]]] | None = None
        self._executor = Executor()

    @property
    def output(self) -> str:
        """The name of the variable that `backward` differentiates: the last model's output."""
        return self.models[-1].name

    def model(self, output: OutputModel | Variable | str) -> OutputModel:
        """The covered model with this output."""
        name = output.name if isinstance(output, OutputModel) else _among(self.models, output)
        for model in self.models:
            if model.name == name:
                return model
        covered = ", ".join(f"'{model.name}'" for model in self.models)
        raise Error(f"the machine covers no model '{name}', only {covered}")

    def feed(self, batch: Mapping[str | Variable, Any]) -> GradientMachine:
        """Take the minibatch that `forward` and `backward` work with; returns the machine."""
        if not isinstance(batch, Mapping):
            raise Error(
                "a machine is fed a dict of names and values, "
                f"not a {type(batch).__name__}: as in batch, end = reader()"
            )
        fed = {_among(self.models, key): value for key, value in batch.items()}
        for name in fed:
            if name in self.connected:
                raise Error(
                    f"'{name}' cannot be fed to this machine: it is connected to "
                    f"'{self.connected[name]}'"
                )
            if name not in self.feeds:
                near = _core.nearest(name, self.feeds)
                hint = f"; did you mean '{near}'?" if near else ""
                raise Error(f"the machine for '{self.output}' is not fed '{name}'{hint}")
        if len({isinstance(value, Variable) for value in fed.values()}) > 1:
            raise Error("a machine is fed variables of a program, or values, but not both")
        self._fed = fed
        self.gradients = {}
        return self

    @property
    def builds(self) -> bool:
        """Is it fed with variables, so that it adds ops to their program?"""
        return any(isinstance(value, Variable) for value in self._fed.values())

    def forward(self, output: OutputModel | Variable | str | None = None) -> Any:
        """The value of the last model's output, or of another covered model's."""
        name = self.output if output is None else self.model(output).name
        if name not in self._targets:
            self._targets[name] = self._test.prune([name])
        (value,) = self._run(self._targets[name], [name])
        return value

    def backward(self) -> Any:
        """Compute the last model's output, a loss of one element, and keep its gradients with
        respect to all trainable parameters in `gradients`; gives the loss."""
        if self._training is None:
            program = self.program.clone(name=f"{self.program.name}_training")
            pairs = append_backward(program.global_block().var(self.output))
            if not pairs:
                raise Error(f"'{self.output}' depends on no trainable parameter: no gradients")
            self._training = program, [(p.name, gradient.name) for p, gradient in pairs]
        program, names = self._training
        loss, *values = self._run(program, [self.output, *(gradient for _, gradient in names)])
        self.gradients = {p: value for (p, _), value in zip(names, values, strict=True)}
        return loss

    def _run(self, program: Program, fetches: list[str]) -> list[Any]:
        feed: dict[str | Variable, Any] = {}
        for name in program._core.feed_names():
            if name not in self._fed:
                raise Error(f"to compute '{fetches[0]}' the machine must be fed '{name}' too")
            feed[name] = self._fed[name]
        if self.builds:
            return _add(program, feed, fetches)
        return self._executor.run(program, feed, fetches, self.scope)

    def __repr__(self) -> str:
        covered = ", ".join(f"'{model.name}'" for model in self.models)
        return f"<gradient machine for {covered}>"

    def _repr_html_(self) -> str:
        return tables.machine_table(self)


def _add(program: Program, feed: Mapping[Any, Variable], wanted: list[str]) -> list[Variable]:
    """Add the ops of a program to the block that is being built, with variables instead of its
    feeds; returns the wanted variables there."""
    target = next(iter(feed.values())).program
    block = target.current_block()
    connect = {name: value.name for name, value in feed.items()}
    for name, value in feed.items():
        connect |= _companions(program.global_block().var(name), value)
    owners.check_shared(target, program)
    owners.adopt(target, program)
    names = target._core.join_into(block.index, program._core, connect, wanted)
    return [block.var(name) for name in names]


def gradient_machine(model: OutputModel) -> GradientMachine:
    """A machine for one model."""
    return compose(model)


def compose(
    *models: OutputModel, connect: Mapping[str | Variable, str | Variable] | None = None
) -> GradientMachine:
    """One machine for several models, each of which stays as it is and can be used alone.

    `connect` says which feed of a model takes which variable of a model before it:
    `connect={sample: fake}`. Gradients flow through.
    """
    if not models:
        raise Error("compose was given no model")
    for model in models:
        if not isinstance(model, OutputModel):
            raise Error(f"a machine covers what model_of gives, not a {type(model).__name__}")
        if model.scope is not models[0].scope:
            raise Error(
                f"'{models[0].name}' and '{model.name}' keep their parameters in two scopes: make "
                "both models with the same one"
            )
    pairs = (connect or {}).items()
    return GradientMachine(models, {_among(models, k): _among(models, v) for k, v in pairs})


def _among(models: tuple[OutputModel, ...], item: str | Variable) -> str:
    """The name of a variable that one of the models has."""
    if isinstance(item, Variable):
        for model in models[:-1]:
            if accepts(model.program, item):
                return item.name
    return name_in(models[-1].program, item, "a machine cannot take")


def _part(output: Variable) -> Program:
    """The ops that compute the output in training, and those that update their counters."""
    program, name = output.program, output.name
    part = program.prune([name], filled=True)
    # A dropout's counter is written after it was read.
    kept = [v.name for v in _persistables(part) if not isinstance(v, Parameter)]
    return program.prune([name, *kept], name=name, filled=True)


def _fill(part: Program, program: Program, scope: Scope) -> None:
    for variable in _persistables(part):
        owners.check(program, variable.name, scope)
    missing = [v.name for v in _persistables(part) if v not in scope]
    if not missing:
        return
    startup = program._startup or context.default_startup_program()
    for name in missing:
        if not startup.global_block().has_var(name):
            raise Error(
                f"'{name}' has no value, and program '{startup.name}' does not give it one: load "
                "it, or run the program that does"
            )
    startup.prune(missing).run(scope=scope)


def _companions(feed: Variable, value: Variable) -> dict[str, str]:
    """The other feeds to connect with a ragged one: where its sequences begin."""
    levels = zip(feed.lod, value.lod, strict=False)
    return {
        companion.name: given.name
        for level, other in levels
        for companion, given in zip(level, other, strict=True)
    }


def _joint(models: tuple[OutputModel, ...], connect: Mapping[str, str]) -> Program:
    """One program for all; parts that models of one program share are in it once."""
    name = "+".join(model.name for model in models)
    joint = models[0].program.clone(name=name)
    used: set[str] = set()
    for model in models[1:]:
        own = {feed: connect[feed] for feed in model.feeds if feed in connect}
        for feed, value in list(own.items()):
            if not joint.global_block().has_var(value):
                raise Error(
                    f"'{feed}' cannot be connected to '{value}': no model before '{model.name}' "
                    "has that variable"
                )
            own |= _companions(
                model.program.global_block().var(feed), joint.global_block().var(value)
            )
        joint = joined(joint, model.program, own, True, name)
        used |= own.keys()
    for feed in connect.keys() - used:
        raise Error(f"'{feed}' cannot be connected: no model but the first is fed it")
    return joint
