"""Python's control flow, written as calls that decide at run time whether a tensor is involved.

Everything stays in the function's own frame and on its own lines: no branch or body becomes a
function. An `if` is a loop that goes through the branch that holds, or through both when a program
has to choose:

    branch = _opstep.branch(test, names, line, (a, b))
    while branch.more():
        if branch.side: ...
        else: ...
        a, b = branch.done((a, b))
"""

from __future__ import annotations

import ast
from typing import Any

from opstep.convert.expressions import Expressions, names_now
from opstep.convert.jumps import RUNTIME, at, without_jumps
from opstep.convert.names import arguments, contains_yield, stored, written_first

_SPLIT = (ast.If, ast.For, ast.While, ast.BoolOp, ast.IfExp, ast.Compare)


def rewrite(node: ast.FunctionDef | ast.Lambda, owner: str) -> None:
    """Rewrites in place. `owner` is the class whose private names it uses."""
    Statements(owner).function(node)
    ast.fix_missing_locations(node)


class Statements(Expressions):
    """Rewrites statements; expressions as in `Expressions`."""

    def __init__(self, owner: str) -> None:
        super().__init__(owner)
        self._made = 0

    # --- functions

    def function(self, node: ast.FunctionDef | ast.Lambda) -> None:
        outside = self.locals, self.guarded
        if isinstance(node, ast.Lambda):
            self.guarded = self.guarded - arguments(node.args)
            self.locals = self.locals | arguments(node.args)
            node.body = self.visit(node.body)
        else:
            head, body = _docstring(node.body)
            body = without_jumps(body) if body else body
            own = arguments(node.args)
            assigned = _assigned_in_parts(body)
            # Names that a branch or a loop may leave without a value, or without one for a program.
            self.guarded = (self.guarded - own - stored(body)) | assigned
            self.locals = own | stored(body)
            unset = [self._stmt(f"{n} = {RUNTIME}.unset({n!r})", node) for n in assigned - own]
            body = self.block(body)
            first = body[0] if body else node
            for statement in unset:
                at(statement, first)
            node.body = head + unset + body or [ast.Pass()]
        self.locals, self.guarded = outside

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in statements:
            made = self.visit(statement)
            out += made if isinstance(made, list) else [made]
        return out

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        node.args.defaults = [self.visit(each) for each in node.args.defaults]
        node.args.kw_defaults = [each and self.visit(each) for each in node.args.kw_defaults]
        if not contains_yield(node):
            self.function(node)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        node.args.defaults = [self.visit(each) for each in node.args.defaults]
        self.function(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return node

    # --- branches and loops

    def visit_If(self, node: ast.If) -> Any:
        names = sorted(stored([*node.body, *node.orelse]) | stored([node.test]))
        part = self._temp()
        test = self.test(node.test)
        begin = self._stmt(
            f"{part} = {RUNTIME}.branch(0, {tuple(names)!r}, {node.lineno}, {_tuple(names)})", node
        )
        begin.value.args[0] = test  # type: ignore[attr-defined]
        loop = self._stmt(
            f"while {part}.more():\n if {part}.side: pass\n else: pass\n"
            f" {_assign(names)}{part}.done({_tuple(names)})",
            node,
        )
        assert isinstance(loop, ast.While)
        choice = loop.body[0]
        assert isinstance(choice, ast.If)
        choice.body = self.block(node.body)
        choice.orelse = self.block(node.orelse)
        return [begin, loop]

    def visit_While(self, node: ast.While) -> Any:
        return self._loop(node, f"{RUNTIME}.loop()", [], self.test(node.test))

    def visit_For(self, node: ast.For) -> Any:
        part = self._temp()
        item = self._stmt(f"_ = {part}.item()", node.target)
        item.targets = [node.target]  # type: ignore[attr-defined]
        if isinstance(node.target, ast.Tuple | ast.List):
            spread = self._call("spread", node.target, item.value)  # type: ignore[attr-defined]
            item.value = spread  # type: ignore[attr-defined]
        free = getattr(node, "free", None)
        test = self.visit(free) if free is not None else at(ast.Constant(True), node)
        made = self._loop(node, f"{RUNTIME}.each(0)", [item], test, part)
        made[0].value.args[0] = self.visit(node.iter)
        return made

    def _loop(
        self,
        node: ast.For | ast.While,
        start: str,
        first: list[ast.stmt],
        test: ast.expr,
        part: str = "",
    ) -> list[Any]:
        part = part or self._temp()
        test_names = stored([node.test]) if isinstance(node, ast.While) else set()
        names = sorted(stored([*first, *node.body]) | test_names)
        fresh = written_first([*first, *_inside_guard(node)], names)
        begin = self._stmt(f"{part} = {start}", node)
        loop = self._stmt(
            f"while {part}.go(0):\n {_assign(names)}{part}.enter({_tuple(names)}, "
            f"{tuple(names)!r}, {tuple(sorted(fresh))!r}, {node.lineno})\n pass\n"
            f" {_assign(names)}{part}.leave({_tuple(names)})",
            node,
        )
        assert isinstance(loop, ast.While) and isinstance(loop.test, ast.Call)
        loop.test.args = [test, at(names_now(test_names), node)]
        loop.body[1:2] = self.block([*first, *node.body])
        end = self._stmt(f"{_assign(names)}{part}.end({_tuple(names)})", node)
        return [begin, loop, end]

    # --- other statements

    def visit_Assign(self, node: ast.Assign) -> Any:
        node.value = self.visit(node.value)
        if any(isinstance(target, ast.Tuple | ast.List) for target in node.targets):
            node.value = self._call("spread", node, node.value)
        node.targets = [self.visit(target) for target in node.targets]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        node.value = node.value and self.visit(node.value)
        node.target = self.visit(node.target)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        node.value = self.visit(node.value)
        node.target = self.visit(node.target)
        if isinstance(node.target, ast.Name):
            return [self._stmt(f"{RUNTIME}.grows({node.target.id})", node), node]
        return node

    def visit_Delete(self, node: ast.Delete) -> Any:
        out: list[ast.stmt] = []
        for target in node.targets:
            if isinstance(target, ast.Name) and target.id in self.guarded:
                name = target.id
                out.append(self._stmt(f"{name} = {RUNTIME}.deleted({name})", node))
            else:
                out.append(ast.copy_location(ast.Delete([self.visit(target)]), node))
        return out

    def visit_With(self, node: ast.With) -> Any:
        for item in node.items:
            inner = self.visit(item.context_expr)
            item.context_expr = self._call("manager", item.context_expr, inner)
        node.body = self.block(node.body)
        return node

    def visit_Try(self, node: ast.Try) -> Any:
        for name in ("body", "orelse", "finalbody"):
            setattr(node, name, self.block(getattr(node, name)))
        for handler in node.handlers:
            handler.type = handler.type and self.visit(handler.type)
            handler.body = self.block(handler.body)
        if not node.handlers:
            return node
        part = self._temp()
        begin = self._stmt(f"{part} = {RUNTIME}.attempt()", node)
        return [begin, node, self._stmt(f"{part}.end({node.lineno})", node)]

    def visit_Match(self, node: ast.Match) -> Any:
        node.subject = self._call("subject", node.subject, self.visit(node.subject))
        for case in node.cases:
            case.guard = case.guard and self._call("plain", case.guard, self.visit(case.guard))
            case.body = self.block(case.body)
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        part, test = self._temp(), self.test(node.test)
        keep = self._stmt(f"{part} = 0", node)
        keep.value = test  # type: ignore[attr-defined]
        check = self._stmt(
            f"if {RUNTIME}.is_tensor({part}): {RUNTIME}.check({part}, '')\nelse: assert {part}",
            node,
        )
        assert isinstance(check, ast.If)
        if node.msg is not None:
            message = self.message(node.msg)
            check.body[0].value.args[1] = message  # type: ignore[attr-defined]
            check.orelse[0].msg = message  # type: ignore[attr-defined]
        return [keep, check]

    def visit_Raise(self, node: ast.Raise) -> Any:
        if node.exc is None:
            return node
        part = self._temp()
        keep = self._stmt(f"{part} = 0", node)
        keep.value = self.message(node.exc)  # type: ignore[attr-defined]
        raising = self._stmt(f"if not {RUNTIME}.fails({part}): raise {part}", node)
        assert isinstance(raising, ast.If)
        raising.body[0].cause = node.cause and self.visit(node.cause)  # type: ignore[attr-defined]
        return [keep, raising]

    # --- pieces

    def _temp(self) -> str:
        self._made += 1
        return f"{RUNTIME}_part_{self._made}"

    def _stmt(self, code: str, like: ast.AST) -> Any:
        return at(ast.parse(code).body[0], like)


def _docstring(body: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return body[:1], body[1:]
    return [], body


def _assigned_in_parts(body: list[ast.stmt]) -> set[str]:
    """Names that get values inside branches and loops."""
    names: set[str] = set()
    for statement in body:
        for node in _within(statement):
            if isinstance(node, _SPLIT):
                names |= stored([node])
    return names


def _within(node: ast.AST) -> list[ast.AST]:
    """The node and all nodes inside it, except inside its functions and classes."""
    found = [node]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            found += _within(child)
    return found


def _inside_guard(node: ast.For | ast.While) -> list[ast.stmt]:
    """A loop's body; the test of its flags lets the first turn through."""
    if hasattr(node, "free") and len(node.body) == 1 and isinstance(node.body[0], ast.If):
        return node.body[0].body
    return node.body


def _tuple(names: list[str]) -> str:
    return "(" + "".join(f"{name}, " for name in names) + ")"


def _assign(names: list[str]) -> str:
    return f"{_tuple(names)} = " if names else ""
