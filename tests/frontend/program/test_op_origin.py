"""Ops whose lines and forward op are stated, as front ends for other models do."""

from __future__ import annotations

import numpy as np

import opstep
from opstep import _core, layers

LINES = [("/models/net.py", 31, "forward"), ("/models/train.py", 7, "<module>")]


def appended(forward: tuple[str, str] | None = None) -> opstep.Operator:
    program = opstep.Program("made elsewhere")
    with opstep.program_guard(program):
        layers.data("x", shape=[2])
    origin = _core.OpOrigin(LINES, [], [], forward)
    made = program._append_op(0, "relu", "layer.relu", {"X": "x"}, {"out": "y"}, {}, -1, origin)
    return opstep.Operator(program, made)


def test_an_op_has_the_stated_lines() -> None:
    op = appended()
    assert [(frame.file, frame.line, frame.function) for frame in op.stack] == LINES
    assert "net.py:31" in str(op.program)
    assert op.forward_op is None and op.forward_name == ""


def test_the_forward_op_may_be_in_another_program() -> None:
    op = appended(("layer.norm", "layer_norm"))
    assert op.forward_op is None and op.forward_name == "layer.norm"
    assert "gradient of layer.norm" in str(op.program)
    assert op.program._core.op(op._id)["gradient"]


def test_the_forward_op_is_saved_with_the_program() -> None:
    op = appended(("layer.norm", "layer_norm"))
    loaded = opstep.Program.from_bytes(op.program.to_bytes())
    assert str(loaded) == str(op.program)
    np.testing.assert_array_equal(
        loaded.run({"x": np.array([-1, 2], np.float32)}, ["y"])[0], [0, 2]
    )
