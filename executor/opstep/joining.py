"""Puts the ops of one program behind those of another, for machines that cover several models."""

from __future__ import annotations

from collections.abc import Mapping

from opstep import _core, context, ops
from opstep._core import Error
from opstep.program import Operator, Program
from opstep.variable import Parameter, type_text


def append_program(target: Program, source: Program, connected: Mapping[str, str]) -> None:
    """Add the ops of `source` to `target`. A feed of `source` in `connected` is no longer fed: it
    takes the value of that variable of `target`. What both have under one name must be the same."""
    _check_names(target, source, connected)
    _copy_kept(target, source)
    for op in source.global_block().ops:
        outputs = [name for names in op.outputs.values() for name in names]
        wired = [name for name in outputs if name in connected]
        if wired:
            _wire(target, source, wired[0], connected[wired[0]])
        elif not target._core.has_op_name(op.name):
            _append(target, 0, op)


def _check_names(target: Program, source: Program, connected: Mapping[str, str]) -> None:
    here, there = target.global_block(), source.global_block()
    for name in there.vars:
        if name in connected:
            if here.has_var(name):
                raise Error(f"'{name}' cannot be connected: another model has that variable too")
        elif here.has_var(name):
            made, making = here.var(name).writer, there.var(name).writer
            if _text(made) != _text(making) or type_text(here.var(name)) != type_text(
                there.var(name)
            ):
                raise Error(
                    f"two models have a variable '{name}' and do not mean the same: build one of "
                    "them inside opstep.name_scope(...)"
                )


def _text(op: Operator | None) -> object:
    """What is equal if two ops of different programs are the same one; feeds may just be alike."""
    if op is None:
        return None
    lines = op.stack if op.inputs else []
    return op.type, op.name, op.inputs, op.outputs, op.attrs, lines


def _copy_kept(target: Program, source: Program) -> None:
    for name, variable in source.global_block().vars.items():
        if not variable.persistable or target.global_block().has_var(name):
            continue
        is_parameter = isinstance(variable, Parameter)
        target._core.create_var(
            0,
            name,
            variable.dtype,
            variable.shape,
            True,
            is_parameter,
            isinstance(variable, Parameter) and variable.trainable,
            variable.stop_gradient,
        )
        if isinstance(variable, Parameter):
            target._core.set_var_attrs(0, name, variable.optimize_attr)


def _wire(target: Program, source: Program, feed: str, value: str) -> None:
    given, wanted = target.global_block().var(value), source.global_block().var(feed)
    fits = given.dtype == wanted.dtype and len(given.shape) == len(wanted.shape)
    sizes = zip(given.shape, wanted.shape, strict=False)
    if not fits or any(a != b and a is not None and b is not None for a, b in sizes):
        raise Error(
            f"cannot connect '{feed}' to '{value}': it is {type_text(wanted)}, but '{value}' is "
            f"{type_text(given)}"
        )
    with context.program_guard(target):
        ops.assign(
            given, out=target.global_block().create_var(feed, given.shape, given.dtype), name=feed
        )


def _append(target: Program, block: int, op: Operator) -> None:
    """A copy of the op, and of the blocks that belong to it."""
    attrs = op.attrs
    for attr in _core.op(op.type)["attrs"]:
        if attr["type"] == "block" and attr["name"] in attrs:
            attrs[attr["name"]] = _copy_block(target, block, op.program, attrs[attr["name"]])
    inside = op.block.index
    target._append_op(block, op.type, op.name, op.inputs, op.outputs, attrs, -1)
    for name in (name for names in op.outputs.values() for name in names):
        if op.program._core.block_of_var(inside, name) != inside:
            continue
        if op.program._core.stop_gradient(inside, name):
            target._core.set_stop_gradient(block, name, True)


def _copy_block(target: Program, parent: int, program: Program, index: int) -> int:
    made = target._core.create_block(parent)
    source = program.blocks[index]
    for name, variable in source.vars.items():
        if variable.writer is None:  # what the op around the block puts there
            target._core.create_var(
                made,
                name,
                variable.dtype,
                variable.shape,
                False,
                False,
                False,
                variable.stop_gradient,
            )
    for op in source.ops:
        _append(target, made, op)
    return made
