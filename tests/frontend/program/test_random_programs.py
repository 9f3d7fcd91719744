"""Random programs: a plan's memory may be shared, but no value may ever be touched by it."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import _core, layers, ops

SHAPES = ((), (1,), (4,), (1, 4), (4, 1), (4, 4), (16,), (2, 3))

UNARY: dict[str, Callable[..., Any]] = {
    "relu": lambda x: np.maximum(x, 0),
    "neg": np.negative,
    "abs": np.abs,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "assign": np.copy,
}
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
REDUCE: dict[str, Callable[..., Any]] = {
    "reduce_sum": np.sum,
    "reduce_mean": np.mean,
    "reduce_max": np.max,
}


@dataclass
class Var:
    variable: opstep.Variable
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.variable.name


@dataclass
class Step:
    """One op of the NumPy side: out = run(*inputs); a loop has a body instead."""

    out: str
    inputs: list[str]
    run: Callable[..., Any] | None = None
    body: list[Step] = field(default_factory=list)


class Maker:
    """Writes the same program twice: as ops, and as steps for NumPy."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.feeds: dict[str, np.ndarray] = {}
        self.steps: list[Step] = []
        # The variables that can be read here, the innermost block's last.
        self.visible: list[list[Var]] = [[]]

    def make(self) -> list[Var]:
        rng = np.random.default_rng(self.random.randrange(2**32))
        for k in range(self.random.randint(1, 3)):
            shape = self.random.choice(SHAPES)
            self.feeds[f"x{k}"] = rng.uniform(-1, 1, shape).astype(np.float32)
            self.visible[0].append(Var(layers.data(f"x{k}", shape), shape))
        self.fresh(self.random.choice(SHAPES))
        for _ in range(self.random.randint(3, 25)):
            self.anything()
        return self.visible[0]

    # ---- choosing

    def any_var(self, shape: tuple[int, ...] | None = None) -> Var:
        # Late ones more often: chains in which memory is handed on.
        all_of_them = [v for block in self.visible for v in block]
        fitting = [v for v in all_of_them if shape is None or v.shape == shape]
        if not fitting:
            return self.fresh(shape or ())
        return fitting[-1] if self.random.random() < 0.4 else self.random.choice(fitting)

    def writable(self, shape: tuple[int, ...] | None = None) -> Var | None:
        found = [
            v
            for block in self.visible
            for v in block
            if v.name not in self.feeds and (shape is None or v.shape == shape)
        ]
        return self.random.choice(found) if found else None

    def add(
        self,
        variable: opstep.Variable,
        run: Callable[..., Any],
        inputs: list[Var],
        new: bool = True,
    ) -> Var:
        self.steps.append(Step(variable.name, [v.name for v in inputs], run))
        var = Var(variable, tuple(size or 0 for size in variable.shape))
        if new:
            self.visible[-1].append(var)
        return var

    def fresh(self, shape: tuple[int, ...]) -> Var:
        value = np.float32(self.random.randint(-8, 8) / 8)
        filled = layers.fill(shape, float(value))
        return self.add(filled, lambda: np.full(shape, value, np.float32), [])

    # ---- ops

    def anything(self) -> None:
        kinds = [self.unary, self.binary, self.reduce, self.matmul, self.shaped, self.total]
        kinds += [self.unary, self.binary, self.in_place, self.in_place]
        if len(self.visible) < 3:
            kinds.append(self.loop)
        self.random.choice(kinds)()

    def unary(self) -> None:
        name, run = self.random.choice(list(UNARY.items()))
        x = self.any_var()
        self.add(getattr(ops, name)(x.variable), run, [x])

    def binary(self) -> None:
        name, run = self.random.choice(list(BINARY.items()))
        x, y = self.any_var(), self.any_var()
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            y = self.any_var(x.shape)
        made = self.add(getattr(ops, name)(x.variable, y.variable), run, [x, y])
        # Values stay small, so that NumPy's order of adding makes no difference that matters.
        if name in ("add", "sub"):
            self.add(ops.tanh(made.variable), np.tanh, [made])

    def reduce(self) -> None:
        name, run = self.random.choice(list(REDUCE.items()))
        x = self.any_var()
        axis = self.random.randrange(len(x.shape)) if x.shape else None
        keep = self.random.random() < 0.5
        out = getattr(ops, name)(x.variable, axes=axis, keepdims=keep)
        made = self.add(out, lambda v: run(v, axis=axis, keepdims=keep), [x])
        self.add(ops.sigmoid(made.variable), UNARY["sigmoid"], [made])

    def matmul(self) -> None:
        x, y = self.any_var((4, 4)), self.any_var((4, 4))
        made = self.add(ops.matmul(x.variable, y.variable), np.matmul, [x, y])
        self.add(ops.tanh(made.variable), np.tanh, [made])

    def shaped(self) -> None:
        x = self.any_var()
        if self.random.random() < 0.5:
            self.add(ops.transpose(x.variable), np.transpose, [x])
        else:
            size = int(np.prod(x.shape))
            shape = self.random.choice([s for s in SHAPES if int(np.prod(s)) == size] + [(size,)])
            self.add(ops.reshape(x.variable, shape=shape), lambda v: v.reshape(shape), [x])

    def total(self) -> None:
        x = self.any_var()
        parts = [x] + [self.any_var(x.shape) for _ in range(self.random.randint(0, 2))]
        out = ops.sum([p.variable for p in parts])
        made = self.add(out, lambda *v: sum(v[1:], v[0]), parts)
        self.add(ops.tanh(made.variable), np.tanh, [made])

    def in_place(self) -> None:
        """Writes a variable that is there already: of this block or one around it."""
        target = self.writable()
        if target is None:
            return
        kind = self.random.randrange(3)
        if kind == 0:
            step = self.random.randint(-4, 4) / 16
            layers.increment(target.variable, step)
            self.add(target.variable, lambda v: v + np.float32(step), [target], new=False)
        elif kind == 1:
            x = self.any_var(target.shape)
            layers.assign(x.variable, out=target.variable)
            self.add(target.variable, np.copy, [x], new=False)
        else:
            y = self.any_var(target.shape)
            if y.name == target.name:
                return
            ops.mul(target.variable, y.variable, out=target.variable)
            self.add(target.variable, np.multiply, [target, y], new=False)

    def loop(self) -> None:
        times = self.random.randint(0, 3)
        i = self.hidden(layers.fill([1], 0, "int64"), lambda: np.zeros([1], np.int64), [])
        going = self.hidden(layers.less_than(i, times), lambda v: v < times, [i])
        outside, self.steps = self.steps, []
        self.visible.append([])
        with layers.While(going).block():
            for _ in range(self.random.randint(1, 8)):
                self.anything()
            layers.increment(i)
            self.hidden(i, lambda v: v + 1, [i])
            layers.less_than(i, times, out=going)
            self.hidden(going, lambda v: v < times, [i])
        self.visible.pop()
        body, self.steps = self.steps, outside
        self.steps.append(Step("", [going.name], body=body))

    def hidden(
        self, variable: opstep.Variable, run: Callable[..., Any], inputs: list[opstep.Variable]
    ) -> opstep.Variable:
        """A counter: other ops leave it alone."""
        self.steps.append(Step(variable.name, [v.name for v in inputs], run))
        return variable


