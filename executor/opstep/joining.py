"""Puts the ops of one program behind those of another, for machines that cover several models."""

from __future__ import annotations

from collections.abc import Mapping

from opstep import _core, context, ops
from opstep._core import Error
from opstep.program import Operator, Program
from opstep.variable import Parameter, type_text


class JointProgram:
    """One program out of several. What two of them have under one name must be the same."""

    def __init__(self, first: Program, name: str) -> None:
        self.program = first.clone(name=name)
        self._connected: set[str] = set()
        # Copies have other lines than what they were made of, which is what is compared.
        self._texts = _texts(first)

    def append(self, source: Program, connected: Mapping[str, str]) -> None:
        """Add the ops of `source`. A feed in `connected` is no longer fed: it takes the value of
        that variable of a program before."""
        self._check_names(source, connected)
        _copy_kept(self.program, source)
        for op in source.global_block().ops:
            outputs = [name for names in op.outputs.values() for name in names]
            feed = next((name for name in outputs if name in connected), None)
            if feed is not None:
                if feed not in self._connected:
                    _wire(self.program, source, feed, connected[feed])
                    self._connected.add(feed)
            elif op.name not in self._texts:
                _append(self.program, 0, op)
            elif self._texts[op.name] != _text(op):
                raise _two_meanings("an op", op.name)
        self._texts = _texts(source) | self._texts

    def _check_names(self, source: Program, connected: Mapping[str, str]) -> None:
        here = self.program.global_block()
        for name, variable in source.global_block().vars.items():
            if not here.has_var(name) or name in self._connected & connected.keys():
                continue
            if name in connected:
                raise Error(f"'{name}' cannot be connected: a model before is fed it")
            writer, other = variable.writer, here.var(name).writer
            made = None if writer is None else _text(writer)
            known = None if other is None else self._texts.get(other.name)
            if made != known or type_text(variable) != type_text(here.var(name)):
                raise _two_meanings("a variable", name)


def _texts(program: Program) -> dict[str, object]:
    return {op.name: _text(op) for block in program.blocks for op in block.ops}


def _two_meanings(what: str, name: str) -> Error:
    return Error(
        f"two models have {what} '{name}' and do not mean the same: build one of them inside "
        "opstep.name_scope(...)"
    )


def _text(op: Operator) -> object:
    """What is equal if two ops of different programs are the same one; feeds may just be alike."""
    # Two parts of one program may number its blocks differently.
    blocks = {attr["name"] for attr in _core.op(op.type)["attrs"] if attr["type"] == "block"}
    attrs = {name: value for name, value in op.attrs.items() if name not in blocks}
    lines = op.stack if op.inputs else []
    return op.type, op.name, op.inputs, op.outputs, attrs, lines


def _copy_kept(target: Program, source: Program) -> None:
    for name, variable in source.global_block().vars.items():
        if not variable.persistable or target.global_block().has_var(name):
            continue
        target._core.create_var(
            0,
            name,
            variable.dtype,
            variable.shape,
            True,
            isinstance(variable, Parameter),
            isinstance(variable, Parameter) and variable.trainable,
            variable.stop_gradient,
        )
        if isinstance(variable, Parameter):
            target._core.set_var_attrs(0, name, variable.optimize_attr)


def _wire(target: Program, source: Program, feed: str, value: str) -> None:
    given, wanted = target.global_block().var(value), source.global_block().var(feed)
    fits = given.dtype == wanted.dtype and len(given.shape) == len(wanted.shape)
    fits = fits and given.lod_level == wanted.lod_level
    sizes = zip(given.shape, wanted.shape, strict=False)
    if not fits or any(a != b and a is not None and b is not None for a, b in sizes):
        raise Error(
            f"cannot connect '{feed}' to '{value}': it is {type_text(wanted)}, but '{value}' is "
            f"{type_text(given)}"
        )
    with context.program_guard(target):
        made = target.global_block().create_var(feed, given.shape, given.dtype)
        ops.assign(given, out=made, name=feed)
    target._core.set_lod(0, feed, source._core.lod(0, feed))


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
        # Layers may know more of it than the op says.
        target._core.set_lod(block, name, op.program._core.lod(inside, name))


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
            target._core.set_lod(made, name, program._core.lod(index, name))
    for op in source.ops:
        _append(target, made, op)
    return made
