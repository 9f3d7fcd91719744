"""Gradients of programs that are not a plain chain, and those that must be refused."""

from __future__ import annotations

import numpy as np
import pytest

import opstep
from opstep import layers, ops


def parameter(world, name: str, value: list[float]) -> opstep.Variable:
    block = world.main.global_block()
    made = block.create_parameter(name, [len(value)], "float32", opstep.initializer.Constant(0.0))
    world.scope.set(name, np.array(value, np.float32))
    return made


def gradients(world, loss: opstep.Variable) -> dict[str, np.ndarray]:
    pairs = opstep.append_backward(loss)
    values = world.exe.run(world.main, fetch_list=[gradient for _, gradient in pairs])
    return {p.name: value for (p, _), value in zip(pairs, values, strict=True)}


def test_a_variable_read_many_times(world) -> None:
    w = parameter(world, "w", [2.0, 3.0])
    square = ops.mul(w, w)
    both = ops.sum([square, w, square])
    loss = ops.reduce_sum(ops.mul(both, w), keepdims=False)
    # (2 w² + w) w
    value = np.array([2.0, 3.0])
    np.testing.assert_allclose(gradients(world, loss)["w"], 6 * value**2 + 2 * value)


def test_two_losses_each_keep_their_gradients(world) -> None:
    w = parameter(world, "w", [2.0, 3.0])
    trunk = ops.mul(w, w)
    first = ops.reduce_sum(trunk, keepdims=False)
    second = ops.reduce_sum(ops.mul(trunk, w), keepdims=False)
    one, two = opstep.append_backward(first), opstep.append_backward(second)
    assert [(p.name, g.name) for p, g in one] == [("w", "w@grad")]
    assert [p.name for p, _ in two] == ["w"]
    values = world.exe.run(world.main, fetch_list=[one[0][1], two[0][1]])
    np.testing.assert_allclose(values, [[4, 6], [12, 27]])


def test_two_losses_minimized_in_turn(world) -> None:
    w = parameter(world, "w", [2.0])
    trunk = ops.add(w, w)
    opstep.optimizer.SGD(0.25).minimize(ops.reduce_sum(trunk, keepdims=False))
    again = ops.mul(w, w)  # reads what the first step wrote: 1.5
    opstep.optimizer.SGD(0.1).minimize(ops.reduce_sum(again, keepdims=False))
    world.exe.run(world.startup)
    world.scope.set("w", np.array([2.0], np.float32))
    world.exe.run(world.main)
    np.testing.assert_allclose(world.scope.find("w"), [1.5 - 0.1 * 3.0])


def test_no_gradient_beyond_stop_gradient(world) -> None:
    w = parameter(world, "w", [2.0, 3.0])
    still = ops.mul(w, w)
    still.stop_gradient = True
    loss = ops.reduce_sum(ops.mul(still, w), keepdims=False)
    np.testing.assert_allclose(gradients(world, loss)["w"], [4, 9])


def test_a_parameter_overwritten_between_its_uses(world) -> None:
    w = parameter(world, "w", [2.0])
    twice = ops.add(w, w)
    layers.assign(twice, out=w)
    loss = ops.reduce_sum(ops.mul(w, twice), keepdims=False)
    # (2 w)², for the value that the run begins with
    np.testing.assert_allclose(gradients(world, loss)["w"], [16])


def test_a_parameter_overwritten_by_something_else(world) -> None:
    w = parameter(world, "w", [2.0])
    twice = ops.add(w, w)
    layers.fill([1], 3.0, out=w)
    loss = ops.reduce_sum(ops.mul(w, twice), keepdims=False)
    before = str(world.main)
    with pytest.raises(opstep.Error, match=r"'w' is overwritten.*test_gradients.py:\d+, op #"):
        opstep.append_backward(loss)
    assert str(world.main) == before


@pytest.mark.parametrize(
    ("op", "expected"),
    [("log", 1 / 3), ("relu", 1), ("abs", 1), ("tanh", 1 - np.tanh(3) ** 2), ("neg", -1)],
)
def test_an_op_in_place_of_its_input(world, op: str, expected: float) -> None:
    w = parameter(world, "w", [2.0])
    x = ops.add(w, 1.0)
    getattr(ops, op)(x, out=x)
    loss = ops.reduce_sum(x, keepdims=False)
    np.testing.assert_allclose(gradients(world, loss)["w"], [expected], rtol=1e-5)


def test_a_counter_in_between(world) -> None:
    w = parameter(world, "w", [2.0])
    x = ops.mul(w, w)
    layers.increment(x)
    loss = ops.reduce_sum(ops.mul(x, w), keepdims=False)
    np.testing.assert_allclose(gradients(world, loss)["w"], [13])


def test_a_variable_overwritten_when_it_is_no_longer_needed(world) -> None:
    w = parameter(world, "w", [2.0])
    x = ops.add(w, 1.0)
    loss = ops.reduce_sum(ops.add(x, 5.0), keepdims=False)
    layers.assign(ops.mul(w, 0.0), out=x)
    np.testing.assert_allclose(gradients(world, loss)["w"], [1])
