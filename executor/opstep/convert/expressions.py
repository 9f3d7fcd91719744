"""Expressions that mean something else for a tensor: see `rewrite`."""

from __future__ import annotations

import ast
from typing import Any

from opstep.convert.jumps import RUNTIME, at

# They look at the frame that calls them.
_OF_THE_FRAME = {"super", "locals", "globals", "eval", "exec", "vars", "dir"}

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
        # Names of the function; those of them that may have no value.
        self.locals: set[str] = set()
        self.guarded: set[str] = set()

    def _call(self, name: str, like: ast.AST, *args: ast.expr, line: int = 0) -> ast.Call:
        """On the first line of `like`, or on that line."""
        function = ast.Attribute(ast.Name(RUNTIME, ast.Load()), name, ast.Load())
        call = at(ast.Call(function, [], []), like, line)
        call.args = list(args)
        return call

    def _private(self, name: str) -> str:
        """`__name` as it is called inside of a class."""
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
        if isinstance(function, ast.Attribute):
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

    # --- tests

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        node.operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return self._call("not_", node, node.operand)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """`(end(b) if begin(a) else held())`: b is reached only if it matters, or by a program."""
        word = "and" if isinstance(node.op, ast.And) else "or"
        result = self.visit(node.values[-1])
        for value in reversed(node.values[:-1]):
            begin = self._call(f"begin_{word}", value, self.visit(value))
            end = self._call(f"end_{word}", node, result)
            result = self._if(node, begin, end, self._call("held", node))
        return result

    def _if(self, like: ast.AST, test: ast.expr, yes: ast.expr, no: ast.expr) -> ast.expr:
        made = at(ast.IfExp(ast.Constant(0), ast.Constant(0), ast.Constant(0)), like)
        made.test, made.body, made.orelse = test, yes, no
        return made

    def visit_Compare(self, node: ast.Compare) -> Any:
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
        for number in reversed(range(len(signs) - 1)):
            left = node.left if number == 0 else self._call("left", node)
            right = node.comparators[number]
            begin = self._call("begin_chain", node, left, signs[number], right)
            end = self._call("end_and", node, result)
            result = self._if(node, begin, end, self._call("end_chain", node))
        return result

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        begin = self._call("choose", node, self.visit(node.test))
        yes = self._call("yes", node.body, self.visit(node.body))
        no = self._call("no", node.orelse, self.visit(node.orelse))
        first = self._if(node, begin, yes, at(ast.Constant(None), node))
        second = self._if(node, self._call("otherwise", node), no, at(ast.Constant(None), node))
        made = at(ast.Subscript(ast.Tuple([], ast.Load()), ast.Constant(2), ast.Load()), node)
        made.value.elts = [first, second, self._call("chosen", node)]
        return made

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
