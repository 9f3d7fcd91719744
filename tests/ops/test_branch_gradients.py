"""The gradients of cond, switch and ifelse, and what they give."""

from __future__ import annotations

import re

import numpy as np
import pytest

import opstep
from harness.gradients import Net, rand, refused
from opstep import layers, ops


@pytest.mark.parametrize("yes", [True, False])
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown sizes"])
def test_cond(yes: bool, unknown: bool) -> None:
    def build(v: dict[str, opstep.Variable]) -> opstep.Variable:
        def true() -> opstep.Variable:
            return ops.matmul(ops.sin(v["x"]), v["w"])

        def false() -> opstep.Variable:
            return ops.mul(ops.exp(v["x"]), ops.cos(v["x"]))

        return ops.mul(layers.cond(ops.less(v["n"], 3), true, false), v["x"])

    feed = {"x": rand(2, 3), "w": rand(3, 3), "n": np.array(1 if yes else 5)}
    Net(build, feed, unknown).check()


def test_cond_that_gives_a_variable_from_outside() -> None:
    def build(v: dict[str, opstep.Variable]) -> opstep.Variable:
        y = ops.sin(v["x"])
        a, b = layers.cond(ops.less(v["n"], 3), lambda: (y, v["w"]), lambda: [v["w"], ops.neg(y)])
        return ops.mul(ops.exp(a), b)

    for n in (1, 5):
        Net(build, {"x": rand(3), "w": rand(3), "n": np.array(n)}).check()


def test_a_gradient_through_what_a_branch_writes_outside_is_refused() -> None:
    def branch(v: dict[str, opstep.Variable]) -> opstep.Variable:
        y = ops.sin(v["x"])
        out = layers.cond(
            ops.less(v["n"], 3), lambda: ops.mul(y, v["x"], out=y), lambda: ops.neg(v["x"])
        )
        return ops.add(out, y)

    message = (
        r"no gradient flows through 'sin_0.out', which its block writes .*gradients.py:\d+, op #"
    )
    assert re.search(message, refused(branch, {"x": rand(3), "n": np.array(1)}))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_switch(n: int) -> None:
    def build(v: dict[str, opstep.Variable]) -> opstep.Variable:
        y = ops.sin(v["x"])
        z = ops.assign(v["w"])
        with layers.Switch() as switch:
            with switch.case(ops.equal(v["n"], 0)):
                ops.mul(y, v["w"], out=y)
            with switch.case(ops.equal(v["n"], 1)):
                ops.mul(z, ops.exp(y), out=z)
                ops.mul(y, z, out=y)
        return ops.add(ops.mul(y, z), y)

    Net(build, {"x": rand(3), "w": rand(3), "n": np.array(n)}).check()


def test_switch_takes_the_first_case_or_the_default() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        n = layers.data("n", [], "int64")
        out = layers.fill([], 0, "int64")
        with layers.Switch() as switch:
            with switch.case(ops.less(n, 10)):
                layers.fill([], 1, "int64", out=out)
            with switch.case(ops.less(n, 20)):
                layers.fill([], 2, "int64", out=out)
            with switch.default():
                layers.fill([], 3, "int64", out=out)
    exe = opstep.Executor()
    got = [exe.run(program, feed={"n": np.array(i)}, fetch_list=[out])[0] for i in (5, 15, 25)]
    assert got == [1, 2, 3]


MASKS = [[1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1]]


def split(v: dict[str, opstep.Variable]) -> opstep.Variable:
    branch = layers.IfElse(v["c"])
    with branch.true_block():
        x = branch.input(v["x"])
        # The mean over the rows of this branch only.
        mean = ops.reduce_mean(x, axes=[0])
        branch.output(ops.tanh(ops.matmul(ops.sub(x, mean), v["w"])))
    with branch.false_block():
        x = branch.input(v["x"])
        branch.output(ops.mul(ops.matmul(x, v["w"]), branch.input(v["y"])))
    return branch()


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown sizes"])
def test_ifelse(mask: list[int], unknown: bool) -> None:
    feed = {"x": rand(5, 3), "y": rand(5, 2), "w": rand(3, 2)}
    Net(split, feed | {"c": np.array(mask, bool)}, unknown).check()


