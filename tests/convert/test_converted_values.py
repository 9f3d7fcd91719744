"""Converted code gives what it gives line by line, or says in a sentence that it cannot."""

from __future__ import annotations

import collections
import heapq
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opstep
from harness.modes import line_by_line, same

X = np.array([1, 2, 3], np.float32)
ROWS = np.arange(12, dtype=np.float32).reshape(4, 3) - 3


# --- names that a test gives values to


def walrus(x: Any) -> Any:
    total = 0.0
    while (s := float(x.sum())) > 1.0:
        total += s
        x = x * 0.5
    return total, s


def walrus_and_break(x: Any) -> Any:
    turns = 0
    while (test := x.max()) > 0.1:
        x = x - test * 0.3
        turns += 1
        if turns > 3:
            break
    return x, test, turns


def walrus_of_what_was_before(x: Any) -> Any:
    s = x.sum()
    while x.max() > 0.5 and (s := s * 0.5) > 0.7:
        x = x * 0.9
    return x, s


def walrus_on_the_right(x: Any) -> Any:
    n = x.max()
    y = x.sum() > 3 and (n := x.min()) > 2
    return y, n


def walrus_in_a_choice(x: Any) -> Any:
    n = x.max()
    y = (n := x.min()) * 2 if x.sum() > 3 else x.max()
    return y, n


def walrus_in_a_chain(x: Any) -> Any:
    n = x.min()
    y = 1 < x.sum() < (n := x.max() * 3) < 100
    return y, n


@pytest.mark.parametrize("x", [X, X * 0.1, X * 5, -X])
@pytest.mark.parametrize(
    "function",
    [
        walrus,
        walrus_and_break,
        walrus_of_what_was_before,
        walrus_on_the_right,
        walrus_in_a_choice,
        walrus_in_a_chain,
    ],
)
def test_the_walrus_is_as_line_by_line(function: Callable[..., Any], x: np.ndarray) -> None:
    same(function, x)


def names_of_its_own(x: Any) -> Any:
    going, test, pair, pair_1 = x, x * 2, [x, x + 1], x * 3
    while going.sum() < 50:
        going, test, pair, pair_1 = test + 1, going, [pair[1], pair[0] * 2], pair_1 + 1
    return going, test, pair, pair_1


def test_any_name_can_be_carried() -> None:
    same(names_of_its_own, X)


# --- gradients


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_gradient_flows_through_a_python_number(dtype: str) -> None:
    def of_float(x: Any) -> Any:
        x.stop_gradient = False
        return opstep.gradients((x * float(x.max())).sum(), x)[0]

    def of_item(x: Any) -> Any:
        x.stop_gradient = False
        return opstep.gradients((x * x.max().item()).sum(), x)[0]

    for function in (of_float, of_item):
        same(function, X.astype(dtype))


# --- numbers


def divided(x: Any) -> Any:
    n = float(x.sum()) - 5.0
    return n // 0.1, -n // 0.3, n // -0.1, 7 // (n + 0.5), (n * 1e15) // 3


def other_operators(x: Any) -> Any:
    n, f = int(x.sum()), float(x.max()) + 0.5
    return round(f), round(n), round(f + 1), divmod(n, 4), divmod(-7, n), ~n  # noqa: RUF057


@pytest.mark.parametrize("function", [divided, other_operators])
def test_numbers_are_pythons(function: Callable[..., Any]) -> None:
    same(function, X)


# --- a branch that ends with an error


def raises_otherwise(x: Any) -> Any:
    if x.sum() > 0:
        y, k = x * 2, 3
    else:
        raise ValueError("negative")
    return y * k


def raises_first(x: Any) -> Any:
    if x.sum() < 0:
        raise ValueError("negative")
    elif x.sum() > 100:  # noqa: RET506
        return x
    else:
        y = x + 1
    return y


def raises_on_both_sides(x: Any) -> Any:
    if x.sum() > 0:
        y = x * 2
    elif x.max() > 0:
        raise ValueError("negative sum")
    else:
        raise ValueError(f"negative: {x.sum()}")
    return y


