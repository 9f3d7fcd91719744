"""Learning-rate schedules: ops of the main program that compute the rate from the step counter.

opstep.optimizer.Adam(lr.LinearWarmup(lr.CosineDecay(1e-3, steps=1000), steps=100))

Steps are counted from 0. The counter is a persistable variable of the program, so a run goes on
where the last one ended, and a debugger sees how the rate is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from opstep import _core, ops
from opstep._core import Error
from opstep.variable import Variable


class Schedule:
    """The learning rate as a function of the step."""

    def build(self, step: Variable, dtype: str) -> Variable:
        """Add the ops that compute the rate; `step` is an int64 with one element."""
        raise NotImplementedError

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({given})"


class Constant(Schedule):
    """Always the same."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def build(self, step: Variable, dtype: str) -> Variable:
        return ops.fill(shape=[], dtype=dtype, value=self.rate)


class StepDecay(Schedule):
    """rate, multiplied with gamma after each `every` steps."""

    def __init__(self, rate: float, every: int, gamma: float = 0.1) -> None:
        self.rate, self.every, self.gamma = rate, _steps("StepDecay", every), gamma

    def build(self, step: Variable, dtype: str) -> Variable:
        times = ops.cast(step / self.every, to=dtype)  # integers: rounded down
        return self.rate * self.gamma**times


class PiecewiseDecay(Schedule):
    """values[0] before the step boundaries[0], then values[1] before boundaries[1], and so on."""

    def __init__(self, boundaries: Sequence[int], values: Sequence[float]) -> None:
        if len(values) != len(boundaries) + 1:
            raise Error(
                f"PiecewiseDecay has {len(boundaries)} boundaries, so it needs "
                f"{len(boundaries) + 1} values, but there are {len(values)}"
            )
        if sorted(boundaries) != list(boundaries):
            raise Error(f"the boundaries of PiecewiseDecay must rise: {list(boundaries)}")
        self.boundaries, self.values = list(boundaries), list(values)

    def build(self, step: Variable, dtype: str) -> Variable:
        ends = [*self.boundaries, np.iinfo(np.int64).max]
        begun = ops.constant(value=np.array([0, *self.boundaries], np.int64)) <= step
        inside = ops.logical_and(begun, ops.constant(value=np.array(ends, np.int64)) > step)
        values = ops.constant(value=np.array(self.values, _core.numpy_dtype(dtype)))
        return ops.reduce_sum(ops.cast(inside, to=dtype) * values, keepdims=False)


class ExponentialDecay(Schedule):
    """rate * gamma ** (step / steps); with `staircase` the exponent is rounded down."""

    def __init__(self, rate: float, steps: int, gamma: float, staircase: bool = False) -> None:
        self.rate, self.steps, self.gamma = rate, _steps("ExponentialDecay", steps), gamma
        self.staircase = staircase

    def build(self, step: Variable, dtype: str) -> Variable:
        if self.staircase:
            return StepDecay(self.rate, self.steps, self.gamma).build(step, dtype)
        return self.rate * self.gamma ** (ops.cast(step, to=dtype) / self.steps)


class PolynomialDecay(Schedule):
    """From rate down to `end` within `steps`: (rate - end) * (1 - step / steps) ** power + end."""

    def __init__(self, rate: float, steps: int, end: float = 0.0, power: float = 1.0) -> None:
        self.rate, self.steps, self.end = rate, _steps("PolynomialDecay", steps), end
        self.power = power

    def build(self, step: Variable, dtype: str) -> Variable:
        left = 1.0 - _progress(step, self.steps, dtype)
        return (self.rate - self.end) * left**self.power + self.end


class CosineDecay(Schedule):
    """From rate down to `end` within `steps`, along half a wave of the cosine."""

    def __init__(self, rate: float, steps: int, end: float = 0.0) -> None:
        self.rate, self.steps, self.end = rate, _steps("CosineDecay", steps), end

    def build(self, step: Variable, dtype: str) -> Variable:
        wave = ops.cos(math.pi * _progress(step, self.steps, dtype))
        return 0.5 * (self.rate - self.end) * (1.0 + wave) + self.end


class LinearWarmup(Schedule):
    """From `start` to the first rate of another schedule within `steps`, and then that schedule."""

    def __init__(self, after: Schedule | float, steps: int, start: float = 0.0) -> None:
        self.after, self.steps, self.start = schedule(after), _steps("LinearWarmup", steps), start

    def build(self, step: Variable, dtype: str) -> Variable:
        later = ops.maximum(step - self.steps, 0)
        rate = self.after.build(later, dtype)
        share = _progress(step, self.steps, dtype)
        return rate * share + self.start * (1.0 - share)


class NoamDecay(Schedule):
    """rate / sqrt(width), rising over `warmup` steps, then falling with the step's root."""

    def __init__(self, width: int, warmup: int, rate: float = 1.0) -> None:
        self.width, self.warmup, self.rate = width, _steps("NoamDecay", warmup), rate

    def build(self, step: Variable, dtype: str) -> Variable:
        n = ops.cast(step + 1, to=dtype)
        return self.rate * self.width**-0.5 * ops.minimum(n**-0.5, n * self.warmup**-1.5)


def schedule(rate: Schedule | float) -> Schedule:
    """A number is a schedule that never changes."""
    return rate if isinstance(rate, Schedule) else Constant(rate)


def _progress(step: Variable, steps: int, dtype: str) -> Variable:
    """From 0 to 1 within `steps`, and 1 from then on."""
    return ops.cast(ops.minimum(step, steps), to=dtype) / float(steps)


def _steps(what: str, steps: int) -> int:
    if steps < 1:
        raise Error(f"{what} needs 1 step or more, not {steps}")
    return steps
