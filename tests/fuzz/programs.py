"""Random programs over all ops that have samples, against NumPy in float64: values, first and
second gradients.

PYTHONPATH=tests python -m fuzz.programs --seconds 60
PYTHONPATH=tests python -m fuzz.programs --seed 1234 --count 1

A program is a chain of samples whose inputs are fed, or are values of ops before them, moved into
the range of the sample. Gradients are compared along a random direction with differences of the
NumPy side. A second gradient may be refused by the name of an op; whatever else fails is a finding.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import opstep
from harness.samples import Case, cases
from opstep import layers, ops

Arrays = dict[str, np.ndarray]

# The sentences by which an op may refuse a gradient.
REFUSED = re.compile(
    r"^\[\w+\] (is a gradient that has no gradient itself|.* can be differentiated once only|"
    r"no gradient flows through)"
)
# Values that a NumPy loop would need minutes for.
LARGEST = 400


def _usable(case: Case) -> bool:
    arrays = [array for arrays in case.inputs.values() for array in arrays]
    if case.special or not case.schema["oracle"] or not case.schema["has_grad"] or case.is_narrow:
        return False
    if not any(a.dtype == np.float64 for a in arrays) or sum(a.size for a in arrays) > LARGEST:
        return False
    outs = case.expected()
    return outs[0].dtype == np.float64 and all(np.isfinite(o).all() and o.size for o in outs)


def usable_cases() -> list[Case]:
    """In float64, with a gradient and finite results."""
    return [c for schema in opstep._core.ops() for c in cases(schema) if _usable(c)]


def _within(known: np.ndarray, array: np.ndarray) -> bool:
    return not array.size or bool(known.min() >= array.min() and known.max() <= array.max())


class Finding(AssertionError):
    """A program that is wrong, or refused in the wrong way."""


class RandomProgram:
    """The same computation as ops and as NumPy code."""

    def __init__(self, seed: int, known: list[Case], length: int | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.feeds: Arrays = {}
        self.types: list[str] = []
        # Names, their variables and how NumPy computes them.
        self.pool: list[tuple[opstep.Variable, tuple[int, ...]]] = []
        self.steps: list[Callable[[Arrays], None]] = []
        self.main = opstep.Program(f"fuzz_{seed}")
        with opstep.program_guard(self.main, opstep.Program()):
            for _ in range(length or int(self.rng.integers(1, 6))):
                self.add(known[int(self.rng.integers(len(known)))])
            self.loss = self.total()
        self.leaves = [name for name, a in self.feeds.items() if a.dtype == np.float64]

    # --- building

    def feed(self, array: np.ndarray) -> opstep.Variable:
        if array.dtype == np.float64 and self.rng.random() < 0.4:
            # One that was fed to another op, if its values are in the range of the sample.
            for name, known in self.feeds.items():
                if (
                    known.shape == array.shape
                    and known.dtype == array.dtype
                    and _within(known, array)
                ):
                    return self.main.global_block().var(name)
        name = f"x{len(self.feeds)}"
        self.feeds[name] = array
        variable = layers.data(name, list(array.shape), str(array.dtype))
        variable.stop_gradient = False
        return variable

    def step(self, out: str, run: Callable[..., Any], *names: str) -> None:
        def one(values: Arrays) -> None:
            values[out] = np.asarray(run(*(values[name] for name in names)))

        self.steps.append(one)

    def add(self, case: Case) -> None:
        """One op, with inputs that are fed or come from ops before it."""
        self.types.append(case.label)
        inputs: dict[str, list[opstep.Variable]] = {}
        for slot, arrays in case.inputs.items():
            inputs[slot] = [self.input(array) for array in arrays]
        variadic = {slot["name"] for slot in case.schema["inputs"] if slot["variadic"]}
        given = {s: v if s in variadic else v[0] for s, v in inputs.items()}
        asked = {slot: f"{slot}_{len(self.types)}" for slot in case.wanted}
        made = getattr(ops, case.type)(**given, **asked, **case.attrs)
        outs = list(made) if isinstance(made, tuple) else [made]
        names = {slot: [v.name for v in variables] for slot, variables in inputs.items()}

        def run(values: Arrays) -> None:
            replaced = {slot: [values[n] for n in many] for slot, many in names.items()}
            for out, value in zip(outs, case.expected(**replaced), strict=True):
                values[out.name] = value

        self.steps.append(run)
        for out, value in zip(outs, case.expected(), strict=True):
            if value.dtype == np.float64 and out.dtype == "float64":
                self.pool.append((out, value.shape))

    def input(self, array: np.ndarray) -> opstep.Variable:
        """Fed, or the value of another op in the range of the sample."""
        if array.dtype != np.float64 or not array.size or not self.pool or self.rng.random() < 0.3:
            return self.feed(array)
        low, high = float(array.min()), float(array.max())
        fitting = [v for v, shape in self.pool if shape == array.shape]
        if fitting and self.rng.random() < 0.7:
            source = fitting[int(self.rng.integers(len(fitting)))]
            inner = ops.assign(source)
            self.step(inner.name, np.copy, source.name)
        else:
            source = self.pool[int(self.rng.integers(len(self.pool)))][0]
            squashed, own = ops.tanh(source), self.feed(self.rng.uniform(-1, 1, array.shape))
            mean = ops.reduce_mean(squashed, keepdims=False)
            inner = ops.add(own, mean)
            self.step(squashed.name, np.tanh, source.name)
            self.step(mean.name, np.mean, squashed.name)
            self.step(inner.name, np.add, own.name, mean.name)
        gate = ops.sigmoid(inner)
        scaled = ops.mul(gate, high - low)
        moved = ops.add(scaled, low)
        self.step(gate.name, lambda x: 1 / (1 + np.exp(-x)), inner.name)
        self.step(scaled.name, lambda x: x * (high - low), gate.name)
        self.step(moved.name, lambda x: x + low, scaled.name)
        return moved

    def total(self) -> opstep.Variable:
        """All that is of use, in one float."""
        terms = []
        for variable, shape in self.pool:
            weights = self.rng.uniform(-1, 1, shape)
            squashed = ops.tanh(variable)
            weight = layers.constant(weights)
            product = ops.mul(squashed, weight)
            term = ops.reduce_sum(product, keepdims=False)
            terms.append(term)
            self.step(squashed.name, np.tanh, variable.name)
            self.step(product.name, lambda x, w=weights: x * w, squashed.name)
            self.step(term.name, np.sum, product.name)
        out = ops.sum(terms)
        self.step(out.name, lambda *x: sum(x), *(term.name for term in terms))
        return out

    # --- the two sides

    def in_numpy(self, moved: Arrays) -> float:
        values = self.feeds | moved
        with np.errstate(all="ignore"):
            for one in self.steps:
                one(values)
        return float(values[self.loss.name])

    def run(self, fetch: list[opstep.Variable], more: Arrays | None = None) -> list[np.ndarray]:
        feed = self.feeds | (more or {})
        return opstep.Executor().run(self.main, feed, fetch, scope=opstep.Scope())

    def some(self, names: list[str]) -> list[str]:
        return [name for name in names if self.rng.random() < 0.7] or names

    def direction(self, names: Iterable[str]) -> Arrays:
        along = {n: np.zeros(self.feeds[n].shape) for n in self.leaves}
        return along | {n: self.rng.uniform(-1, 1, self.feeds[n].shape) for n in names}

    def moved(self, *moves: tuple[float, Arrays]) -> Arrays:
        return {
            n: self.feeds[n] + sum(step * along[n] for step, along in moves) for n in self.leaves
        }

    def check(self) -> str:
        """Values, first gradients, second gradients; gives how far it came."""
        (got,) = self.run([self.loss])
        self.close("value", float(got), [self.in_numpy({})], 1e-9)
        try:
            first = self.gradients(self.loss, self.some(self.leaves))
        except opstep.Error as error:
            return self.refused(error)
        u, v = self.direction(first), self.direction(first)
        self.close("first gradient", self.along(first, u), self.first_differences(u), 1e-5)
        # The gradient of the derivative along v, along u.
        if not first:
            return "constant"
        with opstep.program_guard(self.main):
            parts = []
            for name, gradient in first.items():
                weight = layers.constant(v[name])
                parts.append(ops.reduce_sum(ops.mul(gradient, weight), keepdims=False))
            along = ops.sum(parts)
        try:
            wanted = self.some(self.leaves)
            second = self.gradients(along, wanted)
        except opstep.Error as error:
            return self.refused(error)
        u = self.direction(wanted)
        self.close("second gradient", self.along(second, u), self.second_differences(u, v), 1e-3)
        return "second"

    def refused(self, error: opstep.Error) -> str:
        if REFUSED.match(str(error)):
            return "refused " + str(error).split("]")[0].lstrip("[")
        raise error

    def gradients(self, of: opstep.Variable, names: list[str]) -> dict[str, opstep.Variable]:
        """For those that it depends on."""
        names = list(names)
        block = self.main.global_block()
        while names:
            try:
                with opstep.program_guard(self.main):
                    made = opstep.gradients(of, [block.var(name) for name in names])
                return dict(zip(names, made, strict=True))
            except opstep.Error as error:
                independent = re.search(r"does not depend on '(\w+)'", str(error))
                if independent is None:
                    raise
                names.remove(independent[1])
        return {}

    def along(self, gradients: dict[str, opstep.Variable], direction: Arrays) -> float:
        values = self.run(list(gradients.values())) if gradients else []
        return float(
            sum((value * direction[n]).sum() for n, value in zip(gradients, values, strict=True))
        )

    def first_differences(self, u: Arrays) -> Iterator[float]:
        for h in (1e-6, 1e-5, 1e-7):
            ends = [self.in_numpy(self.moved((sign * h, u))) for sign in (1, -1)]
            yield (ends[0] - ends[1]) / (2 * h)

    def second_differences(self, u: Arrays, v: Arrays) -> Iterator[float]:
        for h in (1e-4, 3e-4, 3e-5):
            corner = {
                (a, b): self.in_numpy(self.moved((a * h, u), (b * h, v)))
                for a in (1, -1)
                for b in (1, -1)
            }
            rising, falling = corner[1, 1] - corner[1, -1], corner[-1, 1] - corner[-1, -1]
            yield (rising - falling) / (4 * h * h)

    def close(self, what: str, got: float, expected: Any, tolerance: float) -> None:
        """A difference over an edge of a function depends on the step: only what all steps say
        is known."""
        seen: list[float] = []
        for value in expected:
            if np.isclose(got, value, rtol=tolerance, atol=tolerance):
                return
            seen.append(value)
        if len(seen) > 1 and not np.allclose(seen, seen[0], rtol=10 * tolerance, atol=tolerance):
            return
        raise Finding(f"the {what} is {got}, NumPy's {seen}")


def fuzz(
    seed: int, count: int | None, seconds: float | None, known: list[Case] | None = None
) -> tuple[Counter[str], list[str]]:
    """How far programs came, and the findings."""
    known = usable_cases() if known is None else known
    results: Counter[str] = Counter()
    findings: list[str] = []
    end = time.monotonic() + (seconds or 0)
    number = 0
    while number < count if count is not None else time.monotonic() < end:
        program = None
        try:
            program = RandomProgram(seed + number, known)
            results[program.check()] += 1
        except (Finding, opstep.Error) as error:
            made = " | ".join(program.types) if program else "could not be built"
            findings.append(f"seed {seed + number}: {error}\n    {made}")
        number += 1
    return results, findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--count", type=int, help="of programs")
    parser.add_argument("--seconds", type=float, default=60.0, help="without --count")
    args = parser.parse_args()
    results, findings = fuzz(args.seed, args.count, args.seconds)
    for how, number in results.most_common():
        print(f"{number:8} {how}")
    for finding in findings:
        print(finding)
    print(f"{sum(results.values()) + len(findings)} programs, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
