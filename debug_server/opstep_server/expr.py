"""The parser of the expression language: text to the wire's `Expr`, every node checked.

Nothing is evaluated here, and only the nodes named below are accepted.
"""

from __future__ import annotations

import ast
import difflib
import re
import warnings
from collections.abc import Iterable

from google.protobuf.message import Message

from opstep_server.functions import FUNCTIONS, Function
from opstep_server.model import DebuggerError
from opstep_server.wire import debug_pb2 as pb

MAX_LENGTH = 4000
MAX_DEPTH = 40
MAX_NODES = 500

_UNARY = {
    ast.USub: pb.Expr.Unary.NEGATE,
    ast.UAdd: pb.Expr.Unary.PLUS,
    ast.Not: pb.Expr.Unary.NOT,
    ast.Invert: pb.Expr.Unary.INVERT,
}
_BINARY = {
    ast.Add: pb.Expr.Binary.ADD,
    ast.Sub: pb.Expr.Binary.SUBTRACT,
    ast.Mult: pb.Expr.Binary.MULTIPLY,
    ast.Div: pb.Expr.Binary.DIVIDE,
    ast.FloorDiv: pb.Expr.Binary.FLOOR_DIVIDE,
    ast.Mod: pb.Expr.Binary.MODULO,
    ast.Pow: pb.Expr.Binary.POWER,
    ast.MatMult: pb.Expr.Binary.MATMUL,
    ast.BitAnd: pb.Expr.Binary.AND,
    ast.BitOr: pb.Expr.Binary.OR,
    ast.BitXor: pb.Expr.Binary.XOR,
}
_COMPARE = {
    ast.Eq: pb.Expr.Compare.EQUAL,
    ast.NotEq: pb.Expr.Compare.NOT_EQUAL,
    ast.Lt: pb.Expr.Compare.LESS,
    ast.LtE: pb.Expr.Compare.LESS_EQUAL,
    ast.Gt: pb.Expr.Compare.GREATER,
    ast.GtE: pb.Expr.Compare.GREATER_EQUAL,
}
# What people may try, and what to write instead.
_UNSUPPORTED: dict[type[ast.AST], tuple[str, str]] = {
    ast.IfExp: ("'a if c else b' is not supported", "use where(c, a, b)"),
    ast.Lambda: ("lambda is not supported", ""),
    ast.ListComp: (
        "comprehensions are not supported",
        "functions take whole tensors: isnan(x).any()",
    ),
    ast.SetComp: ("comprehensions are not supported", ""),
    ast.DictComp: ("comprehensions are not supported", ""),
    ast.GeneratorExp: ("comprehensions are not supported", "functions take whole tensors: max(x)"),
    ast.JoinedStr: ("f-strings are not supported", ""),
    ast.Dict: ("dictionaries are not supported", ""),
    ast.Set: ("sets are not supported", ""),
    ast.NamedExpr: ("assignment is not supported", "compare with =="),
    ast.Await: ("await is not supported", ""),
    ast.Yield: ("yield is not supported", ""),
    ast.Starred: ("* before an argument is not supported", ""),
    ast.LShift: ("<< is not supported", ""),
    ast.RShift: (">> is not supported", ""),
    ast.Is: ("'is' is not supported", "use =="),
    ast.IsNot: ("'is not' is not supported", "use !="),
    ast.In: ("'in' is not supported", "use (x == value).any()"),
    ast.NotIn: ("'not in' is not supported", "use (x != value).all()"),
}
_MODULES = ("np", "numpy")
# Arguments that must be given, by position or by these names.
_NEEDED = ("q", "k", "shape")


class ExprError(DebuggerError):
    """One sentence; `column` counts characters from 1."""

    def __init__(self, what: str, column: int, hint: str = "") -> None:
        super().__init__(f"{what} (column {column})" + (f": {hint}" if hint else ""))
        self.column = column


def parse(text: str) -> pb.Expr:
    if len(text) > MAX_LENGTH:
        raise ExprError(f"the expression is longer than {MAX_LENGTH} characters", MAX_LENGTH + 1)
    source = _one_line(text)
    indent = len(source) - len(source.lstrip())
    source = source.strip()
    if not source:
        raise ExprError("the expression is empty", 1, "write a variable's name, or out.mean()")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, mode="eval")
    except SyntaxError as error:
        raise _syntax_error(error, source, indent) from None
    except (RecursionError, MemoryError):
        raise ExprError("the expression is nested too deeply", 1) from None
    except ValueError:
        raise ExprError("the expression is not valid text", 1) from None
    return _Builder(source, indent).build(tree.body, 1)


