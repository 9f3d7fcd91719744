"""Gradients of what ran line by line."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import opstep
from opstep import imperative, ops
from opstep.imperative import Value, to_variable

X = np.array([1.0, 2.0, 3.0])


def wanted(array: np.ndarray = X) -> Value:
    return to_variable(array, stop_gradient=False)


def gradient(value: Value) -> list[float]:
    assert value.gradient is not None
    return value.gradient.numpy().tolist()


def test_gradients_add_up_until_they_are_cleared() -> None:
    with imperative.guard():
        x = wanted()
        (x * x).sum().backward()
        assert gradient(x) == [2, 4, 6]
        (x * 3).sum().backward()
        assert gradient(x) == [5, 7, 9]
        x.clear_gradient()
        assert x.gradient is None
        (x * 3).sum().backward()
        assert gradient(x) == [3, 3, 3]


def test_the_same_ops_over_other_values_use_the_same_plan_rightly() -> None:
    with imperative.guard():
        for number in range(1, 4):
            x, y = wanted(X * number), wanted(X + number)
            (x * y).sum().backward()
            assert gradient(x) == (X + number).tolist()
            assert gradient(y) == (X * number).tolist()


def test_the_same_ops_wired_otherwise_are_another_tape() -> None:
    def loss(a: Value, b: Value) -> Value:
        return (a * b).sum()

    with imperative.guard():
        x, y = wanted(), wanted(X + 1)
        for first, second in ((x, y), (x, x), (y, y), (x, y)):
            x.clear_gradient()
            y.clear_gradient()
            loss(first, second).backward()
            if first is second:
                assert gradient(first) == (2 * first.numpy()).tolist()
            else:
                assert gradient(x) == y.numpy().tolist()
                assert gradient(y) == x.numpy().tolist()


def test_only_what_wants_a_gradient_gets_one() -> None:
    with imperative.guard():
        x, plain = wanted(), to_variable(X)
        (leaf,) = (x * plain).sum().backward()
        assert leaf.gradient is not None and plain.gradient is None
        y = x * plain
        z = y.detach() * x
        assert y.detach().stop_gradient and np.shares_memory(y.detach().numpy(), y.numpy())
        x.clear_gradient()
        z.sum().backward()
        assert gradient(x) == (X * X).tolist()
        with imperative.no_grad():
            assert (x * 2).stop_gradient
        assert not (x * 2).stop_gradient
        assert ops.arg_max(x, axis=0).stop_gradient


def test_no_grad_as_a_decorator_and_after_an_error() -> None:
    @imperative.no_grad()
    def double(x: Value) -> Value:
        return x * 2

    with imperative.guard():
        assert double(wanted()).stop_gradient
        with pytest.raises(ZeroDivisionError), imperative.no_grad():
            _ = 1 / 0
        assert not (wanted() * 2).stop_gradient


def test_backward_twice() -> None:
    with imperative.guard():
        x = wanted()
        loss = (x * x).sum()
        loss.backward(retain=True)
        loss.backward()
        assert gradient(x) == [4, 8, 12]
        with pytest.raises(opstep.Error) as error:
            loss.backward()
    text = str(error.value)
    assert "call backward(retain=True) the first time" in text
    assert text.count("(test_tape.py:") == 2, "the op's line and that of the call"


def test_what_backward_refuses() -> None:
    with imperative.guard():
        with pytest.raises(opstep.Error, match=r"a loss must be one float.*\(test_tape.py:"):
            (wanted() * 2).backward()
        with pytest.raises(opstep.Error, match=r"nothing that needs a gradient"):
            to_variable(X).sum().backward()
        with pytest.raises(opstep.Error, match=r"int64 has no gradient: only floats have"):
            to_variable(np.array([1]), stop_gradient=False)


def test_a_value_that_was_written_into_is_noticed() -> None:
    with imperative.guard():
        x, factor = wanted(), to_variable(X.copy())
        loss = (x * factor).sum()
        ops.increment(factor, out=factor)
        with pytest.raises(opstep.Error, match=r"mul read was written into since.*test_tape.py"):
            loss.backward()
        # Of a sum only the shape is needed.
        total = x + factor
        loss = total.sum()
        with imperative.no_grad():
            ops.increment(factor, out=factor)
        loss.backward()
        assert gradient(x) == [1, 1, 1]


def test_nothing_writes_into_a_value_whose_gradient_is_wanted() -> None:
    with imperative.guard():
        x = wanted(X.copy())
        with pytest.raises(opstep.Error, match=r"do that inside opstep.imperative.no_grad\(\)"):
            ops.increment(x, out=x)
        with imperative.no_grad():
            ops.increment(x, out=x)
        assert x.numpy().tolist() == [2, 3, 4]


def test_a_value_used_on_several_ways() -> None:
    with imperative.guard():
        x = wanted()
        y = x * 2
        (y * y + y * x + ops.exp(y) * 0.0).sum().backward()
        assert gradient(x) == (2 * 2 * 2 * X + 4 * X).tolist()


def test_a_very_long_chain_is_recorded_and_freed() -> None:
    with imperative.guard():
        x = wanted(np.ones(1))
        y = x
        for _ in range(100_000):
            y = y + 0.0
        del y
        z = x
        for _ in range(300):
            z = z * 1.0
        z.sum().backward()
        assert gradient(x) == [1]


def test_memory_is_freed_with_what_nobody_holds() -> None:
    with imperative.guard():
        array = np.ones(3)
        gone = weakref.ref(array)
        x = wanted()
        y = x * to_variable(array)
        del array
        gc.collect()
        assert gone() is not None, "the gradient of x needs it"
        y.sum().backward()
        gc.collect()
        assert gone() is None


def test_what_an_op_wrote_into_is_freed_too() -> None:
    with imperative.guard():
        array = np.ones(3)
        gone = weakref.ref(array)
        value = to_variable(array)
        ops.increment(value, out=value)
        assert array.tolist() == [2, 2, 2]
        del array, value
        gc.collect()
        assert gone() is None


def test_random_layers_repeat_with_their_seeds() -> None:
    results = []
    for _ in range(2):
        imperative.seed(9)
        model = imperative.Sequential(imperative.FC(5), imperative.Dropout(0.5))
        with imperative.guard():
            x = to_variable(np.ones((2, 3), np.float32))
            results.append([model(x).numpy() for _ in range(2)])
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0][0], results[0][1]), "each call drops others"
