"""What ops refuse, and in which words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import opstep
from opstep import layers, ops


def data(name: str, shape: list[int | None], dtype: str = "float32") -> opstep.Variable:
    return layers.data(name, shape=shape, dtype=dtype)


BUILDING: list[tuple[Callable[[], object], str]] = [
    (
        lambda: ops.matmul(data("a", [3, 4]), data("b", [5, 2])),
        "[matmul] X is [3, 4] but Y is [5, 2]: inner sizes 4 and 5 differ",
    ),
    (
        lambda: ops.add(data("a", [None, 4]), data("b", [3])),
        "[add] X is [?, 4] but Y is [3]: sizes 4 and 3 do not broadcast",
    ),
    (
        lambda: ops.mul(data("a", [2]), data("b", [2], "int64")),
        "[mul] X is float32 but Y is int64: cast one of them",
    ),
    (
        lambda: ops.softmax(data("a", [2, 3]), axis=2),
        "[softmax] axis 2 is outside X, which is [2, 3]",
    ),
    (
        lambda: ops.reduce_sum(data("a", [2, 3]), axes=[0, -2]),
        "[reduce_sum] axes names axis -2 twice",
    ),
    (
        lambda: ops.reshape(data("a", [2, 3]), shape=[4, -1]),
        "with 6 elements: they cannot be shaped [4, ?]",
    ),
    (lambda: ops.reshape(data("a", [2, 3]), shape=[-1, -1]), "[reshape] shape holds -1 twice"),
    (lambda: ops.transpose(data("a", [2, 3]), perm=[0]), "but perm names 1 axes"),
    (
        lambda: ops.softmax_with_cross_entropy(data("a", [8, 3]), data("b", [7, 1], "int64")),
        "label is [7, 1] but logits is [8, 3]: label must be [N] or [N, 1]",
    ),
    (lambda: ops.uniform(shape=[2], min=1, max=1), "[uniform] min is 1 but max is 1"),
    (lambda: ops.fill(shape=[2, -1]), "[fill] shape holds -1: every size must be 0 or more"),
    (
        lambda: ops.sum([data("a", [2]), data("b", [3])]),
        "[sum] X[0] is float32[2] but X[1] is float32[3]",
    ),
    (
        lambda: ops.sgd(data("p", [2]), data("g", [3]), data("lr", [])),
        "[sgd] param is [2] but grad is [3]: they must be alike",
    ),
    (
        lambda: ops.momentum(data("p", [2]), data("g", [2]), data("v", [2, 1]), data("lr", [])),
        "[momentum] param is [2] but velocity is [2, 1]: they must be alike",
    ),
    (
        lambda: ops.adam(*(data(n, [2]) for n in "pgmv"), data("lr", [2]), data("n", [], "int64")),
        "[adam] lr is [2]: it must have one element",
    ),
    (
        lambda: ops.adamw(*(data(n, [2]) for n in "pgmv"), data("lr", []), data("n", [2], "int64")),
        "[adamw] step is [2]: it must have one element",
    ),
    (
        lambda: ops.adam(
            data("p", [2], "float64"),
            *(data(n, [2]) for n in "gmv"),
            data("lr", []),
            data("n", [], "int64"),
        ),
        "[adam] param is float64 but grad is float32: cast one of them",
    ),
    (lambda: ops.relu(data("a", [2], "int64")), "is int64; it takes float32, float64"),
]


@pytest.mark.parametrize(("build", "message"), BUILDING, ids=[message for _, message in BUILDING])
def test_while_building(build: Callable[[], object], message: str) -> None:
    with (
        opstep.program_guard(opstep.Program(), opstep.Program()),
        pytest.raises(opstep.Error) as caught,
    ):
        build()
    assert message in str(caught.value)
    assert "test_op_errors.py:" in str(caught.value)


Run = Callable[..., list[np.ndarray]]


def run(build: Callable[..., opstep.Variable], **feed: np.ndarray) -> list[np.ndarray]:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        out = build(*(data(name, list(a.shape), str(a.dtype)) for name, a in feed.items()))
    return opstep.Executor().run(program, feed=feed, fetch_list=[out], scope=opstep.Scope())


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_outside_the_classes(label: int) -> None:
    labels = np.array([[0], [2], [label], [1]])
    with pytest.raises(opstep.Error, match=rf"label\[2\] is {label} but there are 3 classes"):
        run(layers.softmax_with_cross_entropy, logits=np.zeros((4, 3), np.float32), label=labels)


def test_integers_divided_by_zero() -> None:
    with pytest.raises(opstep.Error, match="integers cannot be divided"):
        run(ops.div, x=np.array([1, 2]), y=np.array([1, 0]))


def test_the_smallest_integer_divided_by_minus_one() -> None:
    smallest = np.iinfo(np.int64).min
    (out,) = run(ops.div, x=np.array([smallest]), y=np.array([-1]))
    assert out.tolist() == [smallest]


def test_negative_powers_of_integers() -> None:
    with pytest.raises(opstep.Error, match="integers have no negative powers"):
        run(ops.pow, x=np.array([2]), y=np.array([-1]))


def test_the_largest_of_nothing() -> None:
    with pytest.raises(opstep.Error, match="no elements are left to choose from"):
        run(ops.reduce_max, x=np.zeros((0, 3), np.float32))


def test_floats_that_do_not_fit_an_integer() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, -2.7])
    (out,) = run(lambda x: ops.cast(x, to="int32"), x=values)
    limits = np.iinfo(np.int32)
    assert out.tolist() == [0, limits.max, limits.min, limits.max, limits.min, -2]