def split(text: str) -> list[str]:
    """`a, b[0, 1]` to its two expressions, both checked."""
    whole = parse(text)
    source = text.strip()
    tree = ast.parse(_one_line(source), mode="eval").body
    if whole.WhichOneof("node") != "list" or not isinstance(tree, ast.Tuple) or not tree.elts:
        return [source]
    return [_plain(ast.get_source_segment(_one_line(source), part) or source) for part in tree.elts]


def names(expression: pb.Expr) -> set[str]:
    """The variables that the expression mentions, attribute chains with their dots."""
    found: set[str] = set()
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        kind = node.WhichOneof("node")
        if kind in ("name", "attribute"):
            dotted = dotted_name(node)
            if dotted:
                found.add(dotted)
            else:
                waiting.append(node.attribute.value)
        elif kind == "unary":
            waiting.append(node.unary.value)
        elif kind == "binary":
            waiting += [node.binary.left, node.binary.right]
        elif kind == "compare":
            waiting += [node.compare.first, *node.compare.rest]
        elif kind == "logic":
            waiting += node.logic.values
        elif kind == "call":
            waiting += [*node.call.args, *(keyword.value for keyword in node.call.keywords)]
        elif kind == "list":
            waiting += node.list.values
        elif kind == "index":
            waiting.append(node.index.value)
            for subscript in node.index.subscripts:
                if subscript.HasField("index"):
                    waiting.append(subscript.index)
                elif subscript.HasField("range"):
                    r = subscript.range
                    waiting += [e for e in (r.start, r.stop, r.step) if e.WhichOneof("node")]
    return found


def variable(name: str) -> pb.Expr:
    """var("name"): the variable, also where an op's slot has the same name."""
    return pb.Expr(call=pb.Expr.Call(function="var", args=[pb.Expr(s=name)]))


def replace(expression: pb.Expr, name: str, by: pb.Expr) -> None:
    """Replaces each use of the name in the expression by `by`."""
    waiting: list[Message] = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, pb.Expr) and dotted_name(node) == name:
            node.CopyFrom(by)
            continue
        for field, value in node.ListFields():
            if field.message_type is not None:
                waiting += [value] if isinstance(value, Message) else value


def dotted_name(node: pb.Expr) -> str | None:
    """`fc_0.w` for a chain of attributes on a name; None for anything else."""
    parts: list[str] = []
    while node.WhichOneof("node") == "attribute":
        parts.append(node.attribute.name)
        node = node.attribute.value
    if node.WhichOneof("node") != "name":
        return None
    return ".".join([node.name, *reversed(parts)])


