"""Values as the protocol's variables: text, type, children by handle, bytes by reference."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from opstep_server import expr, values
from opstep_server.dap.protocol import types
from opstep_server.dap.stops import Child, ListRef, MemoryRef, ScopeRef, Stop, TensorRef
from opstep_server.wire import debug_pb2 as pb, program_pb2

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

# A variable's name that the expression language reads as that name.
_TYPABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
# Texts that can be indexed without parentheses around them.
_POSTFIX = re.compile(r"[\w.]+(\[[^][]*\]|\([^()]*\))*")


def typed_name(variable: str, taken: Collection[str] = ()) -> str:
    """The variable as text of an expression; `taken`: see `taken_names`."""
    typable = _TYPABLE.fullmatch(variable) and variable not in taken
    return variable if typable else f'var("{variable}")'


def taken_names(names: pb.Names) -> frozenset[str]:
    """Names that mean another variable in a frame's Python code than in the program."""
    return frozenset(each.name for each in names.python if each.variable != each.name)


def indexable(text: str) -> str:
    return text if _POSTFIX.fullmatch(text) else f"({text})"


def element_expr(whole: pb.Expr, position: int) -> pb.Expr:
    at = pb.Expr.Subscript(index=pb.Expr(i=position))
    return pb.Expr(index=pb.Expr.Index(value=whole, subscripts=[at]))


def slice_expr(whole: pb.Expr, start: int, stop: int) -> pb.Expr:
    part = pb.Expr.Range(start=pb.Expr(i=start), stop=pb.Expr(i=stop))
    rows = pb.Expr.Subscript(range=part)
    return pb.Expr(index=pb.Expr.Index(value=whole, subscripts=[rows]))


class Variables:
    def __init__(self, session: AdapterSession) -> None:
        self._session = session

    def named(
        self,
        ref: ScopeRef,
        entry: pb.NamedValue,
        hex: bool,
        taken: Collection[str],
        python: Mapping[str, str],
    ) -> types.Variable:
        """A row of a scope, which remembers its meaning; `python`: names that slots hide."""
        name, variable = entry.name, entry.variable
        child = Child(pb.Expr(name=name), name, "")
        if variable:
            if variable != name:
                name = f"{name} ({variable})"
            if variable in python:
                name += f" (Python's {python[variable]})"
            child = Child(expr.variable(variable), typed_name(variable, taken), variable)
        ref.children[name] = child
        shown = self.value(ref.stop, ref.frame, entry.value, child.expr, child.text, hex=hex)
        if not variable:
            shown["presentationHint"] = {"attributes": ["readOnly"]}
        return {**shown, "name": name}

    def element(
        self,
        ref: TensorRef,
        position: int,
        value: pb.Value,
        dtype: program_pb2.DataType | None,
    ) -> types.Variable:
        text = f"{ref.text}[{position}]" if ref.text else ""
        expression = element_expr(ref.expr, position)
        shown = self.value(
            ref.stop, ref.frame, value, expression, text, dtype=dtype, passing=ref.passing
        )
        return {**shown, "name": f"[{position}]"}

    def sequence(
        self, ref: TensorRef, position: int, child: Child, value: pb.Value, hex: bool
    ) -> types.Variable:
        """A sequence of a ragged variable; `ref` remembers its rows."""
        name = f"[{position}]"
        ref.parts[name] = child
        shown = self.value(
            ref.stop, ref.frame, value, child.expr, child.text, hex=hex, passing=ref.passing
        )
        return {**shown, "name": name}

    def value(
        self,
        stop: Stop,
        frame: int,
        value: pb.Value,
        expression: pb.Expr,
        text: str,
        *,
        hex: bool = False,
        dtype: program_pb2.DataType | None = None,
        passing: bool = False,
    ) -> types.Variable:
        """The common fields of a variable, an evaluation's result and a new value.

        A `passing` value belongs to no row of a scope and is kept for a while only.
        """
        kind = value.WhichOneof("kind")
        if hex and dtype is None:
            dtype = program_pb2.FLOAT64 if kind == "f" else program_pb2.INT64
        shown: types.Variable = {
            "name": "",
            "value": values.describe(value, dtype),
            "variablesReference": 0,
        }
        thread_id, stops = stop.thread.id, self._session.stops
        if text and kind != "absent":
            shown["evaluateName"] = text
        if self._session.client.variable_types and (type_name := _type_name(value)):
            shown["type"] = type_name
        if kind == "tensor":
            shown["memoryReference"] = stops.remember(MemoryRef(stop, frame, expression), passing)
        if kind == "tensor" and value.tensor.dims and 0 not in value.tensor.dims:
            length, offsets = value.tensor.dims[0], ""
            if value.tensor.sequences:
                inner = value.tensor.sequences[-1]
                length, offsets = inner.count, inner.offsets
            ref = TensorRef(stop, frame, expression, text, length, offsets, passing)
            shown["variablesReference"] = stops.variables.add(thread_id, ref, passing)
            shown["indexedVariables"] = length
        elif kind == "list" and value.list.values:
            items = ListRef(tuple(value.list.values))
            shown["variablesReference"] = stops.variables.add(thread_id, items, passing)
            shown["indexedVariables"] = len(value.list.values)
        return shown


def _type_name(value: pb.Value) -> str:
    kind = value.WhichOneof("kind")
    if kind == "tensor":
        return values.tensor_type(value.tensor)
    return {"b": "bool", "i": "int", "f": "float", "s": "str", "list": "list"}.get(kind or "", "")
