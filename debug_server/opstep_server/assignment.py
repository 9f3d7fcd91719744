"""Assignments: the target of `w[0] *= 2`, and which variable it means."""

from __future__ import annotations

import ast
import warnings

from opstep_server import expr
from opstep_server.wire import debug_pb2 as pb

# How Python writes these operators; expressions have no others.
_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}


def assignment(text: str) -> tuple[str, str] | None:
    """`w[0] = 1` to its left and right side; None for an expression."""
    statement = _statement(text)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    source = text.strip()
    target = ast.get_source_segment(source, statement.targets[0])
    value = ast.get_source_segment(source, statement.value)
    return (target, value) if target and value else None


def spelt_out(text: str) -> str:
    """`w += 1 + x` as `w = w + (1 + x)`; "" for any other text."""
    statement = _statement(text)
    if not isinstance(statement, ast.AugAssign) or type(statement.op) not in _SIGNS:
        return ""
    source = text.strip()
    target = ast.get_source_segment(source, statement.target)
    value = ast.get_source_segment(source, statement.value) or ""
    if not isinstance(statement.value, (ast.Constant, ast.Name, ast.Attribute, ast.Subscript)):
        value = f"({value})"
    return f"{target} = {target} {_SIGNS[type(statement.op)]} {value}"


def _statement(text: str) -> ast.stmt | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (statement,) = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return statement


def root(place: pb.Expr) -> str:
    """The variable that the place is a part of; "" when there is none."""
    while place.WhichOneof("node") == "index":
        place = place.index.value
    if place.WhichOneof("node") == "call" and place.call.function == "var" and place.call.args:
        return place.call.args[0].s
    return expr.dotted_name(place) or ""


def is_plain(place: pb.Expr) -> bool:
    """Whether it is a name or a part of one, so that nothing is computed."""
    kind = place.WhichOneof("node")
    if kind == "index":
        subscripts = place.index.subscripts
        return is_plain(place.index.value) and all(_is_number(each) for each in subscripts)
    if kind == "call":
        return bool(root(place))
    return kind in ("name", "attribute", "b", "i", "f", "s")


def _is_number(subscript: pb.Expr.Subscript) -> bool:
    if subscript.WhichOneof("kind") != "index":
        return True  # A slice is cut, not computed.
    index = subscript.index
    return (index.unary.value if index.HasField("unary") else index).HasField("i")