@pytest.mark.parametrize("function", [raises_otherwise, raises_first, raises_on_both_sides])
def test_a_branch_that_raises_needs_no_values(function: Callable[..., Any]) -> None:
    converted = same(function, X)
    with pytest.raises(opstep.Error, match="ValueError: negative"):
        converted(-X)
    same(function, X * 100)


# --- what Python goes through


def listed(x: Any) -> Any:
    return list(x), tuple(x)


def summed(x: Any) -> Any:
    return sum(x), sum([x[0], x[1]])


def mapped(x: Any) -> Any:
    return list(map(lambda row: row if row.sum() > 0 else -row, x))  # noqa: C417


def turned(x: Any) -> Any:
    total = x[0] * 0
    for row in reversed(x):
        total = total * 0.5 + row
    return total


def in_a_dict(x: Any) -> Any:
    return {f"r{i}": row * i for i, row in enumerate(x, 1)}


def in_pairs(x: Any) -> Any:
    return [a * b for a, b in zip(x, x * 2, strict=True)]


def filled_in_a_branch(x: Any) -> Any:
    if x.sum() > 0:
        parts = list(x)
        parts.append(x[0])
        y = sum(parts)
    else:
        y = x[0]
    return y


@pytest.mark.parametrize(
    "function", [listed, summed, mapped, turned, in_a_dict, in_pairs, filled_in_a_branch]
)
def test_python_goes_through_rows(function: Callable[..., Any]) -> None:
    same(function, ROWS)


# --- sentences: on the line with the mark


def not_reached(x: Any) -> Any:
    if x.max() > 1 and (n := x.min()) < 5:
        return n  # @
    return x.max()


def not_reached_either(x: Any) -> Any:
    y = (n := x.min()) if x.sum() > 3 else x.max()
    return y + n  # @


def matched(x: Any) -> Any:
    match int(x.sum()):  # @
        case 6:
            return x
        case _:
            return -x


def matched_inside(x: Any) -> Any:
    match (int(x.sum()), "a"):
        case (6, "a"):  # @
            return x
        case _:
            return -x


def either_type(x: Any) -> Any:
    return (x.sum() > 0) and x.max()  # @


def f_string(x: Any) -> Any:
    return f"{x.sum()}"  # @


def f_string_of_a_number(x: Any) -> Any:
    return f"{float(x.sum()):.3f}"  # @


def formatted(x: Any) -> Any:
    return "{}".format(x.sum())  # @ # noqa: UP032


def by_percent(x: Any) -> Any:
    return "%s %s" % (1, x.sum())  # @ # noqa: UP031


def words(x: Any) -> Any:
    return str(x)  # @


def appended(x: Any) -> Any:
    seen: Any = collections.deque()
    while x.sum() > 1:
        seen.append(1)  # @
        x = x * 0.5
    return len(seen)


def appended_by_name(x: Any) -> Any:
    seen: list[int] = []
    add = seen.append
    while x.sum() > 1:
        add(1)  # @
        x = x * 0.5
    return len(seen)


def appended_by_class(x: Any) -> Any:
    seen: list[int] = []
    while x.sum() > 1:
        list.append(seen, 1)  # @
        x = x * 0.5
    return len(seen)


def counted(x: Any) -> Any:
    seen: Any = collections.Counter()
    if x.sum() > 1:
        seen.subtract("a")  # @
    return len(seen)


class Kept:
    count = 0


def attribute(x: Any) -> Any:
    kept = Kept()
    if x.sum() > 1:
        setattr(kept, "count", 1)  # @ # noqa: B010
    return kept.count


def next_one(x: Any) -> Any:
    numbers, i = itertools.count(), 0
    while x.sum() > 1:
        i = next(numbers)  # @
        x = x * 0.5
    return i


def array_written(x: Any) -> Any:
    sums = np.zeros(3)
    while x.sum() > 1:
        np.add(sums, 1, out=sums)  # @
        x = x * 0.5
    return sums


