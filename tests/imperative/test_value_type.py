"""Values as Python's objects: lifetimes, identity, copies, subclasses, threads; and the numbers of
stacks that ops are told apart by."""

from __future__ import annotations

import copy
import gc
import pickle
import queue
import sys
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import opstep
from opstep import _core, imperative, ops
from opstep.imperative import Value, to_variable

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def living() -> int:
    gc.collect()
    return sum(isinstance(each, Value) for each in gc.get_objects())


# --- lifetimes


def test_values_go_with_their_last_owner() -> None:
    with imperative.guard():
        x = to_variable(X, stop_gradient=False)
        before = living()
        for _ in range(100):
            y = x * 2 + 1
            z = [ops.relu(y), ops.reduce_sum(y, axes=[0]), y[0], 3 - y]
            z[0].mean().backward()
            x.clear_gradient()
        dead = weakref.ref(y)
        del y, z
        assert dead() is None
        assert living() == before


def test_an_array_is_released_with_its_value() -> None:
    array = X.copy()
    before = sys.getrefcount(array)
    value = to_variable(array)
    kept = value.detach()
    assert sys.getrefcount(array) > before
    del value
    assert sys.getrefcount(array) > before
    del kept
    assert sys.getrefcount(array) == before


def test_arguments_of_ops_are_not_kept() -> None:
    names = f"named_{id(X)}", [0, 1]
    with imperative.guard():
        x = to_variable(X)
        for _ in range(3):
            ops.reduce_sum(x, axes=names[1], name=names[0])
        before = [sys.getrefcount(each) for each in (x, *names)]
        for _ in range(50):
            ops.reduce_sum(x, axes=names[1], name=names[0])
            with pytest.raises(opstep.Error):
                ops.reduce_sum(x, axes=[7])
        assert [sys.getrefcount(each) for each in (x, *names)] == before


class Named(Value):
    """A user's own class."""

    def __init__(self, array: np.ndarray, title: str) -> None:
        super().__init__(array)
        self.title = title
        self.friends: list[object] = []


def test_cycles_through_a_subclass_are_collected() -> None:
    value = Named(X, "one")
    value.friends.append(value)
    dead = weakref.ref(value)
    del value
    gc.collect()
    assert dead() is None


def test_a_subclass_is_a_value() -> None:
    value = Named(X, "one")
    with imperative.guard():
        assert type(value + 1) is Value and type(1 + value) is Value
    assert isinstance(value.shape, tuple) and value.title == "one"
    assert repr(value).startswith("Named(")

    class Hasty(Value):
        def __init__(self) -> None:
            pass

    with pytest.raises(opstep.Error, match="has no value yet"):
        _ = Hasty().shape


# --- identity


def test_a_value_has_one_object() -> None:
    with imperative.guard():
        parameter = imperative.ParameterValue(X.copy(), "w")
        parameter.stop_gradient = False
        (leaf,) = (parameter * parameter).sum().backward()
        assert leaf is parameter
        gradient = parameter.gradient
        assert gradient is parameter.gradient
        assert np.array_equal(gradient.numpy(), 2 * X)


def test_values_are_compared_and_hashed_by_identity() -> None:
    a, b = to_variable(X), to_variable(X)
    assert a == a and a != b
    assert len({a, b, a}) == 2
    cache = weakref.WeakKeyDictionary({a: 1})
    del a
    assert len(cache) == 0


def test_a_weak_reference_s_callback_may_use_values() -> None:
    seen: list[object] = []
    with imperative.guard():
        x = to_variable(X, stop_gradient=False)
        x.sum().backward()
        gradient = x.gradient
        # While the gradient's object goes, another one is asked for.
        watch = weakref.ref(gradient, lambda _: seen.append(x.gradient))
        del gradient
        assert watch() is None
    assert isinstance(seen[0], Value) and (seen[0].numpy() == 1).all()
    assert seen[0] is x.gradient


# --- copies


def test_copies_have_memory_of_their_own() -> None:
    value = imperative.ParameterValue(X.copy(), "w", trainable=False)
    value.optimize_attr = {"learning_rate": 0.5}
    for made in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert type(made) is imperative.ParameterValue
        assert (made.name, made.trainable, made.optimize_attr) == (
            "w", False, {"learning_rate": 0.5},
        )  # fmt: skip
        assert np.array_equal(made.numpy(), X)
        assert not np.shares_memory(made.numpy(), value.numpy())
    named = copy.deepcopy(Named(X, "one"))
    assert named.title == "one" and named.friends == []
    with imperative.guard():
        x = to_variable(X, stop_gradient=False)
        with pytest.raises(opstep.Error, match=r"cannot be copied or pickled: take its detach\(\)"):
            copy.deepcopy(x * 2)
        assert np.array_equal(copy.deepcopy((x * 2).detach()).numpy(), X * 2)


# --- threads


def test_values_are_made_and_freed_on_different_threads() -> None:
    handed: queue.Queue[Value | None] = queue.Queue(maxsize=50)
    totals: list[float] = []

    @imperative.guard()
    def consume() -> None:
        total = 0.0
        while (value := handed.get()) is not None:
            total += float(value.sum())
        totals.append(total)

    @imperative.guard()
    def produce() -> None:
        x = to_variable(X, stop_gradient=False)
        for number in range(300):
            handed.put(x * number)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=produce) for _ in range(2)]
        threads += [threading.Thread(target=consume) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads[:2]:
            thread.join()
        for _ in range(2):
            handed.put(None)
        for thread in threads[2:]:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert sum(totals) == 2 * X.sum() * sum(range(300))


# --- stacks


def number() -> int:
    return _core.user_stack_number()


def test_a_stack_has_a_number_of_its_own() -> None:
    assert len({number() for _ in range(3)}) == 1
    a = number()
    b = number()
    assert a != b
    c, d = number(), number()  # one line, two places
    assert c != d


def test_the_lines_around_count() -> None:
    def inner() -> int:
        return number()

    def outer() -> int:
        return inner()

    def twice() -> list[int]:
        first = outer()
        second = outer()
        return [first, second]

    (a, b), (c, d) = [twice() for _ in range(2)]
    assert (a, b) == (c, d) and a != b


def test_a_generator_s_stack_is_that_of_who_resumes_it() -> None:
    def numbers() -> Iterator[int]:
        while True:
            yield number()

    made = numbers()
    first = next(made)
    second = next(made)
    assert first != second


def test_deeper_and_back() -> None:
    def down(depth: int) -> list[int]:
        here = [number()]
        return here + (down(depth - 1) if depth else []) + [number()]

    for _ in range(2):
        found = down(5)
        assert len(set(found)) == len(found) == 12
        again = down(5)
        assert again[0] != found[0] and len(set(again)) == 12
