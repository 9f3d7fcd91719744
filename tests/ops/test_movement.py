"""Ops that move elements: what their samples cannot say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import opstep
from opstep import layers, ops


def data(name: str, shape: list[int | None], dtype: str = "float32") -> opstep.Variable:
    return layers.data(name, shape=shape, dtype=dtype)


def run(build: Callable[..., opstep.Variable], **feed: np.ndarray) -> np.ndarray:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        out = build(*(data(name, list(a.shape), str(a.dtype)) for name, a in feed.items()))
    return opstep.Executor().run(program, feed=feed, fetch_list=[out], scope=opstep.Scope())[0]


BUILDING: list[tuple[Callable[[], object], str]] = [
    (
        lambda: ops.concat([data("a", [2, 3]), data("b", [3, 2])], axis=1),
        "[concat] X[0] is float32[2, 3] but X[1] is float32[3, 2]: they may differ along axis 1",
    ),
    (
        lambda: ops.concat([data("a", [2]), data("b", [2], "int64")], axis=0),
        "[concat] X[0] is float32[2] but X[1] is int64[2]",
    ),
    (lambda: ops.split(data("a", [4])), "[split] gives between 1 and 65,535 out"),
    (
        lambda: ops.split(data("a", [4]), split=[1, 2]),
        "[split] the sizes in split add up to 3 but X has 4 along the axis",
    ),
    (
        lambda: ops.split(data("a", [4]), num_outputs=3, out=["p", "q"]),
        "[split] num_outputs is 3 but there are 2 outputs",
    ),
    (
        lambda: ops.slice(data("a", [4]), starts=[0], ends=[2], steps=[0]),
        "[slice] the step along axis 0 is 0",
    ),
    (
        lambda: ops.slice(data("a", [4, 4]), starts=[0, 0], ends=[2, 2], axes=[1, -1]),
        "[slice] axes names axis 1 twice",
    ),
    (
        lambda: ops.slice(data("a", [4]), starts=[0, 0], ends=[2]),
        "[slice] starts names 2 places, ends 1",
    ),
    (
        lambda: ops.squeeze(data("a", [3, 1]), axes=[0]),
        "[squeeze] X is [3, 1]: axis 0 has size 3 and cannot be taken out",
    ),
    (lambda: ops.squeeze(data("a", [None, 1])), "[squeeze] X is [?, 1]: name the axes"),
    (lambda: ops.unsqueeze(data("a", [3]), axes=[0, -3]), "[unsqueeze] axes names axis -3 twice"),
    (
        lambda: ops.expand(data("a", [3]), shape=[2, 2]),
        "[expand] X is [3] but shape is [2, 2]: sizes 3 and 2 do not broadcast",
    ),
    (lambda: ops.tile(data("a", [3]), repeats=[2, 2]), "[tile] X is [3] but repeats names 2"),
    (lambda: ops.tile(data("a", [3]), repeats=[-1]), "[tile] repeats holds -1"),
    (lambda: ops.tile(data("a", [3]), repeats=[2**62]), "which is too large"),
    (
        lambda: ops.gather_elements(data("a", [3, 2]), data("i", [3, 3], "int64")),
        "[gather_elements] X is [3, 2] but indices is [3, 3]: it must have the same number of axes",
    ),
    (
        lambda: ops.gather_nd(data("a", [3, 2]), data("i", [4, 3], "int64")),
        "[gather_nd] indices is [4, 3]: rows of 3 indices behind 0 batch axes are too long",
    ),
    (
        lambda: ops.gather_nd(data("a", [3, 2]), data("i", [4, None], "int64")),
        "[gather_nd] indices is [4, ?]: its last size must be known",
    ),
    (
        lambda: ops.gather_nd(data("a", [3, 2]), data("i", [4, 1], "int64"), batch_dims=1),
        "[gather_nd] X is [3, 2] but indices is [4, 1]: batch axis 0 differs",
    ),
    (
        lambda: ops.scatter_elements(
            data("a", [3, 2]), data("i", [3, 1], "int64"), data("u", [3, 2])
        ),
        "[scatter_elements] indices is [3, 1] but updates is [3, 2]: they must be alike",
    ),
    (
        lambda: ops.scatter_elements(
            data("a", [3]), data("i", [3], "int64"), data("u", [3]), reduction="mean"
        ),
        "[scatter_elements] reduction is 'mean': it must be none, add, mul, max or min",
    ),
    (
        lambda: ops.scatter_nd(data("a", [3, 2]), data("i", [4, 1], "int64"), data("u", [4])),
        "and indices is [4, 1], so updates must be [4, 2], not [4]",
    ),
    (
        lambda: ops.pad(data("a", [3, 2]), pads=[1, 1]),
        "[pad] pads names 2 numbers but X is [3, 2]: there must be one before and one behind for",
    ),
    (
        lambda: ops.pad(data("a", [3]), pads=[-2, -2]),
        "[pad] X is [3]: pads -2 and -2 cut off more than there is along axis 0",
    ),
    (
        lambda: ops.pad(data("a", [3]), pads=[-3, 1], mode="edge"),
        "along axis 0 nothing is left to fill the margins with",
    ),
    (lambda: ops.pad(data("a", [3]), pads=[0, 0], mode="mirror"), "[pad] mode is 'mirror'"),
    (
        lambda: ops.pad(data("a", [3], "uint8"), pads=[1, 1], constant_value=256),
        "[pad] constant_value is 256, which does not fit uint8",
    ),
    (lambda: ops.one_hot(data("a", [3], "int64"), depth=-1), "[one_hot] depth is -1"),
    (lambda: ops.range(limit=3, delta=0), "[range] from 0 to 3 in steps of 0 there is no end"),
    (lambda: ops.range(limit=3, delta=0.5), "for int64 they must be whole numbers"),
    (lambda: ops.range(limit=1e10, dtype="int32"), "is too large for int32"),
    (
        lambda: ops.fill_like(data("a", [3], "int8"), value=128),
        "value is 128, which does not fit int8",
    ),
    (lambda: ops.eye_like(data("a", [3])), "[eye_like] X is [3]: it must be a matrix"),
    (lambda: ops.tri(data("a", [3])), "[tri] X is [3]: it must hold matrices"),
    (lambda: ops.dropout(data("a", [3]), ratio=1), "[dropout] ratio is 1: it must be 0 or more"),
    (
        lambda: ops.dropout(data("a", [3]), data("c", [2], "int64")),
        "[dropout] count is [2]: it must have one element",
    ),
    (
        lambda: ops.random_uniform_like(data("a", [3], "int64")),
        "[random_uniform_like] X is int64: name a dtype among",
    ),
    (lambda: ops.random_uniform_like(data("a", [3]), low=2), "low is 2 but high is 1"),
]


@pytest.mark.parametrize(("build", "message"), BUILDING, ids=[message for _, message in BUILDING])
def test_what_is_refused(build: Callable[[], object], message: str) -> None:
    with (
        opstep.program_guard(opstep.Program(), opstep.Program()),
        pytest.raises(opstep.Error) as caught,
    ):
        build()
    assert message in str(caught.value)


def test_squeeze_without_axes() -> None:
    x = np.arange(6.0).reshape(1, 2, 1, 3, 1)
    assert run(ops.squeeze, x=x).tolist() == x.squeeze().tolist()


def test_parts_are_named_after_the_op() -> None:
    with opstep.program_guard(opstep.Program()):
        parts = ops.split(data("x", [None, 7]), axis=1, num_outputs=2, name="halves")
        assert [part.name for part in parts] == ["halves.out_0", "halves.out_1"]
        assert [part.shape for part in parts] == [(None, 4), (None, 3)]
        (whole,) = ops.split(data("x", [None, 7]), axis=1, split=[7])
        assert whole.shape == (None, 7)


def test_the_gradient_of_some_of_the_parts() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        x = data("x", [2, 5])
        x.stop_gradient = False
        _, second, third = ops.split(x, axis=1, split=[2, 1, 2])
        loss = ops.add(
            ops.reduce_sum(second, keepdims=False),
            ops.reduce_sum(ops.mul(third, third), keepdims=False),
        )
        ((_, gradient),) = opstep.append_backward(loss, [x])
    value = np.arange(10, dtype=np.float32).reshape(2, 5)
    (got,) = opstep.Executor().run(
        program, feed={"x": value}, fetch_list=[gradient], scope=opstep.Scope()
    )
    assert got.tolist() == [[0, 0, 1, 6, 8], [0, 0, 1, 16, 18]]


X = np.arange(12, dtype=np.float32).reshape(3, 4)
OUTSIDE = [
    (lambda x, i: ops.gather(x, i, axis=1), [[0, 4]], "indices[0, 1] is 4 but axis 1 of X has"),
    (lambda x, i: ops.gather(x, i), [-4], "size 3: indices run from -3 to 2"),
    (lambda x, i: ops.gather_elements(x, i), [[0, 0, 3, 0]], "indices[0, 2] is 3 but axis 0"),
    (lambda x, i: ops.gather_nd(x, i), [[2, 3], [1, 4]], "indices[1, 1] is 4 but axis 1 of X"),
    (lambda x, i: ops.gather_nd(x, i, batch_dims=1), [[0], [1], [2**62]], "indices[2, 0] is 46"),
    (
        lambda x, i: ops.scatter_elements(x, i, ops.fill(shape=[1, 4])),
        [[0, 0, -4, 0]],
        "indices[0, 2] is -4 but axis 0",
    ),
    (
        lambda x, i: ops.scatter_nd(x, i, ops.fill(shape=[2, 4])),
        [[0], [3]],
        "indices[1, 0] is 3 but axis 0",
    ),
]


@pytest.mark.parametrize(("build", "indices", "message"), OUTSIDE)
def test_an_index_outside(
    build: Callable[..., opstep.Variable], indices: list[object], message: str
) -> None:
    with pytest.raises(opstep.Error) as caught:
        run(build, x=X, i=np.array(indices, dtype=np.int64))
    assert message in str(caught.value)


def test_products_of_updates_have_no_gradient() -> None:
    with opstep.program_guard(opstep.Program(), opstep.Program()):
        x = data("x", [3])
        x.stop_gradient = False
        out = ops.scatter_elements(x, data("i", [3], "int64"), ops.fill(shape=[3]), reduction="mul")
        with pytest.raises(opstep.Error, match="with reduction 'mul' it has no gradient"):
            opstep.append_backward(ops.reduce_sum(out, keepdims=False), [x])


def test_an_op_does_not_hide_what_python_calls_so() -> None:
    with opstep.program_guard(opstep.Program(), opstep.Program()):
        ops.range(limit=3)
        assert len(ops.split(data("x", [4]), num_outputs=2)) == 2
