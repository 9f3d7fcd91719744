"""Programs with blocks whose gradients are compared with central differences in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import opstep
from opstep import _core, layers, ops

Arrays = dict[str, np.ndarray]
Build = Callable[[dict[str, opstep.Variable]], opstep.Variable]


class Net:
    """A program over float64 inputs with a weighted sum of its results."""

    def __init__(self, build: Build, feed: Arrays, unknown: bool = False) -> None:
        self.feed = feed
        self.program = opstep.Program()
        with opstep.program_guard(self.program, opstep.Program()):
            self.inputs = {
                name: layers.data(
                    name, [None] * array.ndim if unknown else list(array.shape), str(array.dtype)
                )
                for name, array in feed.items()
            }
            self.floats = [n for n, a in feed.items() if a.dtype == np.float64]
            for name in self.floats:
                self.inputs[name].stop_gradient = False
            self.result = build(self.inputs)
            square = ops.mul(self.result, self.result)
            self.loss = ops.reduce_sum(square, keepdims=False)

    def run(self, fetch: list[opstep.Variable], feed: Arrays) -> list[np.ndarray]:
        return opstep.Executor().run(
            self.program, feed=feed, fetch_list=fetch, scope=opstep.Scope()
        )

    def check(self) -> None:
        numeric = {name: self.numeric(name) for name in self.floats}
        with opstep.program_guard(self.program):
            pairs = opstep.append_backward(self.loss, [self.inputs[n] for n in self.floats])
        gradients = {variable.name: gradient for variable, gradient in pairs}
        fetched = self.run([gradients[n] for n in self.floats], self.feed)
        for name, got in zip(self.floats, fetched, strict=True):
            np.testing.assert_allclose(got, numeric[name], rtol=1e-6, atol=1e-7, err_msg=name)
        # From a file, twice in one frame, with and without a watcher: the same bits.
        again = opstep.Program.from_bytes(self.program.to_bytes())
        names = [gradients[n].name for n in self.floats]
        exe = opstep.Executor()
        for watched in (False, True, False):
            hook = _core.CountingHook()
            if watched:
                hook.install()
            try:
                values = exe.run(again, feed=self.feed, fetch_list=names)
            finally:
                hook.remove()
            for got, value in zip(values, fetched, strict=True):
                np.testing.assert_array_equal(got, value)
            assert (hook.before > 0) == watched
            assert hook.before == hook.after and hook.entered == hook.left

    def numeric(self, name: str) -> np.ndarray:
        step = 1e-6
        gradient = np.zeros(self.feed[name].shape)
        for index in np.ndindex(gradient.shape):
            ends = []
            for sign in (1, -1):
                moved = {n: a.copy() for n, a in self.feed.items()}
                moved[name][index] += sign * step
                ends.append(self.run([self.loss], moved)[0].item())
            gradient[index] = (ends[0] - ends[1]) / (2 * step)
        return gradient


def rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape)


def refused(build: Build, feed: Arrays) -> str:
    net = Net(build, feed)
    before = str(net.program)
    with pytest.raises(opstep.Error) as error:
        opstep.append_backward(net.loss, [net.inputs[name] for name in net.floats])
    assert str(net.program) == before
    return str(error.value)
