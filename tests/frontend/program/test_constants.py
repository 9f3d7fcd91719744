"""Values that are the same in every run are computed once, and nobody can tell."""

from __future__ import annotations

import numpy as np

import opstep
from opstep import _core, layers, ops


def test_constants_and_shapes_are_computed_before_the_run() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", [None, 3])
        rows = ops.cast(ops.shape(x), to="float32")
        scaled = ops.mul(rows, layers.constant([2.0, 0.5]))
        out = ops.add(x, ops.reduce_sum(scaled, keepdims=False))
    exe = opstep.Executor()
    for n in (2, 5, 2):
        value = np.ones((n, 3), np.float32)
        got, parts = exe.run(program, feed={"x": value}, fetch_list=[out, scaled])
        np.testing.assert_array_equal(parts, [2.0 * n, 1.5])
        np.testing.assert_array_equal(got, value + 2 * n + 1.5)


def test_the_ops_are_still_there_to_stop_at() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", [2])
        out = ops.mul(x, ops.exp(layers.constant([1.0, 2.0])))
    hook = _core.CountingHook()
    hook.install()
    try:
        (got,) = opstep.Executor().run(
            program, feed={"x": np.ones(2, np.float32)}, fetch_list=[out]
        )
    finally:
        hook.remove()
    assert hook.before == len(program.global_block().ops)
    np.testing.assert_allclose(got, np.exp([1, 2]), rtol=1e-6)


def test_what_is_changed_later_is_no_constant() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        i = layers.fill([], 0, "int64")
        j = ops.add(i, i)
        go_on = ops.less(i, 3)
        with layers.While(go_on).block():
            ops.increment(i, out=i)
            ops.less(i, 3, out=go_on)
        k = ops.add(i, j)
    exe = opstep.Executor()
    for _ in range(3):
        assert exe.run(program, fetch_list=[k])[0] == 3


def test_what_the_caller_gets_is_the_callers() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", [2])
        out = ops.exp(layers.constant([0.0, 1.0]))
        y = ops.add(x, out)
    exe = opstep.Executor()
    feed = {"x": np.zeros(2, np.float32)}
    first = exe.run(program, feed=feed, fetch_list=[out, y, y, x])
    kept = [value.copy() for value in first]
    for value in first:
        assert value.flags.writeable or value is first[3]
    first[0][:] = 7
    first[1][:] = 8
    second = exe.run(program, feed=feed, fetch_list=[out, y, y, x])
    for got, value in zip(second, kept, strict=True):
        np.testing.assert_array_equal(got, value)
    np.testing.assert_array_equal(first[2], kept[2])
    np.testing.assert_array_equal(first[1], [8, 8])


def test_a_constant_that_cannot_be_computed_fails_in_the_run() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        zero = layers.fill([], 0, "int64")
        one = layers.fill([], 1, "int64")
        bad = ops.div(one, zero)
    try:
        opstep.Executor().run(program, fetch_list=[bad])
    except opstep.Error as error:
        assert "[div]" in str(error) and "test_constants.py:" in str(error)
    else:
        raise AssertionError("no error")
