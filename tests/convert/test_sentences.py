"""What cannot be converted is said in one sentence, with the line and the way out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import imperative, layers

X = np.array([2, 9, -4], np.float32)
count = 0


def one_branch(x: Any) -> Any:
    if x.sum() > 0:
        y = x
    return y  # @


def other_types(x: Any) -> Any:
    if x.sum() > 0:
        y = x
    else:
        y = "none"
    return y  # @


def nothing_returned(x: Any) -> Any:  # noqa: RET503
    if x.sum() > 0:  # @
        return x


def only_in_the_loop(x: Any) -> Any:
    while x.sum() < 100:
        x = x * 2
        last = x
    return last  # @


def other_shape(x: Any) -> Any:
    while x.sum() < 100:  # @
        x = layers.concat([x, x])
    return x


def other_dtype(x: Any) -> Any:
    while x.sum() < 100:  # @
        x = layers.cast(x * 2, "float64")
    return x


def none_before(x: Any) -> Any:
    best = None
    while x.sum() < 100:  # @
        best = x if best is None else best
        x = x * 2
    return best


def appended(x: Any) -> Any:
    rows = []
    for row in x:
        rows.append(row)  # @
    return layers.stack(rows)


def added_in_place(x: Any) -> Any:
    rows = [x]
    if x.sum() > 0:
        rows += [x]  # @
    return layers.concat(rows)


def item_written(x: Any) -> Any:
    table = {}
    if x.sum() > 0:
        table["x"] = x  # @
    return table


def attribute_written(x: Any) -> Any:
    thread = threading.current_thread()
    if x.sum() > 0:
        thread.name = "changed"  # @
    return x


def global_written(x: Any) -> Any:
    global count
    count = count + 1  # @
    return x


def nonlocal_written(x: Any) -> Any:
    calls = 0

    def inner() -> Any:
        nonlocal calls
        calls = calls + 1  # @
        return x

    return inner()


def tried(x: Any) -> Any:
    try:  # @
        return 1 / x
    except ZeroDivisionError:
        return x


def yielded(x: Any) -> Iterator[Any]:
    yield x  # @


async def awaited(x: Any) -> Any:  # @
    return x


def unknown_manager(x: Any) -> Any:
    with threading.Lock():
        if x.sum() > 0:  # @
            x = x * 2
    return x


def manager_inside(x: Any) -> Any:
    if x.sum() > 0:
        with threading.Lock():  # @
            x = x * 2
    return x


def numpy_called(x: Any) -> Any:
    return np.exp(x)  # @


def value_needed(x: Any) -> Any:
    return float(x.numpy().sum())  # @


def compared(x: Any) -> Any:
    return x if x.sum() == 3.0 else -x  # @


def found_in(x: Any) -> Any:
    return x if x.sum() in (1, 2) else -x  # @


def index_of_a_list(x: Any) -> Any:
    k = 0
    while x.sum() < 100:
        x, k = x * 2, k + 1
    return x * [1.0, 2.0, 3.0][k]  # @


def many_truths(x: Any) -> Any:
    if x > 0:  # @
        return x
    return -x


def chosen_in_a_list(x: Any) -> Any:
    return [k for k in range(3) if x.sum() > k]  # @


def float_range(x: Any) -> Any:
    for _ in range(x.sum()):  # @
        x = x * 2
    return x


def listed_range(x: Any, n: Any) -> Any:
    return x * len(list(range(n)))  # @


def zipped_with_a_list(x: Any) -> Any:
    total = x.sum()
    for row, k in zip(x, [1, 2, 3], strict=True):  # @
        total = total + row * k
    return total


class Unnamed(imperative.Layer):
    def forward(self, x: Any) -> Any:
        while x.sum() < 100:  # @
            x = layers.fc(x, 3)
        return x


CASES: list[tuple[Callable[..., Any], str]] = [
    (one_branch, "'y' gets a value in only one branch of the 'if' on line"),
    (other_types, "'y' is float32[3] in one branch"),
    (nothing_returned, "the function returns float32[3] on one way"),
    (only_in_the_loop, "'last' gets its value only inside the loop on line"),
    (other_shape, "'x' is float32[3] before the loop"),
    (other_dtype, "and float64[3] after a turn of it"),
    (none_before, "'best' is None before the loop"),
    (appended, "a list from outside is changed inside the 'for' on line"),
    (added_in_place, "a list from outside is changed inside the 'if' on line"),
    (item_written, "a dict from outside is changed"),
    (attribute_written, "an object of class _MainThread from outside is changed"),
    (global_written, "count: a global name is given a value"),
    (nonlocal_written, "calls: a nonlocal name is given a value"),
    (tried, "the 'try' on line"),
    (yielded, "'yielded' is a generator"),
    (awaited, "'awaited' is asynchronous"),
    (unknown_manager, "is inside a 'with' of lock"),
    (manager_inside, "a 'with' of lock is inside the 'if'"),
    (numpy_called, "NumPy's exp works on arrays"),
    (value_needed, "numpy() needs the value of 'x' now"),
    (compared, "'==' asks whether two tensors are the same object"),
    (found_in, "'in' needs values that are there now"),
    (index_of_a_list, "a number that is known only when the program runs"),
    (many_truths, "has the shape [3]"),
    (chosen_in_a_list, "is known only when the program runs, but a comprehension"),
    (float_range, "a range needs whole numbers"),
    (listed_range, "the number of items is known only when the program runs"),
    (zipped_with_a_list, "zip of tensors and other things"),
]


def marked_line(function: Any) -> int:
    code = function.__code__
    with open(__file__) as file:
        lines = file.read().splitlines()
    first = code.co_firstlineno
    return next(n for n in range(first, len(lines) + 1) if lines[n - 1].endswith("# @"))


@pytest.mark.parametrize(("function", "words"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_a_sentence_with_the_line(function: Callable[..., Any], words: str) -> None:
    args = (X, np.array(3)) if function is listed_range else (X,)
    with pytest.raises(opstep.Error) as caught:
        opstep.to_graph(function)(*args)
    text = str(caught.value)
    assert words in text
    assert text.endswith(f"(test_sentences.py:{marked_line(function)})")
    assert "\n" not in text


def test_a_layer_function_without_a_name_in_a_loop() -> None:
    words = "layers.fc without a name is inside the 'while' on line"
    with pytest.raises(opstep.Error, match=words):
        opstep.to_graph(Unnamed())(np.zeros((2, 3), np.float32))


def test_what_has_no_source() -> None:
    made: dict[str, Any] = {}
    exec("def f(x):\n    return x", made)
    with pytest.raises(opstep.Error, match="cannot be converted without its source"):
        opstep.to_graph(made["f"])
    with pytest.raises(opstep.Error, match="'len' is not a Python function"):
        opstep.to_graph(len)
    with pytest.raises(opstep.Error, match="to_graph takes a function or a Layer"):
        opstep.to_graph(3)  # type: ignore[arg-type]


def test_two_lambdas_on_one_line_are_told_apart_or_refused() -> None:
    pair = (lambda x: x if x.sum() > 0 else -x, lambda x: x * 2 if x.sum() > 0 else x)
    try:
        results = [opstep.to_graph(f)(X) for f in pair]
    except opstep.Error as error:
        assert "there are several lambdas on this line" in str(error)
    else:
        np.testing.assert_array_equal(results, [X, X * 2])


def test_a_name_that_python_would_not_find_either() -> None:
    def f(x: Any, flag: bool) -> Any:
        if flag:
            y = x
        return y

    with pytest.raises(UnboundLocalError, match="'y'"):
        opstep.to_graph(f)(X, False)


def test_a_program_is_as_before_after_an_error() -> None:
    main = opstep.Program()
    with opstep.program_guard(main, opstep.Program()):
        x = layers.data("x", shape=[3])
        for function in (appended, other_shape, one_branch):
            with pytest.raises(opstep.Error):
                opstep.to_graph(function)(x)
            assert main.current_block().index == 0
        with pytest.raises(ZeroDivisionError):
            opstep.cond(x.sum() > 0, lambda: x, lambda: 1 / 0)
        assert main.current_block().index == 0


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(opstep.Error, match="one_branch: missing a required argument: 'x'"):
        opstep.to_graph(one_branch)()
