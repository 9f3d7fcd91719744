"""Optimizers: `minimize` adds the gradients and the ops that change the parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from opstep import _core, context, foreign_names, ops, owners
from opstep._core import Error
from opstep.clipping import GradientClip
from opstep.errors import error
from opstep.executor import Scope, global_scope
from opstep.imperative.mode import guard, no_grad
from opstep.imperative.programs import values_in
from opstep.imperative.value import ParameterValue, Value
from opstep.initializer import Constant, add_startup_value
from opstep.lr import Schedule
from opstep.operators import Operators
from opstep.program import Program
from opstep.train.backward import append_backward
from opstep.variable import Parameter, Variable

Pair = tuple[Variable, Variable]
Rate = float | Schedule | Operators
_PARAMETERS = (Parameter, ParameterValue)


def _values(parameters: Any) -> list[Value]:
    """The parameters given to `step`, checked."""
    if callable(getattr(parameters, "parameters", None)):
        raise error("step takes parameters, not a layer: say model.parameters()")
    values = list(parameters)
    for value in values:
        if isinstance(value, Variable):
            raise error(
                f"step takes runtime values, and '{value.name}' is a variable of a program: "
                "minimize adds steps to programs"
            )
        if not isinstance(value, Value):
            raise error(f"step takes parameters, not {type(value).__name__}")
    if not values:
        raise error(
            "step was given no parameters: layers that make theirs at the first call must have "
            "been called"
        )
    return values


class Optimizer:
    """The base of all optimizers; a subclass defines how one parameter is changed.

    `learning_rate` is a number, a schedule of `opstep.lr` or a variable with one element that the
    program computes otherwise; `grad_clip` is one of `opstep.clipping`. A parameter's
    `optimize_attr` can scale its learning rate, replace the weight decay (0 for none) and keep its
    gradient as it is ("grad_clip": False).
    """

    _counts_steps = False

    def __new__(cls, *_: Any, **words: Any) -> Any:
        foreign_names.check_words(cls.__name__, cls.__init__, words)
        return super().__new__(cls)

    def __init__(
        self,
        learning_rate: Rate,
        weight_decay: float = 0.0,
        grad_clip: GradientClip | None = None,
    ) -> None:
        if not isinstance(learning_rate, int | float | Schedule | Operators):
            raise Error(
                "learning_rate must be a number, a schedule of opstep.lr or a variable, not a "
                f"{type(learning_rate).__name__}"
            )
        if grad_clip is not None and not isinstance(grad_clip, GradientClip):
            raise Error(f"grad_clip must be one of opstep.clipping, not {grad_clip!r}")
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.grad_clip = grad_clip
        # In imperative mode: the state of each parameter, by its value and the name of the state.
        self._kept: dict[Any, Value] = {}
        # The same in programs, by the parameter's name, → the variable's name.
        self._named: WeakKeyDictionary[Program, dict[Any, str]] = WeakKeyDictionary()
        # The owners of that state, by the parameter's name and owner: programs that share the
        # parameter share the state.
        self._owners: dict[Any, int] = {}

    def minimize(
        self,
        loss: Variable,
        startup: Program | None = None,
        parameters: Sequence[Variable | str] | None = None,
    ) -> list[Pair]:
        """Add one training step for `loss`; gives each parameter with its gradient.

        In imperative mode, take that step for `parameters`: `backward`, `step`, and gradients are
        cleared. Those of other parameters stay as they are.
        """
        if isinstance(loss, Value):
            if parameters is None:
                raise error(
                    "minimize needs to know in imperative mode which parameters to change: say "
                    "parameters=model.parameters()"
                )
            loss.backward(only=parameters)
            return self.step(parameters)
        if not isinstance(loss, Variable):
            raise error(f"minimize takes a loss, not {type(loss).__name__}")
        if context.imperative():
            raise error(
                f"'{loss.name}' is a variable of a program, which has no value yet: call minimize "
                "outside of opstep.imperative.guard()"
            )
        main = loss.program
        with context.program_guard(main, startup):
            startup = main._startup or context.default_startup_program()
            before = [(program, program._core.serialize()) for program in (main, startup)]
            pairs = append_backward(loss, parameters)
            if not pairs:
                raise Error(f"'{loss.name}' depends on no trainable parameter: nothing to minimize")
            try:
                self.apply_gradients(pairs)
            except Exception:
                for program, data in before:
                    program._core.restore(data)
                raise
        return pairs

    def step(self, parameters: Sequence[Any]) -> list[Any]:
        """In imperative mode: change each parameter with its gradient, which is then cleared; those
        without one stay as they are. Gives each that was changed with its gradient."""
        pairs = [(p, p.gradient) for p in _values(parameters) if p.gradient is not None]
        with guard(), no_grad():
            step = _StepNow(self, self._kept)
            for parameter, gradient in self._clipped("clipping", pairs):
                self._change(parameter, gradient, f"{parameter.name}.{_kind(self)}", step)
            step.finish()
        for parameter, _ in pairs:
            parameter.clear_gradient()
        return pairs

    def share(self, scope: Scope | None = None) -> None:
        """Let imperative mode and the programs that it was added to use the same state, in that
        scope, of parameters that a `Layer` shares there: moments, and how many steps were taken.

        State made by steps in imperative mode goes to the programs; otherwise it comes from them.
        """
        target = scope or global_scope()
        for program, named in list(self._named.items()):
            values = values_in(program)
            for (parameter, state), name in named.items():
                if parameter is not None and parameter not in values:
                    continue
                owner = None if parameter is None else values[parameter]
                variable = program.global_block().var(name)
                if (owner, state) not in self._kept:
                    if variable not in target:
                        continue  # the startup program has not run there
                    self._kept[owner, state] = Value(target.find(variable), name=name)
                owners.check(program, name, target)
                key = owners.key(program, name, target)
                _core.share_value(target._core, key, self._kept[owner, state])

    def apply_gradients(self, pairs: Sequence[Pair], prefix: str = "") -> None:
        """Add the ops that change each parameter with its gradient; `prefix` goes before their
        names and those of the state that belongs to a parameter."""
        main = pairs[0][0].program
        step = _Step(self, main, [parameter for parameter, _ in pairs])
        for parameter, gradient in self._clipped(main.unique_name("clipping"), pairs):
            name = f"{prefix}{parameter.name}.{_kind(self)}"
            if main._core.has_op_name(name):  # another loss changes the parameter too
                name = main.unique_name(name)
            self._change(parameter, gradient, name, step)
        step.finish()

    def _change(self, parameter: Variable, gradient: Variable, name: str, step: _Step) -> None:
        step.name, step.weight_decay = name, self.weight_decay
        rate = 1.0
        if isinstance(parameter, _PARAMETERS):
            own = parameter.optimize_attr
            rate = own.get("learning_rate", 1.0)
            step.weight_decay = own.get("weight_decay", self.weight_decay)
        self._update(parameter, gradient, step.rate(parameter.dtype, rate), step)

    def _clipped(self, names: str, pairs: Sequence[Pair]) -> list[Pair]:
        if self.grad_clip is None:
            return list(pairs)
        chosen = [
            number
            for number, (parameter, _) in enumerate(pairs)
            if not isinstance(parameter, _PARAMETERS)
            or parameter.optimize_attr.get("grad_clip", True)
        ]
        with context.names_below(names):
            clipped = self.grad_clip.clip([pairs[number][1] for number in chosen])
        result = list(pairs)
        for number, gradient in zip(chosen, clipped, strict=True):
            result[number] = pairs[number][0], gradient
        return result

    def _update(self, parameter: Variable, gradient: Variable, rate: Variable, step: _Step) -> None:
        raise NotImplementedError


class _Step:
    """The values that the updates of one training step share."""

    def __init__(
        self, optimizer: Optimizer, main: Any, parameters: Sequence[Variable] = ()
    ) -> None:
        self.main = main
        self._owners = optimizer._owners
        self._owner = self._join(parameters)
        self.name = ""
        self.weight_decay = 0.0
        self._named = {} if main is None else optimizer._named.setdefault(main, {})
        self._learning_rate = optimizer.learning_rate
        self._rates: dict[tuple[str, float], Variable] = {}
        self.count: Variable | None = None
        """How many steps were taken before."""
        if optimizer._counts_steps or isinstance(optimizer.learning_rate, Schedule):
            self.count = self._count()

    def rate(self, dtype: str, factor: float = 1.0) -> Variable:
        """The learning rate as a variable, so that it can be seen and changed between runs."""
        if (dtype, factor) not in self._rates:
            made = self._make_rate(dtype) if factor == 1 else self.rate(dtype) * factor
            self._rates[dtype, factor] = made
        return self._rates[dtype, factor]

    def _make_rate(self, dtype: str) -> Variable:
        if not isinstance(self._learning_rate, Schedule | Operators):
            return self._constant_rate(dtype, self._learning_rate)
        name = self._unique_name("learning_rate")
        if isinstance(self._learning_rate, Operators):
            return ops.cast(self._learning_rate, to=dtype, name=f"{name}.cast", out=name)
        assert self.count is not None
        with context.names_below(name):
            rate = self._learning_rate.build(self.count, dtype if dtype == "float64" else "float32")
        return ops.cast(rate, to=dtype, name=f"{name}.cast", out=name)

    def _join(self, parameters: Sequence[Variable]) -> int:
        """The owner of the values that are not of one parameter: that of another program which
        shares one of these parameters, or a new one."""
        if self.main is None or self.main._owner == owners.NOBODY:
            return owners.NOBODY  # a program from a file finds all by name
        keys = [self._key(parameter) for parameter in parameters]
        known = [self._owners[key] for key in keys if key in self._owners]
        owner = known[0] if known else owners.new_owner_apart()
        for key in keys:
            self._owners.setdefault(key, owner)
        return owner

    def _key(self, parameter: Variable) -> Any:
        return parameter.name, owners.owner_of(self.main, parameter.name)

    def _constant_rate(self, dtype: str, value: float) -> Variable:
        # When the optimizer's rate changes, programs made before and after keep their own.
        owner = self._owner
        if owner != owners.NOBODY:
            key = value, owner
            owner = self._owners.get(key) or owners.new_owner_apart()
            self._owners[key] = owner
        name = self._name("learning_rate", owner)
        return self._persistable(name, [], dtype, value, owner)

    def _unique_name(self, kind: str) -> str:
        return self.main.unique_name(kind)

    def _name(self, kind: str, owner: int, rest: str = "") -> str:
        """A name that no value of another owner has in the program or its startup program."""
        startup = self.main._startup or context.default_startup_program()
        while True:
            name = f"{self._unique_name(kind)}{rest}"
            if not startup.global_block().has_var(name) or owner == owners.owner_of(startup, name):
                return name

    def _count(self) -> Variable:
        name = self._name("optimizer", self._owner, ".step")
        self._named.setdefault((None, "step"), name)
        return self._persistable(name, [], "int64", owner=self._owner)

    def state(self, name: str, parameter: Variable) -> Variable:
        """A variable that starts as zeros and is as large as the parameter."""
        owner = self._owners.get(self._key(parameter), self._owner)
        full = f"{self.name}.{name}"
        startup = self.main._startup or context.default_startup_program()
        if startup.global_block().has_var(full) and owners.owner_of(startup, full) != owner:
            self.name = self._name(self.name, owner, f".{name}").removesuffix(f".{name}")
            full = f"{self.name}.{name}"
        self._named.setdefault((parameter.name, name), full)
        return self._persistable(full, parameter.shape, parameter.dtype, owner=owner)

    def _persistable(
        self,
        name: str,
        shape: Sequence[int | None],
        dtype: str,
        value: float = 0.0,
        owner: int = owners.NOBODY,
    ) -> Variable:
        block = self.main.global_block()
        variable = block._create_var(name, shape, dtype, persistable=True, stop_gradient=True)
        owners.set_owner(self.main, name, owner)
        add_startup_value(variable, Constant(value))
        return variable

    def finish(self) -> None:
        if self.count is not None:
            ops.increment(self.count, out=self.count, name=f"{self.count.name}.increment")


class _StepNow(_Step):
    """A step that is taken at once; the optimizer keeps its state."""

    def __init__(self, optimizer: Optimizer, kept: dict[Any, Value]) -> None:
        self._kept = kept
        super().__init__(optimizer, None)

    def _unique_name(self, kind: str) -> str:
        return kind

    def _constant_rate(self, dtype: str, value: float) -> Any:
        return self._once(("learning_rate", dtype, value), "learning_rate", [], dtype, value)

    def _count(self) -> Any:
        return self._once((None, "step"), "optimizer.step", [], "int64")

    def state(self, name: str, parameter: Any) -> Any:
        # Two parameters may have one name.
        key = parameter, name
        return self._once(key, f"{self.name}.{name}", parameter.shape, parameter.dtype)

    def _once(
        self, key: Any, name: str, shape: Sequence[int | None], dtype: str, value: float = 0.0
    ) -> Any:
        if key not in self._kept:
            array = np.full(shape, value, _core.numpy_dtype(dtype))
            self._kept[key] = Value(array, name=name)
        return self._kept[key]


def _kind(optimizer: Optimizer) -> str:
    return type(optimizer).__name__.lower()


class SGD(Optimizer):
    """Gradient descent: parameter -= learning_rate * gradient."""

    def _update(self, parameter: Variable, gradient: Variable, rate: Variable, step: _Step) -> None:
        ops.sgd(
            parameter,
            gradient,
            rate,
            weight_decay=step.weight_decay,
            param_out=parameter,
            name=step.name,
        )


class Momentum(Optimizer):
    """Gradient descent with a velocity that keeps the share `momentum` of itself at each step."""

    def __init__(
        self,
        learning_rate: Rate,
        momentum: float = 0.9,
        use_nesterov: bool = False,
        weight_decay: float = 0.0,
        grad_clip: GradientClip | None = None,
    ) -> None:
        super().__init__(learning_rate, weight_decay, grad_clip)
        self.momentum, self.use_nesterov = momentum, use_nesterov

    def _update(self, parameter: Variable, gradient: Variable, rate: Variable, step: _Step) -> None:
        velocity = step.state("velocity", parameter)
        ops.momentum(
            parameter,
            gradient,
            velocity,
            rate,
            mu=self.momentum,
            use_nesterov=self.use_nesterov,
            weight_decay=step.weight_decay,
            param_out=parameter,
            velocity_out=velocity,
            name=step.name,
        )


class Adam(Optimizer):
    """Steps scaled by the means of past gradients and of their squares (Kingma and Ba, 2015)."""

    _counts_steps = True
    _op: Callable[..., Any] = ops.adam

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        grad_clip: GradientClip | None = None,
    ) -> None:
        super().__init__(learning_rate, weight_decay, grad_clip)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def _update(self, parameter: Variable, gradient: Variable, rate: Variable, step: _Step) -> None:
        moment1, moment2 = step.state("moment1", parameter), step.state("moment2", parameter)
        self._op(
            parameter,
            gradient,
            moment1,
            moment2,
            rate,
            step.count,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            weight_decay=step.weight_decay,
            param_out=parameter,
            moment1_out=moment1,
            moment2_out=moment2,
            name=step.name,
        )


class AdamW(Adam):
    """Adam whose weight decay does not pass through the moments (Loshchilov and Hutter, 2019)."""

    _op = ops.adamw

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        grad_clip: GradientClip | None = None,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, weight_decay, grad_clip)
