"""The gradient of while."""

from __future__ import annotations

import numpy as np
import pytest

import opstep
from harness.gradients import Net, rand
from opstep import layers, ops


def power(v: dict[str, opstep.Variable]) -> opstep.Variable:
    """x multiplied by w and passed through tanh, n times."""
    y = ops.mul(v["x"], v["x"])
    i = layers.fill([], 0, "int64")
    go_on = ops.less(i, v["n"])
    with layers.While(go_on).block():
        ops.tanh(ops.matmul(y, v["w"]), out=y)
        ops.add(y, v["x"], out=y)
        ops.increment(i, out=i)
        ops.less(i, v["n"], out=go_on)
    return y


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown sizes"])
def test_while(n: int, unknown: bool) -> None:
    Net(power, {"x": rand(2, 3), "w": rand(3, 3), "n": np.array(n)}, unknown).check()


def test_while_in_while() -> None:
    def build(v: dict[str, opstep.Variable]) -> opstep.Variable:
        y = ops.sin(v["x"])
        i = layers.fill([], 0, "int64")
        outer = ops.less(i, v["n"])
        with layers.While(outer).block():
            j = layers.fill([], 0, "int64")
            z = ops.mul(y, v["w"])
            inner = ops.less_or_equal(j, i)
            with layers.While(inner).block():
                ops.sin(ops.add(z, v["x"]), out=z)
                ops.increment(j, out=j)
                ops.less_or_equal(j, i, out=inner)
            ops.mul(y, z, out=y)
            ops.increment(i, out=i)
            ops.less(i, v["n"], out=outer)
        return y

    Net(build, {"x": rand(3), "w": rand(3), "n": np.array(3)}).check()


def test_a_value_that_the_loop_forgets() -> None:
    """The body overwrites y with something that does not depend on it."""

    def build(v: dict[str, opstep.Variable]) -> opstep.Variable:
        y = ops.exp(v["x"])
        go_on = ops.less(v["n"], 5)
        n = ops.assign(v["n"])
        with layers.While(go_on).block():
            ops.mul(v["w"], v["w"], out=y)
            ops.increment(n, out=n)
            ops.less(n, 5, out=go_on)
        return ops.add(y, v["x"])

    for n in (3, 7):
        Net(build, {"x": rand(3), "w": rand(3), "n": np.array(n)}).check()


def test_cond_in_while() -> None:
    def build(v: dict[str, opstep.Variable]) -> opstep.Variable:
        y = ops.assign(v["x"])
        i = layers.fill([], 0, "int64")
        go_on = ops.less(i, v["n"])
        with layers.While(go_on).block():
            small = ops.less(ops.reduce_sum(ops.mul(y, y), keepdims=False), 1.0)
            z = layers.cond(
                small, lambda: ops.mul(ops.exp(y), v["w"]), lambda: ops.mul(ops.sin(y), 0.3)
            )
            ops.assign(z, out=y)
            ops.increment(i, out=i)
            ops.less(i, v["n"], out=go_on)
        return y

    Net(build, {"x": rand(3), "w": rand(3), "n": np.array(5)}).check()


def test_two_losses_over_one_loop() -> None:
    net = Net(power, {"x": rand(2, 3), "w": rand(3, 3), "n": np.array(3)})
    with opstep.program_guard(net.program):
        other = ops.reduce_sum(net.result, keepdims=False)
        first = opstep.append_backward(net.loss, [net.inputs["w"]])
        second = opstep.append_backward(other, [net.inputs["w"]])
    both = net.run([first[0][1], second[0][1]], net.feed)
    numeric = net.numeric("w")
    np.testing.assert_allclose(both[0], numeric, rtol=1e-6, atol=1e-7)
    net.loss = other
    np.testing.assert_allclose(both[1], net.numeric("w"), rtol=1e-6, atol=1e-7)


def test_a_value_written_twice_has_both_gradients() -> None:
    def build(v: dict[str, opstep.Variable]) -> opstep.Variable:
        y = ops.sin(v["x"])
        z = ops.mul(y, v["w"])
        ops.exp(z, out=y)  # the first y is needed again by the gradient of z
        return ops.mul(y, z)

    Net(build, {"x": rand(3), "w": rand(3)}).check()