def test_ifelse_splits_and_merges_rows() -> None:
    x, y, w = rand(5, 3), rand(5, 2), rand(3, 2)
    net = Net(split, {"x": x, "y": y, "w": w, "c": np.zeros(5, bool)})
    exe = opstep.Executor()
    for mask in MASKS + MASKS[::-1]:  # sizes change from run to run of one plan
        c = np.array(mask, bool)
        expected = np.zeros((5, 2))
        if c.any():
            expected[c] = np.tanh((x[c] - x[c].mean(0)) @ w)
        expected[~c] = (x[~c] @ w) * y[~c]
        (got,) = exe.run(
            net.program, feed={"x": x, "y": y, "w": w, "c": c}, fetch_list=[net.result]
        )
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_a_loop_in_ifelse() -> None:
    def build(v: dict[str, opstep.Variable]) -> opstep.Variable:
        branch = layers.IfElse(v["c"])
        with branch.true_block():
            y = ops.sin(branch.input(v["x"]))
            i = layers.fill([], 0, "int64")
            go_on = ops.less(i, 3)
            with layers.While(go_on).block():
                ops.sin(ops.mul(y, v["w"]), out=y)
                ops.increment(i, out=i)
                ops.less(i, 3, out=go_on)
            branch.output(y)
        with branch.false_block():
            branch.output(branch.input(v["x"]))
        return branch()

    for mask in MASKS:
        Net(build, {"x": rand(5, 3), "w": rand(3), "c": np.array(mask, bool)}).check()


def test_ifelse_in_ifelse() -> None:
    def build(v: dict[str, opstep.Variable]) -> opstep.Variable:
        outer = layers.IfElse(v["c"])
        with outer.true_block():
            x, d = outer.input(v["x"]), outer.input(v["d"])
            inner = layers.IfElse(d)
            with inner.true_block():
                part = inner.input(x)
                inner.output(ops.sub(part, ops.reduce_mean(ops.mul(part, v["w"]), axes=[0])))
            with inner.false_block():
                inner.output(ops.sin(inner.input(x)))
            outer.output(ops.mul(inner(), ops.reduce_sum(x, axes=[0])))
        with outer.false_block():
            outer.output(outer.input(v["x"]))
        return outer()

    d = np.array([1, 0, 1, 0, 0], bool)
    for mask in MASKS:
        Net(build, {"x": rand(5, 3), "w": rand(3), "c": np.array(mask, bool), "d": d}).check()
    # The inner block gets as many rows as before, the outer one others.
    net = Net(build, {"x": rand(5, 3), "w": rand(3), "c": np.array(MASKS[0], bool), "d": d})
    exe = opstep.Executor()
    for mask in ((1, 1, 0, 0, 0), (1, 1, 0, 1, 1), (1, 0, 0, 0, 0), (1, 1, 0, 0, 0)):
        feed = net.feed | {"c": np.array(mask, bool)}
        (value,) = exe.run(net.program, feed=feed, fetch_list=[net.result])
        (alone,) = net.run([net.result], feed)
        np.testing.assert_array_equal(value, alone)


def test_rows_that_are_also_read_whole() -> None:
    def split(v: dict[str, opstep.Variable]) -> opstep.Variable:
        branch = layers.IfElse(v["c"])
        with branch.true_block():
            mean = ops.reduce_mean(v["x"], axes=[0])
            branch.output(ops.mul(branch.input(v["x"]), mean))
        with branch.false_block():
            branch.output(ops.sin(branch.input(v["x"])))
        return branch()

    for mask in MASKS:
        Net(split, {"x": rand(5, 2), "c": np.array(mask, bool)}).check()
