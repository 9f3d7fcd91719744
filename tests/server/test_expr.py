"""The expression language's parser: what gets through, and how what does not is told."""

from __future__ import annotations

import random

import pytest
from google.protobuf import text_format

from opstep_server import expr
from opstep_server.functions import FUNCTIONS
from opstep_server.wire import debug_pb2 as pb

X = 'name: "x"'
W = 'attribute { value { name: "fc_0" } name: "w" }'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("True", "b: true"),
        ("7", "i: 7"),
        ("1.5e3", "f: 1500.0"),
        ("'relu'", 's: "relu"'),
        ("x", X),
        ("  x ", X),
        ("fc_0.w", W),
        ("x.shape", f'attribute {{ value {{ {X} }} name: "shape" }}'),
        ('var("w@grad")', 'call { function: "var" args { s: "w@grad" } }'),
        ("w@grad", 'name: "w@grad"'),
        ("fc_0.w@grad", 'name: "fc_0.w@grad"'),
        ("x @ w", f'binary {{ op: MATMUL left {{ {X} }} right {{ name: "w" }} }}'),
        ("-x", f"unary {{ op: NEGATE value {{ {X} }} }}"),
        ("not x", f"unary {{ op: NOT value {{ {X} }} }}"),
        ("~x", f"unary {{ op: INVERT value {{ {X} }} }}"),
        ("x // 2", f"binary {{ op: FLOOR_DIVIDE left {{ {X} }} right {{ i: 2 }} }}"),
        ("x ** 2", f"binary {{ op: POWER left {{ {X} }} right {{ i: 2 }} }}"),
        ("x | 1", f"binary {{ op: OR left {{ {X} }} right {{ i: 1 }} }}"),
        (
            "0 < x <= 2",
            f"compare {{ first {{ i: 0 }} ops: [LESS, LESS_EQUAL] rest {{ {X} }} "
            "rest { i: 2 } }",
        ),
        (
            "x or 1 or 2",
            f"logic {{ is_or: true values {{ {X} }} values {{ i: 1 }} values {{ i: 2 }} }}",
        ),
        ("x and 1", f"logic {{ values {{ {X} }} values {{ i: 1 }} }}"),
        ("max(x)", f'call {{ function: "max" args {{ {X} }} }}'),
        ("x.max()", f'call {{ function: "max" args {{ {X} }} }}'),
        ("np.max(x)", f'call {{ function: "max" args {{ {X} }} }}'),
        ("fc_0.w.max()", f'call {{ function: "max" args {{ {W} }} }}'),
        (
            "x.sum(axis=-1)",
            f'call {{ function: "sum" args {{ {X} }} keywords {{ name: "axis" value {{ '
            "unary { op: NEGATE value { i: 1 } } } } }",
        ),
        ("grad(x)", f'call {{ function: "grad" args {{ {X} }} }}'),
        ("grad(fc_0.w)", 'call { function: "grad" args { name: "fc_0.w" } }'),
        ("grad('odd name')", 'call { function: "grad" args { name: "odd name" } }'),
        (
            "x[0, :4]",
            f"index {{ value {{ {X} }} subscripts {{ index {{ i: 0 }} }} "
            "subscripts { range { stop { i: 4 } } } }",
        ),
        (
            "x[..., 1::2]",
            f"index {{ value {{ {X} }} subscripts {{ ellipsis: true }} "
            "subscripts { range { start { i: 1 } step { i: 2 } } } }",
        ),
        ("(x, 1)", f"list {{ values {{ {X} }} values {{ i: 1 }} }}"),
        ("[x, 1]", f"list {{ values {{ {X} }} values {{ i: 1 }} }}"),
        (
            "where(x, 1, 2)",
            f'call {{ function: "where" args {{ {X} }} args {{ i: 1 }} args {{ i: 2 }} }}',
        ),
    ],
)
def test_good(text: str, message: str):
    assert expr.parse(text) == text_format.Parse(message, pb.Expr())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the expression is empty (column 1): write a variable's name, or out.mean()"),
        ("maxx(x)", "there is no function 'maxx' (column 1): did you mean 'max'?"),
        ("1 + x.meen()", "there is no function 'meen' (column 5): did you mean 'mean'?"),
        ("é + meen(x)", "there is no function 'meen' (column 5): did you mean 'mean'?"),
        ("  open('f')", "there is no function 'open' (column 3)"),
        ("max()", "max takes 1 or 2 arguments, not 0 (column 1): write max(x, axis=…)"),
        ("where(x)", "where takes 3 arguments, not 1 (column 1): write where(condition, a, b)"),
        ("max(x, axi=0)", "max has no argument 'axi' (column 8): did you mean 'axis'?"),
        ("abs(x, axis=0)", "abs has no argument 'axis' (column 8): write abs(x)"),
        ("max(*x)", "* before an argument is not supported (column 5)"),
        ("max(x, **y)", "** before an argument is not supported (column 10)"),
        ("grad(x + 1)", "grad takes a variable's name (column 6): write grad(w)"),
        (
            "quantile(x)",
            "quantile takes 2 or 3 arguments, not 1 (column 1): write quantile(x, 0.5, axis=…)",
        ),
        (
            "2 * w@grad",
            'grad is a function (column 7): write grad(w), or var("w@grad") for the name',
        ),
        ("x = 3", "invalid syntax (column 3): compare with =="),
        ("(x", "'(' was never closed (column 1)"),
        ("1+", "the expression ends too early (column 3)"),
        (" x ==  ", "the expression ends too early (column 6)"),
        ("not", "the expression ends too early (column 4)"),
        ("x.", "the expression ends too early (column 3)"),
        ("x y", "'y' does not fit here (column 3)"),
        ("x +* why", "'*' does not fit here (column 4)"),
        ("x && y", "'&' does not fit here (column 4): write 'and'"),
        ("!x", "'!' does not fit here (column 1): write 'not'"),
        ("x)", "unmatched ')' (column 2)"),
        ("'abc", "unterminated string literal (column 1)"),
        ("a if b else c", "'a if c else b' is not supported (column 1): use where(c, a, b)"),
        ("x is None", "'is' is not supported (column 1): use =="),
        ("1 in x", "'in' is not supported (column 1): use (x == value).any()"),
        ("x << 2", "<< is not supported (column 1)"),
        ("lambda: x", "lambda is not supported (column 1)"),
        ("[y for y in x]", None),
        ("{1: 2}", "dictionaries are not supported (column 1)"),
        ("f'{x}'", "f-strings are not supported (column 1)"),
        ("(y := 3)", "assignment is not supported (column 2): compare with =="),
        ("None", "None is not supported (column 1)"),
        ("b'x'", "bytes constants are not supported (column 1)"),
        ("1j", "complex constants are not supported (column 1)"),
        ("... + 1", "... is supported only between [ and ] (column 1)"),
        ("x[()]", "there is nothing between [ and ] (column 1)"),
        ("x()()", "only functions that have a name can be called (column 1)"),
        (str(1 << 63), "the number does not fit into 64 bits (column 1): write it as 1e20"),
    ],
)
def test_bad(text: str, message: str | None):
    with pytest.raises(expr.ExprError) as caught:
        expr.parse(text)
    if message is not None:
        assert str(caught.value) == message
    assert 1 <= caught.value.column <= len(text) + 1