def in_numpy(steps: list[Step], values: dict[str, np.ndarray]) -> None:
    for step in steps:
        if step.run is None:
            while values[step.inputs[0]].all():
                in_numpy(step.body, values)
        else:
            values[step.out] = np.array(step.run(*(values[name] for name in step.inputs)))


@contextmanager
def watched():
    hook = _core.CountingHook()
    hook.install()
    try:
        yield hook
    finally:
        hook.remove()


@pytest.mark.parametrize("part", range(4))
def test_the_memory_plan_is_never_seen(part: int) -> None:
    for seed in range(part * 100, part * 100 + 100):
        main = opstep.Program()
        with opstep.program_guard(main, opstep.Program()):
            maker = Maker(seed)
            variables = maker.make()
        feeds = {name: value.copy() for name, value in maker.feeds.items()}
        every = [v.name for v in variables]
        some = maker.random.sample(every, maker.random.randint(1, min(4, len(every))))

        exe = opstep.Executor()
        alone = exe.run(main, feeds, some)
        again = exe.run(main, feeds, some)
        with watched() as hook:
            seen = exe.run(main, feeds, some)
        assert hook.before == hook.after > 0 and hook.errors == 0
        after = exe.run(main, feeds, some)
        everything = dict(zip(every, exe.run(main, feeds, every), strict=True))
        with watched():
            also_seen = dict(zip(every, exe.run(main, feeds, every), strict=True))

        values = dict(maker.feeds)
        in_numpy(maker.steps, values)
        for name, *runs in zip(some, alone, again, seen, after, strict=True):
            runs += [everything[name], also_seen[name]]
            assert len({run.tobytes() for run in runs}) == 1, (seed, name)
        for name in every:
            assert everything[name].tobytes() == also_seen[name].tobytes(), (seed, name)
            assert everything[name].shape == values[name].shape, (seed, name)
            np.testing.assert_allclose(
                everything[name], values[name], rtol=2e-3, atol=2e-4, err_msg=f"{seed} {name}"
            )
        for name, fed in feeds.items():
            assert fed.tobytes() == maker.feeds[name].tobytes(), (seed, name)
