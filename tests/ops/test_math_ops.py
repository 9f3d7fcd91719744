"""What samples cannot say of functions, reductions and losses: refusals and rare gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import opstep
from opstep import layers, ops


def data(name: str, shape: list[int | None], dtype: str = "float32") -> opstep.Variable:
    return layers.data(name, shape=shape, dtype=dtype)


def run(build: Callable[..., opstep.Variable], **feed: np.ndarray) -> np.ndarray:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        out = build(*(data(name, list(a.shape), str(a.dtype)) for name, a in feed.items()))
    (value,) = opstep.Executor().run(program, feed=feed, fetch_list=[out], scope=opstep.Scope())
    return value


def gradient(build: Callable[[opstep.Variable], opstep.Variable], x: np.ndarray) -> np.ndarray:
    """Of the sum of what is built on x."""

    def gradient_of(variable: opstep.Variable) -> opstep.Variable:
        variable.stop_gradient = False
        loss = ops.reduce_sum(build(variable), keepdims=False)
        ((_, found),) = opstep.append_backward(loss, [variable])
        return found

    return run(gradient_of, x=x)


BUILDING: list[tuple[Callable[[], object], str]] = [
    (
        lambda: ops.gelu(data("a", [2]), approximate="erf"),
        "[gelu] approximate is 'erf': it must be 'none' or 'tanh'",
    ),
    (lambda: ops.celu(data("a", [2]), alpha=0), "[celu] alpha is 0: X is divided by it"),
    (
        lambda: ops.prelu(data("a", [3]), data("b", [2, 3])),
        "[prelu] slope is [2, 3] but X is [3]: slope must not make X larger",
    ),
    (
        lambda: ops.where(data("c", [3], "bool"), data("a", [2, 1]), data("b", [2])),
        "[where] condition is [3] but the broadcast of X and Y is [2, 2]: sizes 3 and 2 do not",
    ),
    (
        lambda: ops.top_k(data("a", [4, 3]), k=4),
        "[top_k] k is 4 but X is [4, 3]: axis 1 must have at least k elements",
    ),
    (
        lambda: ops.cum_sum(data("a", [4, 3]), axis=2),
        "[cum_sum] axis 2 is outside X, which is [4, 3]",
    ),
    (
        lambda: ops.nll_loss(data("a", [4, 3, 5]), data("b", [4, 3], "int64")),
        "[nll_loss] target is [4, 3] but X is [4, 3, 5]: target must be as X without its axis 1",
    ),
    (
        lambda: ops.nll_loss(data("a", [4, 3]), data("b", [4], "int64"), data("w", [4])),
        "[nll_loss] weight is [4] but X is [4, 3]: weight must be [classes]",
    ),
    (
        lambda: ops.nll_loss(data("a", [4, 3]), data("b", [4], "int64"), reduction="max"),
        "[nll_loss] reduction is 'max': it must be 'none', 'sum' or 'mean'",
    ),
    (
        lambda: ops.cross_entropy(data("a", [4, 3]), data("b", [4, 3])),
        "[cross_entropy] label is float32: classes are int64; say soft_label",
    ),
    (
        lambda: ops.huber_loss(data("a", [4]), data("b", [4]), delta=0),
        "[huber_loss] delta is 0: it must be above 0",
    ),
    (
        lambda: ops.kl_div(data("a", [None, 4]), data("b", [3])),
        "[kl_div] X is [?, 4] but label is [3]: their shapes must be equal",
    ),
    (
        lambda: ops.accuracy(data("a", [4, 3]), data("b", [4], "int64"), k=0),
        "[accuracy] k is 0: it must be 1 or more",
    ),
]


@pytest.mark.parametrize(("build", "message"), BUILDING, ids=[message for _, message in BUILDING])
def test_while_building(build: Callable[[], object], message: str) -> None:
    with (
        opstep.program_guard(opstep.Program(), opstep.Program()),
        pytest.raises(opstep.Error) as caught,
    ):
        build()
    assert message in str(caught.value)
    assert "test_math_ops.py:" in str(caught.value)


@pytest.mark.parametrize("label", [-1, 3])
@pytest.mark.parametrize("op", [ops.nll_loss, ops.cross_entropy, ops.accuracy])
def test_a_class_that_does_not_exist(op: Callable[..., opstep.Variable], label: int) -> None:
    labels = np.array([0, 2, label, 1])
    with pytest.raises(opstep.Error, match=rf"\[2\] is {label} but there are 3 classes"):
        run(op, x=np.ones((4, 3), np.float32), label=labels)


def test_integers_modulo_zero() -> None:
    with pytest.raises(opstep.Error, match="integers cannot be divided"):
        run(ops.mod, x=np.array([1, 2]), y=np.array([1, 0]))


@pytest.mark.parametrize("fmod", [False, True])
def test_the_smallest_integer_modulo_minus_one(fmod: bool) -> None:
    smallest = np.array([np.iinfo(np.int64).min])
    out = run(lambda x, y: ops.mod(x, y, fmod=fmod), x=smallest, y=np.array([-1]))
    assert out.tolist() == [0]


def test_k_is_checked_when_the_size_is_known() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        values, _ = ops.top_k(data("x", [None]), k=3)
    with pytest.raises(opstep.Error, match=r"k is 3 but X is \[2\]"):
        opstep.Executor().run(
            program,
            feed={"x": np.zeros(2, np.float32)},
            fetch_list=[values],
            scope=opstep.Scope(),
        )


def test_gradient_of_a_product_with_zeros() -> None:
    x = np.array([[2.0, 0.0, 3.0], [0.0, 5.0, 0.0], [2.0, 3.0, 4.0]])
    got = gradient(lambda v: ops.reduce_prod(v, axes=[1]), x)
    np.testing.assert_array_equal(got, [[0, 6, 0], [0, 0, 0], [12, 8, 6]])


def test_gradient_of_the_length_of_nothing() -> None:
    got = gradient(ops.reduce_l2, np.zeros(3))
    np.testing.assert_array_equal(got, [0, 0, 0])


@pytest.mark.parametrize("op", [ops.sin, ops.cos, ops.tan])
def test_an_angle_does_not_depend_on_its_neighbours(op: Callable[..., opstep.Variable]) -> None:
    x = np.linspace(-50, 50, 999, dtype=np.float32)
    with_huge = np.append(x, np.float32(1e30))
    np.testing.assert_array_equal(run(op, x=x), run(op, x=with_huge)[:-1])