@pytest.mark.parametrize(
    "text",
    [
        "(" * 300 + "x" + ")" * 300,
        "(" * 150 + "x" + ")" * 150 + ".a" * 100,
        "-" * 3999 + "x",
        "not " * 900 + "x",
        "x" + ".a" * 1900,
        "x" + "[0]" * 1300,
        "+".join(["x"] * 1900),
        "x" + ".max()" * 600,
        "1" * 3999,
        "x" * 4001,
        "[" + "1," * 1900 + "]",
        "x\0y",
        "\ud800",
        "'\\ud800'",
        "x; import os",
        "__import__('os').system('true')",
        "().__class__.__bases__[0].__subclasses__()",
        "x\n+\n",
        "\x0c\t\r",
        "0" * 50 + "1",
    ],
)
def test_hostile(text: str):
    with pytest.raises(expr.ExprError):
        expr.parse(text)


def test_noise_never_gets_past_the_error():
    seeded = random.Random(7)
    pieces = [*"()[]{}.,:+-*/%@<>=!~&|^'\"\\#$ 0123456789", "x", "max", "grad", "lambda", "…", "\0"]
    parsed = 0
    for _ in range(3000):
        text = "".join(seeded.choices(pieces, k=seeded.randrange(12)))
        try:
            expr.parse(text)
            parsed += 1
        except expr.ExprError as error:
            assert "\n" not in str(error)
    assert 0 < parsed < 1500


def test_every_function_can_be_called_with_its_fewest_arguments():
    for function in FUNCTIONS.values():
        argument = "'x'" if function.name in ("var", "grad") else "x"
        expr.parse(f"{function.name}({', '.join([argument] * function.least)})")


def test_names():
    text = "norm(grad(fc_0.w)) / w[i, j:k] + x.shape[0] > max(a, axis=b) and (c, -d)"
    assert expr.names(expr.parse(text)) == {
        *("fc_0.w", "w", "i", "j", "k", "x.shape", "a", "b", "c", "d"),
    }


def test_split():
    assert expr.split("out.mean(), x[0, :4],w ") == ["out.mean()", "x[0, :4]", "w"]
    assert expr.split("x[0, 1]") == ["x[0, 1]"]
    assert expr.split("[a, b]") == ["[a, b]"]
    with pytest.raises(expr.ExprError):
        expr.split("a, b c")


@pytest.mark.parametrize(
    "text", ["blocks.0.linear.weight", "layer1.0.conv1.weight", "seq.10", "a.0.1.b"]
)
def test_paths_of_modules_are_names(text: str) -> None:
    assert expr.names(expr.parse(text)) == {text}
    assert expr.names(expr.parse(f"{text}[0, :3].max() > grad({text}).mean()")) == {text}


def test_paths_of_modules_leave_strings_and_columns_alone() -> None:
    assert expr.names(expr.parse('var("a.0.b") + seq.0')) == {"seq.0"}
    assert expr.split("seq.0.weight[0], x.max()") == ["seq.0.weight[0]", "x.max()"]
    with pytest.raises(expr.ExprError) as caught:
        expr.parse("seq.10.weight + lambda: 1")
    assert caught.value.column == 17
