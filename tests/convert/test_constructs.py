"""Each construct of Python, line by line and compiled."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import opstep
from harness.modes import bits, line_by_line, op_types, same
from opstep import imperative, layers

X = np.array([2, 9, -4], np.float32)
BOTH = pytest.mark.parametrize("x", [X, -X], ids=["plus", "minus"])


@BOTH
def test_if_with_one_branch(x: np.ndarray) -> None:
    def f(x: Any) -> Any:
        y = x
        if x.sum() > 0:
            y = x * 2
        return y

    assert "cond" in op_types(same(f, x).program(x))


@BOTH
def test_elif_and_names_of_both_branches(x: np.ndarray) -> None:
    def f(x: Any) -> Any:
        if x.sum() > 100:
            a, b = x, 1
        elif x.max() > 5:
            a, b = x * 2, 2
        else:
            a, b = x * 3, 3.5
        return a * b

    same(f, x)


def test_what_python_knows_stays_python() -> None:
    def f(x: Any, deep: bool, sizes: list[int]) -> Any:
        for size in sizes:
            if deep and size > 1:
                x = x * size
            elif not deep:
                break
        return x

    program = same(f, X, True, [1, 2, 3]).program(X, True, [1, 2, 3])
    assert not {"cond", "while"} & set(op_types(program))


def test_while_until_converged() -> None:
    def f(x: Any) -> Any:
        root, turns = x, 0
        while layers.reduce_max(layers.abs(root * root - x)) > 1e-3:
            root = (root + x / root) * 0.5
            turns += 1
        return root, turns

    converted = same(f, np.abs(X))
    assert op_types(converted.program(X)).count("while") == 1
    assert isinstance(converted(np.abs(X))[1], int)


def test_while_with_break_continue_and_else() -> None:
    def f(x: Any, n: Any) -> Any:
        i, total = 0, x.max() * 0.0
        while i < n:
            i += 1
            if i % 2:
                continue
            if total > 20:
                break
            total = total + x.max() * i
        else:
            total = total - 1.0
        return total, i

    for n in (0, 1, 2, 9):
        same(f, X, np.array(n))


def test_for_over_ranges_of_tensors() -> None:
    def f(n: Any, x: Any) -> Any:
        total = x
        for i in range(n):
            total = total + i
        for i in range(n, 12, 3):
            total = total * i
        for i in range(9, n, -2):
            total = total - i
        return total

    for n in (0, 4, 20):
        assert op_types(same(f, np.array(n), X).program(np.array(n), X)).count("while") == 3


def test_for_over_rows_enumerated_and_zipped() -> None:
    def f(x: Any, y: Any) -> Any:
        total = layers.zeros([3])
        for row in x:
            total = total + row
        for i, row in enumerate(x, 2):
            total = total * i + row
        for a, b in zip(x, y):  # noqa: B905
            if a.sum() > b.sum():
                total = total + a * b
        return total, [row * 2 for row in x], len(x)

    rows = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)
    same(f, rows[0], rows[1])


def test_a_range_that_a_tensor_ends() -> None:
    def f(x: Any) -> Any:
        for i in range(1000):  # noqa: B007
            if x.sum() > 500:
                break
            x = x * 1.5
        return x, i

    assert len(op_types(same(f, X).program(X))) < 60


def test_a_list_that_a_tensor_ends() -> None:
    def f(x: Any) -> Any:
        for factor in (2.0, 3.0, 5.0):
            x = x * factor
            if x.sum() > 30:
                break
        else:
            x = x - 1
        return x

    for x in (X, X * 0.1, X * 100):
        same(f, x)


@BOTH
def test_early_returns(x: np.ndarray) -> None:
    def f(x: Any) -> Any:
        if x.max() > 100:
            return x
        for i in range(5):
            if x.sum() > 6 + i:
                if x.max() > 8:
                    return x - i
                x = x * 2
            while x.min() < -3:
                x = x + 1
                if x.sum() > 11:
                    return x * 10
        return -x

    same(f, x)


@BOTH
def test_and_or_not_and_chains(x: np.ndarray) -> None:
    def f(x: Any) -> Any:
        first = x.sum() > 0 and x.max() > 5
        second = x.sum() > 0 or x.min() < -8
        third = not first
        fourth = -5 < x.sum() < x.max() <= 9.0
        value = x if (first and not second) or fourth else -x
        return value, bool(first), third, bool(fourth), not x.sum() > 1e6

    same(f, x)


def test_the_right_side_of_and_runs_only_if_it_matters() -> None:
    def f(x: Any, i: Any) -> Any:
        steps = 0
        while i < 3 and x[i] > 0:  # x[3] is an error
            i = i + 1
            steps += 1
        return steps

    for start in (0, 1, 2, 3):
        same(f, np.abs(X), np.array(start))


@BOTH
def test_conditional_expressions(x: np.ndarray) -> None:
    def f(x: Any) -> Any:
        return (x if x.sum() > 0 else x * 2) + (1 if x.max() > 5 else 2.5)

    same(f, x)


def test_python_numbers_keep_python_s_arithmetic() -> None:
    def f(x: Any, n: Any) -> Any:
        i, z, flag = 7, 0.1, False
        while n > 0:
            n = n - 1
            i = (i * 3 + 1) // 2 - 5 % -(i + 1)
            z = z + 0.1 * i / 3 - abs(-i)
            flag = not flag
        return i, z, flag, x * i + z, float(x.sum()) + z, int(x.max()), max(i, 3), min(z, 2)

    results = opstep.to_graph(f)(X, np.array(4))
    same(f, X, np.array(4))
    assert [type(v) for v in results[:3]] == [int, float, bool]


def test_a_number_that_becomes_a_tensor() -> None:
    def f(x: Any) -> Any:
        total = 0
        while layers.reduce_sum(x) < 100:
            total = total + x
            x = x * 2
        return total, x

    same(f, X)


def test_names_that_are_swapped_and_tuples_in_loops() -> None:
    def f(x: Any, n: Any) -> Any:
        a, b, pair = x, x * 2, (x + 1, {"k": x - 1})
        for _ in range(n):
            a, b = b, a + b
            pair = (pair[1]["k"], {"k": pair[0]})
        return a, b, pair

    for n in (0, 1, 4):
        same(f, X, np.array(n))


def test_nested_functions_lambdas_closures_and_defaults() -> None:
    def helper(v: Any, limit: float = 3.0, *, sign: int = -1) -> Any:
        def inner() -> Any:
            if v.sum() > limit:
                return v * sign
            return v

        return inner()

    def f(x: Any) -> Any:
        scale = 3
        act = lambda v: v * scale if v.max() > 1 else v  # noqa: E731
        pick = functools.partial(helper, limit=5.0)
        return act(helper(x)), pick(x, sign=2)

    same(f, X)


def test_methods_properties_and_private_names() -> None:
    class Thing:
        def __init__(self) -> None:
            self.__limit = 3.0

        def __clip(self, x: Any) -> Any:
            return x if x.sum() < self.__limit else x * 0.1

        @opstep.to_graph
        def run(self, x: Any, k: float = 2.0) -> Any:
            """Doc."""
            return self.__clip(x) * k

    class More(Thing):
        def run(self, x: Any, k: float = 1.0) -> Any:  # type: ignore[override]
            return super().run(x, k) + 1

    thing = Thing()
    plain = functools.partial(Thing.run.function, thing)
    assert bits(thing.run(X)) == bits(line_by_line(plain, X))
    assert bits(thing.run(X, k=5.0)) == bits(line_by_line(functools.partial(plain, k=5.0), X))
    assert Thing.run.__doc__ == "Doc."
    same(More().run, X)


def test_names_of_the_walrus_and_deleted_ones() -> None:
    def f(x: Any) -> Any:
        if (total := x.sum()) > 3:
            extra = total * 2
            x = x + extra
            del extra
        return x, total

    same(f, X)


def test_match_and_with_of_opstep() -> None:
    def f(x: Any, kind: str) -> Any:
        match kind:
            case "double":
                if x.sum() > 0:
                    return x * 2
            case _:
                x = x + 1
        with opstep.name_scope("part"), imperative.no_grad():
            return x - 1 if x.sum() > 0 else x

    same(f, X, "double")
    same(f, -X, "double")
    same(f, X, "other")


def test_a_local_list_may_change_where_it_was_made() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            parts = []
            for i in range(3):
                parts.append(x * i)
            x = layers.concat(parts)
            x = layers.reshape(x, [3, 3])[0]
        return x

    same(f, X)


def test_a_try_around_python_only() -> None:
    def f(x: Any, table: dict[str, float]) -> Any:
        try:
            factor = table["factor"]
        except KeyError:
            factor = 2.0
        return x * factor if x.sum() > 0 else x

    same(f, X, {})
    same(f, X, {"factor": 3.0})


def test_values_of_the_code_around_are_shared() -> None:
    weight = imperative.to_variable(np.full(3, 2.0, np.float32))

    @opstep.to_graph
    def f(x: Any) -> Any:
        return weight * x

    np.testing.assert_array_equal(f(X), X * 2)
    weight.numpy()[:] = 5
    np.testing.assert_array_equal(f(X), X * 5)


def test_print_and_assert_are_ops(capfd: pytest.CaptureFixture[str]) -> None:
    @opstep.to_graph
    def f(x: Any) -> Any:
        assert x.sum() > 0, "the sum must be positive"
        if x.max() > 5:
            print("large:", x)
        return x

    f(X)
    assert "large: float32[3] = {2, 9, -4}" in capfd.readouterr().err
    with pytest.raises(opstep.Error, match=r"the sum must be positive \(test_constructs.py:\d+"):
        f(-X)


def test_a_raise_in_a_branch_happens_in_the_run() -> None:
    @opstep.to_graph
    def f(x: Any) -> Any:
        if x.sum() < 0:
            raise ValueError("negative")
        return x * 2

    np.testing.assert_array_equal(f(X), X * 2)
    with pytest.raises(opstep.Error, match="ValueError: negative"):
        f(-X)
