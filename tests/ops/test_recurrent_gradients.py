"""The gradient of recurrent, and what it gives."""

from __future__ import annotations

import re

import numpy as np
import pytest

import opstep
from harness.gradients import Net, rand, refused
from opstep import layers, ops


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


def test_a_sequence_that_is_also_read_whole() -> None:
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


def test_a_gradient_through_what_a_step_writes_outside_is_refused() -> None:
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
    assert re.search(message, refused(steps, {"x": rand(3), "s": rand(4, 3)}))
