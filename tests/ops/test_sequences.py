"""Ops over ragged tensors with offsets that say something impossible: one sentence, no harm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import layers, ops

ROWS = np.arange(14, dtype=np.float32).reshape(7, 2)
WRONG = [
    ([1, 3, 7], "offsets[0] is 1: offsets must begin with 0, never fall, and end with"),
    ([0, 8, 7], "offsets[1] is 8 after 0: offsets must begin with 0, never fall, and end with"),
    ([0, 5, 3, 7], "offsets[2] is 3 after 5: offsets must begin with 0, never fall, and end with"),
    ([0, -4, 7], "offsets[1] is -4 after 0: offsets must begin with 0, never fall, and end with"),
    ([0, 3], "offsets[1] is 3 after 0: offsets must begin with 0, never fall, and end with"),
    ([0, 2**62], f"offsets[1] is {2**62} after 0: offsets must begin with 0, never fall, and end"),
    ([-(2**63), 7], f"offsets[0] is {-(2**63)}: offsets must begin with 0, never fall, and end"),
]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    with opstep.program_guard(opstep.Program(), opstep.Program()):
        yield


def made(kind: str, x: opstep.Variable, offsets: opstep.Variable, count: int) -> opstep.Variable:
    if kind == "expand":
        return ops.sequence_expand(layers.reshape(x, [-1])[:count], offsets, x)
    if kind == "pad":
        return ops.sequence_pad(x, offsets, x)
    if kind == "unpad":
        padded = layers.expand(layers.fill([1, 1, 2], 1.0), [7, count, 2])
        return ops.sequence_unpad(padded, offsets, x)
    more: dict[str, Any] = {"pool": "max"} if kind == "pool" else {}
    return getattr(ops, f"sequence_{kind}")(x, offsets, **more)


@pytest.mark.parametrize(("wrong", "what"), WRONG)
@pytest.mark.parametrize("kind", ["pool", "softmax", "expand", "reverse", "pad", "unpad"])
def test_impossible_offsets(kind: str, wrong: list[int], what: str) -> None:
    x = layers.data("x", shape=[7, 2])
    offsets = layers.data("offsets", shape=[len(wrong)], dtype="int64")
    out = made(kind, x, offsets, len(wrong) - 1)
    with pytest.raises(opstep.Error) as caught:
        opstep.Executor().run(feed={"x": ROWS, "offsets": np.array(wrong)}, fetch_list=[out])
    assert str(caught.value).startswith(f"[sequence_{kind}] {what}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["pool", "softmax", "expand"])
def test_impossible_offsets_of_gradients(kind: str) -> None:
    """A program out of a file may give the gradient other offsets than its forward op."""
    from opstep_server.wire import program_pb2

    x = layers.data("x", shape=[7, 2])
    x.stop_gradient = False
    offsets = layers.data("offsets", shape=[3], dtype="int64")
    layers.data("other", shape=[3], dtype="int64")
    loss = layers.reduce_sum(made(kind, x, offsets, 2))
    ((_, gradient),) = opstep.append_backward(loss, [x])
    desc = program_pb2.ProgramDesc.FromString(loss.program.to_bytes())
    for op in desc.blocks[0].ops:
        for slot in op.inputs if op.type == f"sequence_{kind}_grad" else ():
            if slot.name == "offsets":
                slot.vars[0] = "other"
    program = opstep.Program.from_bytes(desc.SerializeToString())
    feed = {"x": ROWS, "offsets": np.array([0, 3, 7]), "other": np.array([0, 2**40, 7])}
    with pytest.raises(opstep.Error, match=rf"\[sequence_{kind}_grad\] offsets\[1\] is"):
        opstep.Executor().run(program, feed=feed, fetch_list=[gradient.name])


def test_sequences_longer_than_there_are_steps() -> None:
    x = layers.data("x", shape=[7, 2])
    offsets, steps = (layers.data(n, shape=[None], dtype="int64") for n in ("offsets", "steps"))
    feed = {"x": ROWS, "offsets": np.array([0, 3, 7]), "steps": np.arange(3)}
    for out in (ops.sequence_pad(x, offsets, steps), ops.sequence_mask([offsets], steps)):
        part = out.program.prune([out])
        needed = {name: feed[name] for name in part._core.feed_names()}
        with pytest.raises(opstep.Error, match="sequence 1 has 4 rows, but there are only 3 steps"):
            opstep.Executor().run(part, feed=needed, fetch_list=[out.name])


def test_a_mask_of_sequences_of_different_lengths() -> None:
    a, b = (layers.data(n, shape=[None], dtype="int64") for n in "ab")
    mask = ops.sequence_mask([a, b], a)
    exe = opstep.Executor()
    with pytest.raises(opstep.Error, match=r"inputs 0 and 1 differ in length: offsets\[1\] is 1"):
        exe.run(feed={"a": np.array([0, 1, 3]), "b": np.array([0, 2, 3])}, fetch_list=[mask])
    with pytest.raises(opstep.Error, match="input 0 has 2 sequences but input 1 has 1"):
        exe.run(feed={"a": np.array([0, 1, 3]), "b": np.array([0, 3])}, fetch_list=[mask])


def test_an_unknown_pool() -> None:
    x = layers.data("x", shape=[None, 2], lod_level=1)
    with pytest.raises(opstep.Error, match="pool is 'median': it must be 'sum', 'mean', 'sqrt'"):
        layers.sequence_pool(x, "median")


def test_one_row_for_each_sequence_is_expanded() -> None:
    x = layers.data("x", shape=[5, 2])
    offsets = layers.data("offsets", shape=[3], dtype="int64")
    with pytest.raises(opstep.Error, match=r"X is \[5, 2\] but there are 2 sequences: X must have"):
        ops.sequence_expand(x, offsets, x)
