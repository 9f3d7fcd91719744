"""Expressions as places."""

from __future__ import annotations

import pytest

from opstep_server import assignment, expr


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("w[0] = 1", ("w[0]", "1")),
        (" fc_0.w[0, :5]=x + 1 ", ("fc_0.w[0, :5]", "x + 1")),
        ("a == b", None),
        ("a = b = 1", None),
        ("a += 1", None),
        ("a: int = 1", None),
        ("f(x=1)", None),
        ("a = 1; b = 2", None),
        ("= 1", None),
        ("", None),
    ],
)
def test_assignments(text: str, parts: tuple[str, str] | None) -> None:
    assert assignment.assignment(text) == parts


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        ("w", "w"),
        ("fc_0.w[0][1]", "fc_0.w"),
        ('var("w@grad")[2]', "w@grad"),
        ("w + 1", ""),
        ("norm(w)", ""),
    ],
)
def test_the_variable_of_a_place(text: str, variable: str) -> None:
    assert assignment.root(expr.parse(text)) == variable


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("w", True),
        ("fc_0.w[0, -1, :5]", True),
        ("x.shape", True),
        ('var("w@grad")', True),
        ("w + 1", False),
        ("w.mean()", False),
        ("w[argmax(w)]", False),
        ("w[0] > 1", False),
    ],
)
def test_what_only_names_something(text: str, plain: bool) -> None:
    assert assignment.is_plain(expr.parse(text)) is plain
