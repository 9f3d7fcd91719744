"""Gradients through blocks against central differences in float64, and what blocks give."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import opstep
from opstep import _core, layers, ops

Arrays = dict[str, np.ndarray]
Build = Callable[[dict[str, opstep.Variable]], opstep.Variable]


class Net:
    """A program over float64 inputs whose result is summed up with weights."""

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
        # From a file, twice in one frame, watched and not: the same bits.
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


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown sizes"])
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_recurrent(reverse: bool, unknown: bool, steps: int) -> None:
    def build(v: dict[str, opstep.Variable]) -> opstep.Variable:
        rnn = layers.Recurrent(reverse=reverse)
        with rnn.step():
            x = rnn.step_input(v["x"])
            before = rnn.memory(v["h"])
            total = rnn.memory(shape=[3], dtype="float64")
            hidden = ops.tanh(
                ops.add(ops.add(ops.matmul(x, v["wx"]), ops.matmul(before, v["wh"])), v["b"])
            )
            rnn.update(before, hidden)
            rnn.update(total, ops.add(total, hidden))
            rnn.output(hidden, ops.mul(hidden, total))
        hiddens, products = rnn()
        last, sums = rnn.final
        return ops.add(
            ops.add(ops.reduce_sum(hiddens, axes=[0], keepdims=False), last),
            ops.mul(ops.reduce_sum(products, axes=[0], keepdims=False), sums),
        )

    feed = {"x": rand(steps, 2, 4), "h": rand(2, 3), "wx": rand(4, 3), "wh": rand(3, 3)}
    Net(build, feed | {"b": rand(3)}, unknown).check()


def test_recurrent_of_which_only_the_end_counts() -> None:
    def build(v: dict[str, opstep.Variable]) -> opstep.Variable:
        rnn = layers.Recurrent()
        with rnn.step():
            before = rnn.memory(v["h"])
            rnn.update(before, ops.sin(ops.mul(before, rnn.step_input(v["x"]))))
        rnn()
        return rnn.final[0]

    Net(build, {"x": rand(4, 3), "h": rand(3)}).check()


def test_recurrent_is_what_numpy_says() -> None:
    x, w = rand(5, 2, 3), rand(3, 3)
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        xs, ws = layers.data("x", [None, None, 3], "float64"), layers.data("w", [3, 3], "float64")
        rnn = layers.Recurrent()
        with rnn.step():
            now = rnn.step_input(xs)
            before = rnn.memory(shape=[3], value=0.5, dtype="float64")
            hidden = ops.tanh(ops.matmul(ops.add(now, before), ws))
            rnn.update(before, hidden)
            rnn.output(hidden)
        out = rnn()
    expected, h = [], np.full((2, 3), 0.5)
    for t in range(5):
        h = np.tanh((x[t] + h) @ w)
        expected.append(h)
    got, last = opstep.Executor().run(
        program, feed={"x": x, "w": w}, fetch_list=[out, rnn.final[0]], scope=opstep.Scope()
    )
    np.testing.assert_allclose(got, np.stack(expected), rtol=1e-12)
    np.testing.assert_allclose(last, h, rtol=1e-12)


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


def test_what_is_handed_to_a_block_and_also_read_there() -> None:
    """Attention: a sequence step by step, and whole in each step."""

    def build(v: dict[str, opstep.Variable]) -> opstep.Variable:
        rnn = layers.Recurrent()
        with rnn.step():
            now = rnn.step_input(v["x"])
            before = rnn.memory(v["h"])
            whole = ops.reduce_sum(ops.mul(v["x"], before), axes=[0], keepdims=False)
            rnn.update(before, ops.tanh(ops.add(ops.mul(now, v["h"]), whole)))
            rnn.output(before)
        return ops.add(ops.reduce_sum(rnn(), axes=[0], keepdims=False), rnn.final[0])

    Net(build, {"x": rand(3, 2), "h": rand(2)}).check()

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


def refused(build: Build, feed: Arrays) -> str:
    net = Net(build, feed)
    before = str(net.program)
    with pytest.raises(opstep.Error) as error:
        opstep.append_backward(net.loss, [net.inputs[name] for name in net.floats])
    assert str(net.program) == before
    return str(error.value)


def test_gradients_through_what_a_block_writes_outside_are_refused() -> None:
    def branch(v: dict[str, opstep.Variable]) -> opstep.Variable:
        y = ops.sin(v["x"])
        out = layers.cond(
            ops.less(v["n"], 3), lambda: ops.mul(y, v["x"], out=y), lambda: ops.neg(v["x"])
        )
        return ops.add(out, y)

    def steps(v: dict[str, opstep.Variable]) -> opstep.Variable:
        y = ops.sin(v["x"])
        rnn = layers.Recurrent()
        with rnn.step():
            now = rnn.step_input(v["s"])
            rnn.output(ops.mul(now, y))
            ops.mul(y, now, out=y)
        return ops.reduce_sum(rnn(), axes=[0])

    message = (
        r"no gradient flows through 'sin_0.out', which its block writes .*gradients.py:\d+, op #"
    )
    assert re.search(message, refused(branch, {"x": rand(3), "n": np.array(1)}))
    assert re.search(message, refused(steps, {"x": rand(3), "s": rand(4, 3)}))


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