class _Builder:
    def __init__(self, source: str, indent: int) -> None:
        self._source = source
        self._indent = indent
        self._nodes = 0

    def build(self, node: ast.expr, depth: int) -> pb.Expr:
        self._nodes += 1
        if depth > MAX_DEPTH:
            raise self._error(node, f"the expression is nested deeper than {MAX_DEPTH}")
        if self._nodes > MAX_NODES:
            raise self._error(node, f"the expression has more than {MAX_NODES} parts")
        deeper = depth + 1
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Name):
            return pb.Expr(name=node.id)
        if isinstance(node, ast.Attribute):
            value = self.build(node.value, deeper)
            return pb.Expr(attribute=pb.Expr.Attribute(value=value, name=_plain(node.attr)))
        if isinstance(node, ast.UnaryOp):
            unary = pb.Expr.Unary(op=_UNARY[type(node.op)], value=self.build(node.operand, deeper))
            return pb.Expr(unary=unary)
        if isinstance(node, ast.BinOp):
            if type(node.op) not in _BINARY:
                raise self._unsupported(node, node.op)
            if isinstance(node.right, ast.Name) and node.right.id == "grad":
                return self._gradient(node, deeper)
            return pb.Expr(
                binary=pb.Expr.Binary(
                    op=_BINARY[type(node.op)],
                    left=self.build(node.left, deeper),
                    right=self.build(node.right, deeper),
                )
            )
        if isinstance(node, ast.Compare):
            return self._compare(node, deeper)
        if isinstance(node, ast.BoolOp):
            values = [self.build(value, deeper) for value in node.values]
            is_or = isinstance(node.op, ast.Or)
            return pb.Expr(logic=pb.Expr.Logic(is_or=is_or, values=values))
        if isinstance(node, ast.Call):
            return self._call(node, deeper)
        if isinstance(node, ast.Subscript):
            return self._index(node, deeper)
        if isinstance(node, (ast.Tuple, ast.List)):
            values = [self.build(value, deeper) for value in node.elts]
            return pb.Expr(list=pb.ExprList(values=values))
        raise self._unsupported(node, node)

    def _constant(self, node: ast.Constant) -> pb.Expr:
        value = node.value
        if isinstance(value, bool):
            return pb.Expr(b=value)
        if isinstance(value, int):
            if value >= 1 << 63:
                raise self._error(node, "the number does not fit into 64 bits", "write it as 1e20")
            return pb.Expr(i=value)
        if isinstance(value, float):
            return pb.Expr(f=value)
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise self._error(node, "the string is not valid text") from None
            return pb.Expr(s=value)
        if value is None:
            raise self._error(node, "None is not supported")
        if value is ...:
            raise self._error(node, "... is supported only between [ and ]")
        raise self._error(node, f"{type(value).__name__} constants are not supported")

    def _gradient(self, node: ast.BinOp, depth: int) -> pb.Expr:
        """w@grad is the name of a gradient; Python reads it as a matrix product."""
        name = dotted_name(self.build(node.left, depth))
        if not isinstance(node.op, ast.MatMult) or name is None:
            raise self._error(
                node.right, "grad is a function", 'write grad(w), or var("w@grad") for the name'
            )
        return pb.Expr(name=f"{name}@grad")

    def _compare(self, node: ast.Compare, depth: int) -> pb.Expr:
        for operator in node.ops:
            if type(operator) not in _COMPARE:
                raise self._unsupported(node, operator)
        return pb.Expr(
            compare=pb.Expr.Compare(
                first=self.build(node.left, depth),
                ops=[_COMPARE[type(operator)] for operator in node.ops],
                rest=[self.build(right, depth) for right in node.comparators],
            )
        )

    def _call(self, node: ast.Call, depth: int) -> pb.Expr:
        arguments = list(node.args)
        if isinstance(node.func, ast.Name):
            name = node.func.id
        elif isinstance(node.func, ast.Attribute):
            name = node.func.attr
            on = node.func.value
            if not (isinstance(on, ast.Name) and on.id in _MODULES):
                arguments.insert(0, on)
        else:
            raise self._error(node, "only functions that have a name can be called")
        function = FUNCTIONS.get(name)
        if function is None:
            raise self._error(node, f"there is no function '{name}'", suggest(name, FUNCTIONS))
        if name == "reshape" and len(arguments) > 2:
            # x.reshape(2, 3) is x.reshape((2, 3)).
            arguments[1:] = [ast.copy_location(ast.Tuple(arguments[1:], ast.Load()), node)]
        given = len(arguments) + sum(each.arg in _NEEDED for each in node.keywords)
        self._check_arguments(node, function, given)
        if name == "grad" or (name == "var" and _is_text(arguments[0])):
            return self._named(node, function, arguments[0], depth)
        keywords = []
        for keyword in node.keywords:
            value = self.build(keyword.value, depth)
            keywords.append(pb.Expr.Keyword(name=keyword.arg or "", value=value))
        args = [self.build(argument, depth) for argument in arguments]
        return pb.Expr(call=pb.Expr.Call(function=name, args=args, keywords=keywords))

    def _check_arguments(self, node: ast.Call, function: Function, given: int) -> None:
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                raise self._unsupported(argument, argument)
        if not function.least <= given <= function.most:
            wanted = str(function.least)
            if function.most > function.least:
                wanted += f" or {function.most}"
            plural = "" if wanted == "1" else "s"
            raise self._error(
                node,
                f"{function.name} takes {wanted} argument{plural}, not {given}",
                f"write {function.usage}",
            )
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self._error(keyword.value, "** before an argument is not supported")
            if keyword.arg not in function.keywords:
                hint = suggest(keyword.arg, function.keywords) or f"write {function.usage}"
                raise self._error(keyword, f"{function.name} has no argument '{keyword.arg}'", hint)

    def _named(self, node: ast.Call, function: Function, of: ast.expr, depth: int) -> pb.Expr:
        """var("a") is the name a; grad(a) a call whose argument is always one name."""
        argument = self.build(of, depth)
        if argument.WhichOneof("node") == "s":
            name: str | None = argument.s
        elif function.name == "grad":
            name = dotted_name(argument)
        else:
            name = None
        if not name:
            wanted = "name" if function.name == "grad" else "name in quotes"
            raise self._error(
                of, f"{function.name} takes a variable's {wanted}", f"write {function.usage}"
            )
        if function.name == "var":
            # A name of the program, not of the Python code.
            return pb.Expr(call=pb.Expr.Call(function="var", args=[pb.Expr(s=name)]))
        return pb.Expr(call=pb.Expr.Call(function="grad", args=[pb.Expr(name=name)]))

    def _index(self, node: ast.Subscript, depth: int) -> pb.Expr:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not parts:
            raise self._error(node, "there is nothing between [ and ]")
        subscripts = [self._subscript(part, depth) for part in parts]
        value = self.build(node.value, depth)
        return pb.Expr(index=pb.Expr.Index(value=value, subscripts=subscripts))

    def _subscript(self, node: ast.expr, depth: int) -> pb.Expr.Subscript:
        if isinstance(node, ast.Constant) and node.value is ...:
            return pb.Expr.Subscript(ellipsis=True)
        if isinstance(node, ast.Slice):
            bounds = (node.lower, node.upper, node.step)
            start, stop, step = (None if b is None else self.build(b, depth) for b in bounds)
            return pb.Expr.Subscript(range=pb.Expr.Range(start=start, stop=stop, step=step))
        return pb.Expr.Subscript(index=self.build(node, depth))

    def _unsupported(self, at: ast.expr, node: ast.AST) -> ExprError:
        what, hint = _UNSUPPORTED.get(type(node), (f"{type(node).__name__} is not supported", ""))
        return self._error(at, what, hint)

    def _error(self, node: ast.expr | ast.keyword, what: str, hint: str = "") -> ExprError:
        return ExprError(what, _column(self._source, self._indent, node.col_offset), hint)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def suggest(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest names, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=4, cutoff=0.6)
    # At most a third of the letters may differ. Of equally near names, those with the same
    # first letter come first.
    far = {each: (_distance(name, each), each[:1] != name[:1]) for each in near}
    near = [each for each in near if far[each] == min(far.values())][:2]
    near = [each for each in near if far[each][0] <= max(1, (len(name) + 2) // 3)]
    return "did you mean " + " or ".join(f"'{n}'" for n in near) + "?" if near else ""


def _distance(a: str, b: str) -> int:
    """How many letters must be changed, added, left out or swapped with their neighbour; one for
    the rest of a name that begins so."""
    if len(a) > 2 and b.startswith(a):
        return 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        before, last, row = row, before, [i]
        for j, right in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (left != right)))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                row[j] = min(row[j], last[j - 2] + 1)
    return row[-1]


