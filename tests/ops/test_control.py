"""Ops that need a program around them: feed, fetch, print, while; and numbers from seeds."""

from __future__ import annotations

import numpy as np
import pytest

import opstep
from opstep import layers, ops


def run(
    program: opstep.Program, fetch: list[opstep.Variable], **feed: np.ndarray
) -> list[np.ndarray]:
    return opstep.Executor().run(program, feed=feed, fetch_list=fetch, scope=opstep.Scope())


def test_a_fed_variable_comes_back_as_it_was() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", shape=[None, 3], dtype="int16")
    value = np.arange(6, dtype=np.int16).reshape(2, 3)
    (got,) = run(program, [x], x=value)
    assert got.dtype == np.int16
    np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("fetch", [True, False], ids=["fetched", "for nobody"])
def test_print_writes_to_stderr_and_passes_on(
    fetch: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", shape=[None, 2])
        out = ops.print(x, message="look")
    value = np.array([[1.5, -2.0]], np.float32)
    fetched = run(program, [out] if fetch else [], x=value)
    assert "look: float32[1, 2] = {1.5, -2}\n" in capfd.readouterr().err
    for got in fetched:
        np.testing.assert_array_equal(got, value)


def test_print_shows_the_first_elements_only(capfd: pytest.CaptureFixture[str]) -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", shape=[None], dtype="int64")
        ops.print(x)
    run(program, [], x=np.arange(100))
    assert "int64[100] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, …}" in (
        capfd.readouterr().err
    )


def test_assert_ends_the_run_with_its_words() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", shape=[1])
        held = ops.assert_(x > 0.0, message="x must be positive")
        with pytest.raises(opstep.Error, match=r"X is .*: it must have one element"):
            ops.assert_(ops.fill(shape=[2], dtype="bool", value=True))
    assert run(program, [held], x=np.ones(1, np.float32))[0].tolist() == [True]
    for fetch in ([held], []):
        with pytest.raises(opstep.Error, match=r"\[assert\] x must be positive \(test_control.py"):
            run(program, fetch, x=np.zeros(1, np.float32))


def test_gradients_go_through_print() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", shape=[3])
        x.stop_gradient = False
        shown = ops.print(x)
        loss = ops.reduce_sum(ops.mul(shown, shown), keepdims=False)
        ((_, gradient),) = opstep.append_backward(loss, [x])
    value = np.array([1, -2, 3], np.float32)
    (got,) = run(program, [gradient], x=value)
    np.testing.assert_array_equal(got, 2 * value)


def test_while_repeats_its_block() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        n = layers.data("n", shape=[], dtype="int64")
        i = layers.fill(shape=[], value=0, dtype="int64")
        total = layers.fill(shape=[], value=0, dtype="int64")
        go_on = ops.less(i, n)
        with layers.While(go_on).block():
            ops.add(total, i, out=total)
            ops.increment(i, out=i)
            ops.less(i, n, out=go_on)
    for count in (0, 1, 10):
        got, end = run(program, [total, i], n=np.array(count))
        assert (got, end) == (sum(range(count)), count)


@pytest.mark.parametrize(
    ("op", "low", "high", "mean", "std"),
    [(ops.uniform, -1, 1, 0, 3**-0.5), (ops.normal, -6, 6, 0, 1)],
    ids=["uniform", "normal"],
)
def test_random_numbers_have_their_distribution(
    op: ops.OpFunction, low: float, high: float, mean: float, std: float
) -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        one, again, other = (op(shape=[200_000], seed=seed) for seed in (5, 5, 6))
    a, b, c = run(program, [one, again, other])
    np.testing.assert_array_equal(a, b)
    assert low <= a.min() and a.max() < high
    for numbers in (a, c):
        assert abs(numbers.mean() - mean) < 0.01
        assert abs(numbers.std() - std) < 0.01
    assert abs(np.corrcoef(a, c)[0, 1]) < 0.01
    assert abs(np.corrcoef(a[1:], a[:-1])[0, 1]) < 0.01
