"""Notebook views of programs, models, variables and training objects: small tables, with pictures
of values. Everything is escaped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from opstep.pictures import describe, tensor_html
from opstep.ragged import Ragged
from opstep.show.canvas import count
from opstep.variable import Parameter, Variable, type_text

if TYPE_CHECKING:
    from opstep.executor import Scope
    from opstep.program import Operator, Program
    from opstep.train.machine import GradientMachine, OutputModel

# A notebook should not show ten thousand rows: print(program) has them all.
_ROWS = 200


class Html(str):
    """A cell that is HTML already."""


def program_table(program: Program) -> str:
    """One op a row, in the order in which they were made."""
    ops = sorted((op for block in program.blocks for op in block.ops), key=lambda op: op.id)
    caption = f"program {program.name}: {count(len(ops), 'op')}{_shown(len(ops))}"
    return table(caption, ["#", "op", "takes", "gives", "line"], map(_op_row, ops[:_ROWS]))


def model_table(model: OutputModel) -> str:
    """The model's feeds, its output, and its parameters with pictures of their values."""
    block = model.program.global_block()
    rows = [["fed", name, type_text(block.var(name)), "", ""] for name in model.feeds]
    for parameter in model.parameters[:_ROWS]:
        kind = "parameter" if parameter.trainable else "kept"
        rows.append(
            [kind, parameter.name, type_text(parameter), *_value_cells(parameter, model.scope)]
        )
    rows.append(["output", model.name, type_text(model.output), "", ""])
    caption = f"model {model.name}{_shown(len(model.parameters))}"
    return table(caption, ["", "name", "type", "value", ""], rows)


def machine_table(machine: GradientMachine) -> str:
    """The machine's feeds and models, and the gradients of its last `backward`."""
    block = machine.program.global_block()
    rows = [["fed", name, type_text(block.var(name)), "", ""] for name in machine.feeds]
    for feed, source in machine.connected.items():
        rows.append(["connected", f"{feed} = {source}", type_text(block.var(source)), "", ""])
    for model in machine.models:
        words = "differentiated" if model.name == machine.output else ""
        rows.append(["output", model.name, type_text(model.output), words, ""])
    for name, value in list(machine.gradients.items())[:_ROWS]:
        rows.append(["gradient", f"{name}@grad", array_type(value), *_cells(value)])
    covered = ", ".join(model.name for model in machine.models)
    caption = f"gradient machine for {covered}{_shown(len(machine.gradients))}"
    return table(caption, ["", "name", "type", "value", ""], rows)


def variable_table(variable: Variable, scope: Scope) -> str:
    """The facts about the variable, and about its value if the scope keeps one."""
    rows = [["type", type_text(variable)]]
    if isinstance(variable, Parameter) and not variable.trainable:
        rows.append(["trainable", "no"])
    writer = variable.writer
    if writer is not None:
        rows.append(["made by", f"#{writer.id} {writer.name} ({writer.type})"])
        rows.append(["line", _line(writer)])
    words, picture = _value_cells(variable, scope)
    if words:
        rows.append(["value", words])
    if picture:
        rows.append(["", picture])
    kind = type(variable).__name__.lower()
    return table(f"{kind} {variable.name}", [], rows)


def facts_table(caption: str, facts: Mapping[str, Any]) -> str:
    """Names and a fact about each."""
    return table(caption, [], [[name, str(fact)] for name, fact in facts.items()])


def array_type(value: Any) -> str:
    """`float32[32, 64]`."""
    if isinstance(value, Ragged):
        return f"{array_type(value.values)} in {len(value):,} sequences"
    array = np.asarray(value)
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


def _op_row(op: Operator) -> list[str]:
    block = op.block
    where = f"block {block.index}: " if block.index else ""
    # An op that runs blocks also names variables inside them.
    inputs, outputs = (
        [name for names in slots.values() for name in names if block.has_var(name)]
        for slots in (op.inputs, op.outputs)
    )
    gives = ", ".join(f"{name} {type_text(block.var(name))}" for name in outputs)
    return [str(op.id), f"{where}{op.name}", ", ".join(inputs), gives, _line(op)]


def _line(op: Operator) -> str:
    stack = op.stack
    return f"{os.path.basename(stack[0].file)}:{stack[0].line}" if stack else ""


def _value_cells(variable: Variable, scope: Scope) -> list[str]:
    if not variable.persistable or variable not in scope:
        return ["", ""]
    return _cells(scope.find(variable))


def _cells(value: np.ndarray) -> list[str]:
    """The value in words, and as a picture."""
    return [describe(value), Html(tensor_html(value))]


def _shown(number: int) -> str:
    return f", of which {_ROWS} are shown" if number > _ROWS else ""


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    style = "caption-side:top;text-align:left;font-weight:bold;color:inherit;white-space:nowrap"
    lines = [f'<table><caption style="{style}">{escape(caption)}</caption>']
    if head:
        lines.append(_row("th", head))
    lines += [_row("td", row) for row in rows]
    return "\n".join([*lines, "</table>"])


def _row(tag: str, cells: Sequence[str]) -> str:
    style = ' style="text-align:left"'
    return "<tr>" + "".join(f"<{tag}{style}>{_cell(cell)}</{tag}>" for cell in cells) + "</tr>"


def _cell(cell: str) -> str:
    return str(cell) if isinstance(cell, Html) else escape(cell)