def pushed(x: Any) -> Any:
    heap: list[int] = []
    if x.sum() > 1:
        heapq.heappush(heap, 1)  # @
    return len(heap)


def shifted(x: Any) -> Any:
    return int(x.sum()) << 2  # @


def masked(x: Any) -> Any:
    return int(x.sum()) & 1  # @


def to_digits(x: Any) -> Any:
    return round(float(x.sum()), 2)  # @


def key(x: Any) -> Any:
    return {6: x}[int(x.sum())]  # @


def strict(x: Any) -> Any:
    total = 0.0
    for a, b in zip(x, x[:2], strict=True):  # @
        total = total + a * b
    return total


def two_words(x: Any) -> Any:
    s = "a"
    if x.sum() > 0:
        s = "b"
    return x if s == "a" else -x  # @


SENTENCES = [
    (not_reached, "'n' gets a value on the right of the 'and' on line"),
    (not_reached_either, "'n' gets a value in only one branch"),
    (matched, "a 'match' chooses while it is built: use 'if' and 'elif'"),
    (matched_inside, "is a number that is known only when the program runs"),
    (either_type, "'and' gives one of its sides, here bool[] or float32[], but a program needs"),
    (f_string, "so it cannot become text now: print it"),
    (f_string_of_a_number, "so it cannot become text now: print it"),
    (formatted, "so it cannot become text now: print it"),
    (by_percent, "so it cannot become text now: print it"),
    (words, "so it cannot become text now: print it"),
    (appended, "an object of class deque from outside is changed inside the 'while' on line"),
    (appended_by_name, "a list from outside is changed"),
    (appended_by_class, "a list from outside is changed"),
    (counted, "a Counter from outside is changed"),
    (attribute, "an object of class Kept from outside is changed"),
    (next_one, "an object of class count from outside is changed"),
    (array_written, "a ndarray from outside is changed"),
    (pushed, "a list from outside is changed"),
    (shifted, "programs have no ops on the bits of a number"),
    (masked, "programs have no ops on the bits of a number"),
    (to_digits, "round() to a number of digits does not work"),
    (key, "is a number that is known only when the program runs"),
    (strict, "zip with strict=True needs equal lengths, not [3, 2]"),
    (two_words, "'s' is the str 'b' in one branch"),
]


@pytest.mark.parametrize(
    ("function", "sentence"), SENTENCES, ids=[each.__name__ for each, _ in SENTENCES]
)
def test_what_cannot_be_is_said(function: Callable[..., Any], sentence: str) -> None:
    lines, first = inspect.getsourcelines(function)
    line = first + next(n for n, text in enumerate(lines) if "# @" in text)
    with pytest.raises(opstep.Error) as caught:
        opstep.to_graph(function)(X)
    assert sentence in str(caught.value)
    assert f"(test_converted_values.py:{line})" in str(caught.value)


def test_what_was_made_inside_may_be_changed_inside() -> None:
    def inside(x: Any) -> Any:
        if x.sum() > 0:
            queue: Any = collections.deque([2.0])
            queue.append(3.0)
            rest = iter([1.0, 5.0])
            x = x * queue.popleft() * next(rest) + next(rest)
        return x

    same(inside, X)


def test_in_a_test_sides_may_have_different_types() -> None:
    def test_only(x: Any) -> Any:
        if x.sum() > 0 and x.max():
            return x * 2
        return x if not (x.sum() < -3 or x.max()) else -x

    for x in (X, -X, X * 0):
        same(test_only, x)


def test_a_string_in_an_error_may_name_a_tensor() -> None:
    def checked(x: Any) -> Any:
        assert x.sum() > 0, f"the sum is {x.sum()}"
        if x.sum() > 100:
            raise ValueError("the sum is {}".format(x.sum()) + str(x))  # noqa: UP032
        return x

    opstep.to_graph(checked)(X)
    line_by_line(checked, X)
