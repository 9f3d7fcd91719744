"""What notebooks show of programs, models and variables: small tables. Everything is escaped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from opstep.variable import Parameter, Variable, type_text

if TYPE_CHECKING:
    from opstep.executor import Scope
    from opstep.machine import OutputModel
    from opstep.program import Operator, Program

# A notebook is no place for ten thousand rows: print(program) has them all.
_ROWS = 200


def program_table(program: Program) -> str:
    """One op a row, in the order in which they were made."""
    ops = sorted((op for block in program.blocks for op in block.ops), key=lambda op: op.id)
    rows = [_op_row(op) for op in ops[:_ROWS]]
    caption = f"program {program.name}: {_count(len(ops), 'op')}"
    if len(ops) > _ROWS:
        caption += f", of which {_ROWS} are shown"
    return _table(caption, ["#", "op", "takes", "gives", "line"], rows)


def model_table(model: OutputModel) -> str:
    """What the model is fed and gives, and its parameters with their values' mean and spread."""
    block = model.program.global_block()
    rows = [["fed", name, type_text(block.var(name)), ""] for name in model.feeds]
    for parameter in model.parameters:
        kind = "parameter" if parameter.trainable else "kept"
        value = _value_text(parameter, model.scope)
        rows.append([kind, parameter.name, type_text(parameter), value])
    rows.append(["output", model.name, type_text(model.output), ""])
    return _table(f"model {model.name}", ["", "name", "type", "value"], rows)


def variable_table(variable: Variable, scope: Scope) -> str:
    """What is known of the variable, and of its value if the scope keeps one."""
    rows = [["type", type_text(variable)]]
    if isinstance(variable, Parameter) and not variable.trainable:
        rows.append(["trainable", "no"])
    writer = variable.writer
    if writer is not None:
        rows.append(["made by", f"#{writer.id} {writer.name} ({writer.type})"])
        rows.append(["line", _line(writer)])
    value = _value_text(variable, scope)
    if value:
        rows.append(["value", value])
    kind = type(variable).__name__.lower()
    return _table(f"{kind} {variable.name}", [], rows)


def _op_row(op: Operator) -> list[str]:
    block = op.block
    where = f"block {block.index}: " if block.index else ""
    outputs = [
        f"{name} {type_text(block.var(name))}" for names in op.outputs.values() for name in names
    ]
    inputs = [name for names in op.inputs.values() for name in names]
    return [str(op.id), f"{where}{op.name}", ", ".join(inputs), ", ".join(outputs), _line(op)]


def _line(op: Operator) -> str:
    stack = op.stack
    return f"{os.path.basename(stack[0].file)}:{stack[0].line}" if stack else ""


def _value_text(variable: Variable, scope: Scope) -> str:
    if not variable.persistable or variable.name not in scope:
        return ""
    value = scope.find(variable)
    if value.size == 1:
        return str(value.reshape(-1)[0])
    if not value.size:
        return "no elements"
    numbers = value.astype(np.float64)
    with np.errstate(all="ignore"):  # an Inf has no spread
        low, high = numbers.min(), numbers.max()
        return f"mean {numbers.mean():.4g} std {numbers.std():.4g} [{low:.4g}, {high:.4g}]"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"<table><caption>{escape(caption)}</caption>"]
    if head:
        lines.append(_row("th", head))
    lines += [_row("td", row) for row in rows]
    return "\n".join([*lines, "</table>"])


def _row(tag: str, cells: Sequence[str]) -> str:
    style = ' style="text-align:left"'
    return "<tr>" + "".join(f"<{tag}{style}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
