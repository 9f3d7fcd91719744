"""Expressions that have another meaning for a tensor: see `rewrite`."""

from __future__ import annotations

import ast
from typing import Any

from opstep.convert.jumps import RUNTIME, at
from opstep.convert.names import stored

# Functions that look at the frame that calls them.
_OF_THE_FRAME = {"super", "locals", "globals", "eval", "exec", "vars", "dir"}

_WORDS = {"str", "repr", "format"}

_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
_PLAIN = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot)


class Expressions(ast.NodeTransformer):
    """Rewrites expressions."""

    def __init__(self, owner: str) -> None:
        self.owner = owner.lstrip("_")
        # Names of the function, and those that may have no value.
        self.locals: set[str] = set()
        self.guarded: set[str] = set()
        # Error messages may show a tensor without its value.
        self._in_message = False

    def _call(self, name: str, like: ast.AST, *args: ast.expr, line: int = 0) -> ast.Call:
        """A call on the first line of `like`, or on `line`."""
        function = ast.Attribute(ast.Name(RUNTIME, ast.Load()), name, ast.Load())
        call = at(ast.Call(function, [], []), like, line)
        call.args = list(args)
        return call

    def _private(self, name: str) -> str:
        """`__name` with the mangling of a class."""
        if self.owner and name.startswith("__") and not name.endswith("__"):
            return f"_{self.owner}{name}"
        return name

    # --- names and parts

    def visit_Name(self, node: ast.Name) -> Any:
        node.id = self._private(node.id)
        if not isinstance(node.ctx, ast.Load) or node.id.startswith(RUNTIME):
            return node
        if node.id in self.guarded:
            return self._call("read", node, node)
        return node if node.id in self.locals else self._call("value", node, node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id.startswith(RUNTIME):
            return node
        node.attr = self._private(node.attr)
        return self._part(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        node.slice = self.visit(node.slice)
        return self._part(node)

    def _part(self, node: ast.Attribute | ast.Subscript) -> Any:
        node.value = self.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            return self._call("value", node, node)
        node.value = self._call("writes", node, node.value)
        return node

    # --- calls

    def visit_Call(self, node: ast.Call) -> Any:
        node.args = [self.visit(each) for each in node.args]
        for each in node.keywords:
            each.value = self.visit(each.value)
        function, line = node.func, 0
        if isinstance(function, ast.Name) and function.id in _OF_THE_FRAME:
            return node
        if self._in_message and isinstance(function, ast.Name) and function.id in _WORDS:
            return node
        if isinstance(function, ast.Attribute):
            if self._in_message and function.attr in _WORDS:
                function.value = self.visit(function.value)
                return node
            if isinstance(function.value, ast.Name) and function.value.id.startswith(RUNTIME):
                return node
            name = at(ast.Constant(self._private(function.attr)), function)
            line = function.end_lineno or 0
            target = self._call("method", function, self.visit(function.value), name)
        elif isinstance(function, ast.Name):
            target = function
            if function.id in self.guarded:
                target = self._call("read", function, function)
        else:
            target = self.visit(function)
        call = self._call("call", node, target, *node.args, line=line)
        call.keywords = node.keywords
        return call

    def visit_Starred(self, node: ast.Starred) -> Any:
        node.value = self.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            node.value = self._call("spread", node, node.value)
        return node

    # --- text

    def message(self, node: ast.expr) -> Any:
        """The error of a `raise`, or the message of an `assert`."""
        before, self._in_message = self._in_message, True
        made = self.visit(node)
        self._in_message = before
        return made

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        self.generic_visit(node)
        if not self._in_message:
            node.value = self._call("formatted", node.value, node.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        if text and isinstance(node.op, ast.Mod) and not self._in_message:
            node.right = self._call("formatted", node.right, node.right)
        return node

    # --- tests

    def test(self, node: ast.expr) -> Any:
        """An expression of which only the truth is needed."""
        _mark(node)
        return self.visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return self._call("not_", node, self.test(node.operand))
        node.operand = self.visit(node.operand)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """`(end(b) if begin(a) else held())`: b is reached only if it matters, or by a program."""
        word = "and" if isinstance(node.op, ast.And) else "or"
        given = [stored([value]) & self.guarded for value in node.values]
        names: set[str] = set()
        result = self.visit(node.values[-1])
        for number in reversed(range(len(node.values) - 1)):
            value = node.values[number]
            # Names that the right side gives values to; a program may not reach it.
            names |= given[number + 1]
            before = at(names_now(names), value)
            begin = self._call(f"begin_{word}", value, self.visit(value), before)
            test = at(ast.Constant(hasattr(node, "test")), node)
            now = at(names_now(names), node)
            end: ast.expr = self._call(f"end_{word}", node, result, test, now)
            end = self._renamed(node, end, names)
            result = self._if(node, begin, end, self._call("held", node))
        return result

    def _renamed(self, node: ast.expr, end: ast.expr, names: set[str]) -> ast.expr:
        """The end of a conditional expression, after which the names get their merged values."""
        if not names:
            return end
        made = at(ast.Subscript(ast.Tuple([], ast.Load()), ast.Constant(0), ast.Load()), node)
        made.value.elts = [end]
        for name in sorted(names):
            target = at(ast.Name(name, ast.Store()), node)
            again = ast.NamedExpr(target, self._call("held", node))
            made.value.elts.append(ast.copy_location(again, node))
        return made  # type: ignore[no-any-return]

    def _if(self, like: ast.AST, test: ast.expr, yes: ast.expr, no: ast.expr) -> ast.expr:
        made = at(ast.IfExp(ast.Constant(0), ast.Constant(0), ast.Constant(0)), like)
        made.test, made.body, made.orelse = test, yes, no
        return made

    def visit_Compare(self, node: ast.Compare) -> Any:
        given = [stored([each]) & self.guarded for each in node.comparators]
        node.left = self.visit(node.left)
        node.comparators = [self.visit(each) for each in node.comparators]
        signs = [at(ast.Constant(_SIGNS[type(op)]), node) for op in node.ops]
        if len(signs) == 1:
            if isinstance(node.ops[0], _PLAIN):
                return node
            return self._call("compare", node, node.left, signs[0], node.comparators[0])
        # a < b < c is (a < b) and (b < c), with b kept between them.
        left = self._call("left", node)
        result: ast.expr = self._call("compare", node, left, signs[-1], node.comparators[-1])
        names: set[str] = set()
        for number in reversed(range(len(signs) - 1)):
            names |= given[number + 1]
            now = [at(names_now(names), node) for _ in range(2)]
            left = node.left if number == 0 else self._call("left", node)
            right = node.comparators[number]
            begin = self._call("begin_chain", node, left, signs[number], right, now[0])
            end = self._call("end_and", node, result, at(ast.Constant(True), node), now[1])
            end = self._renamed(node, end, names)
            result = self._if(node, begin, end, self._call("end_chain", node))
        return result

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        names = sorted(stored([node.body, node.orelse]) & self.guarded)
        now = [at(names_now(set(names)), node) for _ in range(3)]
        begin = self._call("choose", node, self.test(node.test), now[0])
        yes = self._call("yes", node.body, self.visit(node.body), now[1])
        no = self._call("no", node.orelse, self.visit(node.orelse), now[2])
        first = self._if(node, begin, yes, at(ast.Constant(None), node))
        second = self._if(node, self._call("otherwise", node), no, at(ast.Constant(None), node))
        last = ast.Constant(2 + 2 * len(names))
        made = at(ast.Subscript(ast.Tuple([], ast.Load()), last, ast.Load()), node)
        named = [self._named(node, names) for _ in range(2)]
        made.value.elts = [first, *named[0], second, *named[1], self._call("chosen", node)]
        return made

    def _named(self, node: ast.expr, names: list[str]) -> list[ast.expr]:
        """Sets the names to their values after a side of a conditional expression."""
        out: list[ast.expr] = []
        for number, name in enumerate(names):
            value = at(ast.Name(name, ast.Load()), node)
            call = self._call("named", node, at(ast.Constant(number), node), value)
            target = at(ast.Name(name, ast.Store()), node)
            out.append(ast.copy_location(ast.NamedExpr(target, call), node))
        return out

    # --- displays and comprehensions

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        node.iter = self._call("items", node.iter, self.visit(node.iter))
        node.target = self.visit(node.target)
        node.ifs = [self._call("plain", each, self.visit(each)) for each in node.ifs]
        return node

    def _born(self, node: Any) -> Any:
        self.generic_visit(node)
        if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            return node
        return self._call("born", node, node)

    visit_List = visit_Dict = visit_Set = _born
    visit_ListComp = visit_DictComp = visit_SetComp = _born


def _mark(node: ast.expr) -> None:
    if isinstance(node, ast.BoolOp):
        node.test = True  # type: ignore[attr-defined]
        for value in node.values:
            _mark(value)


def names_now(names: set[str]) -> ast.expr:
    """A dict of the names and their values."""
    every = sorted(names)
    return ast.Dict(
        [ast.Constant(name) for name in every], [ast.Name(name, ast.Load()) for name in every]
    )