# Parts of module paths are often numbers: `layer1.0.conv1.weight`. Python reads such a name if
# letters take the place of those digits; each stays one character, so columns stay right.
_LETTERS = "".join(chr(0xA000 + digit) for digit in range(10))
_TO_LETTERS = str.maketrans("0123456789", _LETTERS)
_TO_DIGITS = str.maketrans(_LETTERS, "0123456789")
_STRING_OR_PATH = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|(?<![\w.])[^\W\d]\w*(?:\.\w+)*\.\d\w*(?:\.\w+)*"""
)


def _one_line(text: str) -> str:
    """The text as Python's parser takes it, character by character."""

    def replaced(match: re.Match[str]) -> str:
        if match[0][0] in "'\"":
            return match[0]
        parts = match[0].split(".")
        return ".".join(p.translate(_TO_LETTERS) if p[:1].isdigit() else p for p in parts)

    return _STRING_OR_PATH.sub(replaced, re.sub(r"[\n\r\f]", " ", text))


def _plain(text: str) -> str:
    """What `_one_line` was given."""
    return text.translate(_TO_DIGITS)


def _column(source: str, indent: int, byte_offset: int) -> int:
    before = source.encode("utf-8", "surrogatepass")[:byte_offset]
    return indent + len(before.decode("utf-8", "ignore")) + 1


# What people may know from other languages.
_FOREIGN = {"&": "write 'and'", "|": "write 'or'", "!": "write 'not'"}


def _syntax_error(error: SyntaxError, source: str, indent: int) -> ExprError:
    offset = error.offset or 0
    message = (error.msg or "invalid syntax").partition(" (detected at")[0].rstrip(".")
    message = message[:1].lower() + message[1:]
    if re.search(r"(?<![=!<>])=(?!=)", source):
        return ExprError("invalid syntax", indent + max(offset, 1), "compare with ==")
    if message.startswith("invalid syntax") and not 1 <= offset <= len(source):
        # Python gives no position for a missing part.
        return ExprError("the expression ends too early", indent + len(source) + 1)
    column = indent + min(max(offset, 1), len(source) + 1)
    hint = 'a name that Python cannot read is written var("w@grad")' if "@" in source else ""
    found = re.match(r"\w+|\S", source[offset - 1 :]) if offset else None
    if message.startswith("invalid syntax") and found:
        message = f"'{_plain(found[0])}' does not fit here"
        hint = _FOREIGN.get(found[0], hint)
    return ExprError(message, column, hint)
