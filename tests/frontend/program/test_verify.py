"""Every rule of a legal program: broken in a file, it is named with block and op; that is all."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import opstep
from harness import ROOT
from opstep import layers, ops
from opstep_server.wire import program_pb2

Desc = program_pb2.ProgramDesc
VERIFY = ROOT / "executor" / "ir" / "verify.cc"


def build() -> Desc:
    """Block 0 with a loop (block 1), two branches (2 and 3), rows split (4 and 5)."""
    program = opstep.Program("net")
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", [None, 3])
        y = layers.fc(x, size=2)
        i = layers.fill([], 0, "int64")
        go_on = ops.less(i, 2)
        with layers.While(go_on).block():
            ops.increment(i, out=i)
            ops.less(i, 2, out=go_on)
        z = layers.cond(ops.less(i, 1), lambda: ops.neg(y), lambda: ops.exp(y))
        branch = layers.IfElse(ops.less(ops.reduce_sum(z, axes=[1], keepdims=False), 0.0))
        with branch.true_block():
            branch.output(ops.neg(branch.input(z)))
        with branch.false_block():
            branch.output(ops.exp(branch.input(z)))
        branch()
        layers.constant([1.0, 2.0])
    return Desc.FromString(program.to_bytes())


def op(desc: Desc, kind: str, block: int = 0) -> program_pb2.OpDesc:
    return next(op for op in desc.blocks[block].ops if op.type == kind)


def attr(one: program_pb2.OpDesc, name: str) -> program_pb2.Attr:
    return next(a for a in one.attrs if a.name == name)


def first_block_is_a_child(d: Desc) -> None:
    d.blocks[0].parent = 1


def no_block(d: Desc) -> None:
    del d.blocks[:]


def a_cycle_of_blocks(d: Desc) -> None:
    d.blocks[2].parent = 3


def its_own_parent(d: Desc) -> None:
    d.blocks[1].parent = 1


def a_negative_parent(d: Desc) -> None:
    d.blocks[1].parent = -7


def blocks_too_deep(d: Desc) -> None:
    for _ in range(70):
        d.blocks.add(parent=len(d.blocks) - 1)


def a_dangling_block(d: Desc) -> None:
    attr(op(d, "while"), "block").block = 99


def a_block_of_somebody_else(d: Desc) -> None:
    attr(op(d, "while"), "block").block = 0


def a_block_run_twice(d: Desc) -> None:
    twin = d.blocks[0].ops.add()
    twin.CopyFrom(op(d, "while"))
    twin.id, twin.name = d.next_op_id, "twin"
    d.next_op_id += 1


def a_frame_outside(d: Desc) -> None:
    d.blocks[0].ops[0].stack.append(9999)


def a_call_too_many(d: Desc) -> None:
    d.blocks[0].ops[0].calls.append(128)


def a_name_outside(d: Desc) -> None:
    d.names.add(call=128, op=1).names.add(name=9999)


def a_target_outside(d: Desc) -> None:
    d.blocks[0].ops[0].targets.append(9999)


def a_string_outside(d: Desc) -> None:
    d.frames[0].file = 9999


def a_nameless_variable(d: Desc) -> None:
    d.blocks[0].vars[0].name = ""


def a_variable_twice(d: Desc) -> None:
    d.blocks[0].vars.add().CopyFrom(d.blocks[0].vars[0])


def an_unknown_kind(d: Desc) -> None:
    d.blocks[0].vars[0].kind = 0


def a_stack_for_a_tensor(d: Desc) -> None:
    d.blocks[0].vars[0].kind = program_pb2.STACK


def no_dtype(d: Desc) -> None:
    d.blocks[0].vars[0].dtype = 0


def a_size_of_minus_two(d: Desc) -> None:
    d.blocks[0].vars[0].dims[0] = -2


def sequences_of_nowhere(d: Desc) -> None:
    d.blocks[0].vars[0].lod.add(offsets="nowhere", steps="nowhere")


def sequences_that_are_no_integers(d: Desc) -> None:
    name = d.blocks[0].vars[0].name
    d.blocks[0].vars[0].lod.add(offsets=name, steps=name)


def too_many_levels(d: Desc) -> None:
    d.blocks[0].vars.add(name="i1", kind=program_pb2.TENSOR, dtype=program_pb2.INT64, dims=[-1])
    for _ in range(9):
        d.blocks[0].vars[0].lod.add(offsets="i1", steps="i1")


def sequences_of_a_scalar(d: Desc) -> None:
    d.blocks[0].vars.add(name="i1", kind=program_pb2.TENSOR, dtype=program_pb2.INT64, dims=[-1])
    scalar = d.blocks[0].vars.add(name="s", kind=program_pb2.TENSOR, dtype=program_pb2.FLOAT32)
    scalar.lod.add(offsets="i1", steps="i1")


def nine_dimensions(d: Desc) -> None:
    d.blocks[0].vars[0].dims.extend([1] * 9)


def an_attribute_of_no_parameter(d: Desc) -> None:
    d.blocks[0].vars[0].attrs.add(name="learning_rate", f=0.5)


def an_attribute_that_is_no_number(d: Desc) -> None:
    parameter = next(var for var in d.blocks[0].vars if var.parameter)
    parameter.attrs.add(name="learning_rate", s="high")


def an_attribute_twice(d: Desc) -> None:
    parameter = next(var for var in d.blocks[0].vars if var.parameter)
    for rate in (0.5, 0.25):
        parameter.attrs.add(name="learning_rate", f=rate)


def a_parameter_in_a_loop(d: Desc) -> None:
    var = d.blocks[2].vars[0]
    var.parameter = var.persistable = True


def an_id_twice(d: Desc) -> None:
    d.blocks[0].ops[1].id = d.blocks[0].ops[0].id


def a_name_twice(d: Desc) -> None:
    d.blocks[0].ops[1].name = d.blocks[0].ops[0].name


def an_unknown_type(d: Desc) -> None:
    d.blocks[0].ops[1].type = "matmull"


def an_unknown_slot(d: Desc) -> None:
    op(d, "matmul").inputs[0].name = "Z"


def a_missing_slot(d: Desc) -> None:
    del op(d, "matmul").inputs[1]


def two_variables_for_one(d: Desc) -> None:
    slot = op(d, "matmul").inputs[0]
    slot.vars.append(slot.vars[0])


def an_unknown_variable(d: Desc) -> None:
    op(d, "matmul").inputs[0].vars[0] = "ghost"


def a_variable_of_another_block(d: Desc) -> None:
    op(d, "matmul").inputs[0].vars[0] = d.blocks[2].vars[0].name


def an_unknown_attribute(d: Desc) -> None:
    op(d, "fill").attrs.add(name="colour", i=1)


def a_missing_attribute(d: Desc) -> None:
    del op(d, "fill").attrs[0]


def an_attribute_of_another_type(d: Desc) -> None:
    attr(op(d, "fill"), "value").s = "much"


def a_dtype_that_is_none(d: Desc) -> None:
    attr(op(d, "fill"), "dtype").dtype = 0


def a_literal_too_short(d: Desc) -> None:
    attr(op(d, "constant"), "value").tensor.data = b"1234"


def a_write_that_is_hidden(d: Desc) -> None:
    del op(d, "while").outputs[:]


def a_write_to_what_it_reads(d: Desc) -> None:
    one = op(d, "matmul")
    one.outputs[0].vars[0] = one.inputs[1].vars[0]


def a_variable_written_twice(d: Desc) -> None:
    for slot in op(d, "ifelse").outputs:
        if slot.name == "out":
            slot.vars.append(slot.vars[0])


def handed_outside(d: Desc) -> None:
    for slot in op(d, "ifelse").outputs:
        if slot.name == "true_inputs":
            slot.vars[0] = "x"


CASES: list[tuple[Callable[[Desc], None], str]] = [
    (no_block, "has-a-block"),
    (first_block_is_a_child, "block-tree"),
    (a_cycle_of_blocks, "block-tree"),
    (its_own_parent, "block-tree"),
    (a_negative_parent, "block-tree"),
    (blocks_too_deep, "block-depth"),
    (a_dangling_block, "block-index"),
    (a_block_of_somebody_else, "block-index"),
    (a_block_run_twice, "block-owner"),
    (a_frame_outside, "frame-index"),
    (a_string_outside, "frame-index"),
    (a_call_too_many, "call-numbers"),
    (a_name_outside, "name-index"),
    (a_target_outside, "name-index"),
    (a_nameless_variable, "var-name"),
    (a_variable_twice, "var-name"),
    (an_unknown_kind, "var-kind"),
    (a_stack_for_a_tensor, "var-kind"),
    (no_dtype, "var-dtype"),
    (a_size_of_minus_two, "var-dims"),
    (nine_dimensions, "var-dims"),
    (sequences_of_nowhere, "var-lod"),
    (sequences_that_are_no_integers, "var-lod"),
    (too_many_levels, "var-lod"),
    (sequences_of_a_scalar, "var-lod"),
    (an_attribute_of_no_parameter, "var-attr"),
    (an_attribute_that_is_no_number, "var-attr"),
    (an_attribute_twice, "var-attr"),
    (a_parameter_in_a_loop, "parameter-global"),
    (an_id_twice, "op-id"),
    (a_name_twice, "op-name"),
    (an_unknown_type, "op-type"),
    (an_unknown_slot, "slot-name"),
    (a_missing_slot, "slot-count"),
    (two_variables_for_one, "slot-count"),
    (an_unknown_variable, "var-exists"),
    (a_variable_of_another_block, "var-exists"),
    (an_unknown_attribute, "attr-name"),
    (a_missing_attribute, "attr-name"),
    (an_attribute_of_another_type, "attr-type"),
    (a_dtype_that_is_none, "attr-type"),
    (a_literal_too_short, "attr-tensor"),
    (a_write_that_is_hidden, "block-writes"),
    (a_write_to_what_it_reads, "in-place"),
    (a_variable_written_twice, "one-writer"),
    (handed_outside, "block-input"),
]


@pytest.mark.parametrize(("damage", "rule"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_a_broken_rule_is_named(damage: Callable[[Desc], None], rule: str) -> None:
    desc = build()
    opstep.Program.from_bytes(desc.SerializeToString())  # legal so far
    damage(desc)
    with pytest.raises(opstep.Error) as error:
        opstep.Program.from_bytes(desc.SerializeToString())
    text = str(error.value)
    assert re.search(rf"\(block \d+(, op #\d+ \S+)?, rule {rule}\)$", text), text
    assert "\n" not in text
    # The process goes on as if nothing had been.
    assert opstep.Program.from_bytes(build().SerializeToString()).name == "net"


def test_every_rule_has_a_case() -> None:
    rules = set(re.findall(r'"((?:[a-z]+-)+[a-z]+)"', VERIFY.read_text()))
    assert rules == {rule for _, rule in CASES}


def test_the_program_runs() -> None:
    program = opstep.Program.from_bytes(build().SerializeToString())
    scope = opstep.Scope()
    for name in ("fc_0.w", "fc_0.b"):
        scope.set(name, np.ones(program.global_block().var(name).shape, np.float32))
    feed = {"x": np.ones((4, 3), np.float32)}
    (out,) = opstep.Executor().run(program, feed, ["ifelse_0.out"], scope)
    np.testing.assert_allclose(out, np.full((4, 2), np.exp(np.exp(4.0))), rtol=1e-5)
