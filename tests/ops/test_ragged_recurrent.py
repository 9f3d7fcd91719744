"""Recurrent over ragged variables: as if each sequence ran alone, gradients too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import Ragged, layers

WIDTH, HIDDEN = 3, 4
RNG = np.random.default_rng(3)
W = RNG.normal(size=(WIDTH + HIDDEN, HIDDEN)) * 0.5
LENGTHS = [[3, 1, 4], [2, 0, 3, 0], [0], [1, 1], [0, 0]]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    with opstep.program_guard(opstep.Program(), opstep.Program()):
        yield


def sequences(lengths: list[int]) -> list[np.ndarray]:
    rng = np.random.default_rng(len(lengths))
    return [rng.normal(size=(length, WIDTH)) for length in lengths]


class Network:
    """tanh(fc([x, before])) in float64, with the gradients of a loss of outputs and last memory."""

    def __init__(self, ragged: bool, reverse: bool) -> None:
        self.program = opstep.Program()
        with opstep.program_guard(self.program, opstep.Program()):
            if ragged:
                x = layers.data("x", shape=[None, WIDTH], dtype="float64", lod_level=1)
            else:
                x = layers.data("x", shape=[None, 1, WIDTH], dtype="float64")
            w = layers.data("w", shape=[WIDTH + HIDDEN, HIDDEN], dtype="float64")
            x.stop_gradient = w.stop_gradient = False
            rnn = layers.Recurrent(reverse=reverse)
            with rnn.step():
                step = rnn.step_input(x)
                before = rnn.memory(shape=[HIDDEN], value=0.3, dtype="float64")
                both = layers.concat([step, before], axis=1)
                hidden = layers.tanh(layers.matmul(both, w))
                rnn.update(before, hidden)
                rnn.output(hidden * 2.0)
            out = rnn()
            (final,) = rnn.final
            loss = layers.reduce_sum(out * out) + layers.reduce_sum(layers.exp(final))
            pairs = opstep.append_backward(loss, [x, w])
        self.fetches = [out, final, loss, *(gradient for _, gradient in pairs)]

    def run(self, x: Any, w: np.ndarray = W) -> list[Any]:
        return opstep.Executor().run(self.program, feed={"x": x, "w": w}, fetch_list=self.fetches)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_as_if_each_sequence_ran_alone(lengths: list[int], reverse: bool) -> None:
    parts = sequences(lengths)
    out, final, loss, dx, dw = Network(True, reverse).run(Ragged(parts))
    assert out.lengths.tolist() == dx.lengths.tolist() == lengths
    alone = Network(False, reverse)
    each = [alone.run(part[:, None]) for part in parts]
    for number, one in enumerate(each):
        np.testing.assert_allclose(out[number], one[0][:, 0], rtol=1e-12)
        np.testing.assert_allclose(final[number], one[1][0], rtol=1e-12)
        np.testing.assert_allclose(dx[number], one[3][:, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(loss, sum(one[2] for one in each), rtol=1e-12)
    np.testing.assert_allclose(dw, sum(one[4] for one in each), rtol=1e-9, atol=1e-12)


def test_gradients_are_those_of_central_differences() -> None:
    network, parts = Network(True, False), sequences([2, 0, 3])
    *_, dx, dw = network.run(Ragged(parts))
    rows, offsets = Ragged(parts).values, Ragged(parts).offsets
    step = 1e-6

    def loss(rows: np.ndarray, w: np.ndarray) -> float:
        return float(network.run(Ragged.from_offsets(rows, offsets), w)[2])

    for array, gradient, of in ((rows, dx.values, 0), (W, dw, 1)):
        for index in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = array.copy()
                moved[index] += sign * step
                ends.append(loss(moved, W) if of == 0 else loss(rows, moved))
            assert gradient[index] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


def counting(rank: int) -> tuple[opstep.Variable, opstep.Variable]:
    """A memory of that rank that counts steps, over two ragged inputs."""
    a = layers.data("a", shape=[None, 2], lod_level=1)
    b = layers.data("b", shape=[None], dtype="int64", lod_level=1)
    rnn = layers.Recurrent()
    with rnn.step():
        rnn.step_input(a)
        number = rnn.step_input(b)
        steps = rnn.memory(shape=[2] * (rank - 1))
        rnn.update(steps, steps + 1.0)
        rnn.output(number)
    return rnn(), rnn.final[0]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_memories_of_any_rank_count_their_own_steps(rank: int) -> None:
    numbers, final = counting(rank)
    feed = {
        "a": [np.ones((n, 2), np.float32) for n in (2, 0, 5)],
        "b": [[7, 8], [], [1, 2, 3, 4, 5]],
    }
    out, counted = opstep.Executor().run(feed=feed, fetch_list=[numbers, final])
    assert out.to_list() == feed["b"]
    assert counted.shape == (3, *[2] * (rank - 1))
    assert counted.reshape(3, -1)[:, 0].tolist() == [2, 0, 5]


def test_inputs_of_different_lengths_are_refused() -> None:
    numbers, _ = counting(2)
    feed = {"a": [np.ones((n, 2), np.float32) for n in (2, 1)], "b": [[7], [8, 9]]}
    with pytest.raises(opstep.Error, match="the sequences of inputs 0 and 1 differ in length"):
        opstep.Executor().run(feed=feed, fetch_list=[numbers])


def test_ragged_and_other_inputs_do_not_mix() -> None:
    x = layers.data("x", shape=[None, 2], lod_level=1)
    dense = layers.data("dense", shape=[None, 5, 2])
    for first, second in ((x, dense), (dense, x)):
        rnn = layers.Recurrent()
        with rnn.step():
            rnn.step_input(first)
            with pytest.raises(opstep.Error, match="of one Recurrent: one is ragged and the other"):
                rnn.step_input(second)


def test_of_two_levels_the_inner_sequences_run() -> None:
    x = layers.data("x", shape=[None, 1], lod_level=2)
    rnn = layers.Recurrent()
    with rnn.step():
        row = rnn.step_input(x)
        total = rnn.memory(shape=[1])
        rnn.update(total, total + row)
        rnn.output(total + row)
    sums, (last,) = rnn(), rnn.final
    value = [[[[1.0], [2.0]], [[3.0]]], [], [[[4.0], [5.0], [6.0]]]]
    got, ends = opstep.Executor().run(feed={"x": value}, fetch_list=[sums, last])
    assert got.to_list() == [[[[1], [3]], [[3]]], [], [[[4], [9], [15]]]]
    assert ends.to_list() == [[[3], [3]], [], [[15]]]
