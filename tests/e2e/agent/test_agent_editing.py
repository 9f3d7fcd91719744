"""Editing values of a stopped run is true: what runs next sees it, and nobody else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.edited_program import SCRIPT, Stop, stopped
from harness.patience import wait_until_computing
from opstep_server.model import DebuggerError
from opstep_server.wire import debug_pb2 as pb

pytestmark = pytest.mark.e2e


def script(case: str, out: Path) -> Any:
    """What the script gives without a debugger."""
    subprocess.run([sys.executable, str(SCRIPT), case, str(out)], check=True)
    return np.load(out)


def edited(
    folder: Path, case: str, pattern: str, edit: Callable[[Stop], Awaitable[None]], **options: Any
) -> Any:
    """What it gives when `edit` is done at its first stop."""

    async def main() -> Any:
        async with stopped(folder, case, pattern, **options) as stop:
            await edit(stop)
            return await stop.finish()

    return asyncio.run(main())


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


# ---- every kind of edit --------------------------------------------------------------------------

EDITS = {
    "element": ("a.out[2, 3]", "-1.5"),
    "row": ("a.out[1]", "[1, 2, 3, 4, 5]"),
    "slice": ("a.out[1:3, ::2]", "a.out[0, :3]"),
    "backwards": ("a.out[::-1, -1]", "[1, 2, 3, 4]"),
    "overlapping": ("a.out[1:]", "a.out[:-1]"),
    "whole": ("a.out", "a.out * 2 + x"),
    "scalar": ("a.out", "0"),
    "broadcast": ("a.out[...]", "[10, 20, 30, 40, 50]"),
    "column": ("a.out", "[[1], [2], [3], [4]]"),
    "mask": ("a.out[a.out > 1]", "-1"),
    "list": ("a.out[[3, 0]]", "[[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]"),
}


@pytest.mark.parametrize("kind", EDITS)
def test_what_runs_next_sees_it_and_the_next_run_does_not(tmp_path: Path, kind: str) -> None:
    target, value = EDITS[kind]
    plain = script("chain", tmp_path / "plain.npz")
    a, x = plain["a.out_1"].copy(), plain["x"]
    exec(f"{target.replace('a.out', 'a')} = {value.replace('a.out', 'a')}", {"a": a, "x": x})
    if target == "a.out":
        a = np.broadcast_to(eval(value.replace("a.out", "old"), {"old": plain["a.out_1"], "x": x}),
                            (4, 5)).astype(np.float32)  # fmt: skip

    async def edit(stop: Stop) -> None:
        answer = await stop.assign(target, value)
        assert answer.WhichOneof("kind") in ("tensor", "f")
        assert same(await stop.value("a.out"), a)

    got = edited(tmp_path, "chain", "tanh", edit)
    assert same(got["a.out_1"], a)
    assert same(got["b.out_1"], tanh(tmp_path, a))
    assert same(got["x"], x)
    for name in ("a.out_2", "b.out_2", "c.out_2"):
        assert same(got[name], plain[name]), name


def tanh(folder: Path, a: np.ndarray) -> np.ndarray:
    """opstep's own, which is not NumPy's to the last bit."""
    import opstep
    from opstep import layers

    main = opstep.Program("tanh")
    with opstep.program_guard(main, opstep.Program("startup")):
        x = layers.data("x", shape=list(a.shape))
        y = layers.tanh(x)
    return opstep.Executor().run(main, {"x": a}, [y])[0]


def test_slots_name_variables_and_the_answer_is_the_new_value(tmp_path: Path) -> None:
    async def edit(stop: Stop) -> None:
        answer = await stop.assign("X[0]", "2")
        assert list(answer.tensor.dims) == [5]
        assert np.frombuffer(answer.tensor.data, np.float32).tolist() == [2] * 5
        assert (await stop.assign("X[0][1]", "3")).f == 3
        assert (await stop.assign("var('a.out')[0, 2]", "inf")).f == np.inf

    got = edited(tmp_path, "chain", "tanh", edit)
    assert got["a.out_1"][0].tolist() == [2, 3, np.inf, 2, 2]
    assert got["b.out_1"][0, 2] == 1


def test_after_an_op_its_outputs_can_be_edited(tmp_path: Path) -> None:
    async def edit(stop: Stop) -> None:
        assert stop.thread.stopped is not None and stop.thread.stopped.frames[0].after
        await stop.assign("out", "1")

    got = edited(tmp_path, "chain", "tanh", edit, condition="out[0, 0] < 100")
    assert np.all(got["b.out_1"] == 1)
    assert got["c.out_1"] == 20
    assert not np.any(got["b.out_2"] == 1)


# ---- whose memory it is --------------------------------------------------------------------------


def test_a_feed_is_the_callers(tmp_path: Path) -> None:
    plain = script("chain", tmp_path / "plain.npz")

    async def edit(stop: Stop) -> None:
        await stop.assign("x", "0")
        await stop.assign("x[1]", "1")

    got = edited(tmp_path, "chain", "exp", edit)
    assert np.all(got["a.out_1"][0] == 1) and np.all(got["a.out_1"][1] == np.float32(np.e))
    assert same(got["x"], plain["x"])
    assert same(got["a.out_2"], plain["a.out_2"])


def test_a_constant_is_all_runs(tmp_path: Path) -> None:
    """Edited before the op that was computed from it when the plan was made: that op sees it."""

    async def edit(stop: Stop) -> None:
        await stop.assign("c.out[1]", "5")

    got = edited(tmp_path, "constants", "neg", edit)
    assert got["c.out_1"].tolist() == [1, 5, 3]
    assert got["d.out_1"].tolist() == [-1, -5, -3]
    assert got["y.out_1"].tolist() == [11, 45, 39]
    assert got["z.out_1"].tolist() == [10, 100, 90]
    assert got["c.out_2"].tolist() == [1, 2, 3]
    assert got["y.out_2"].tolist() == [11, 24, 39]
    assert got["z.out_2"].tolist() == [10, 40, 90]


def test_an_op_that_has_run_does_not_see_a_constants_edit(tmp_path: Path) -> None:
    async def edit(stop: Stop) -> None:
        await stop.assign("c.out[1]", "5")  # d = -c is there already
        await stop.assign("d.out[0]", "7")

    got = edited(tmp_path, "constants", "square", edit)
    assert got["d.out_1"].tolist() == [7, -2, -3]
    assert got["y.out_1"].tolist() == [59, 24, 39]
    assert got["z.out_1"].tolist() == [10, 100, 90]
    assert got["y.out_2"].tolist() == [11, 24, 39]


@pytest.mark.parametrize("case", ["conv", "large_conv"])
def test_weights_that_were_packed_with_the_plan(tmp_path: Path, case: str) -> None:
    plain = script(case, tmp_path / "plain.npz")

    async def edit(stop: Stop) -> None:
        await stop.assign("w.out[3:]", "w.out[3:] * 2")

    got = edited(tmp_path, case, "conv", edit)
    assert same(got["y.out_1"][:, :3], plain["y.out_1"][:, :3])
    assert same(got["y.out_1"][:, 3:], plain["y.out_1"][:, 3:] * 2)
    assert same(got["y.out_2"], plain["y.out_2"])


def test_a_parameter_is_the_scopes(tmp_path: Path) -> None:
    """As if the program itself had set it between two runs, to the last bit."""
    plain = script("train", tmp_path / "set.npz")

    async def edit(stop: Stop) -> None:
        await stop.assign("fc.w[1, :3]", "0.5")
        await stop.assign("fc.w[:, 5]", "fc.w[:, 0] * 2")

    got = edited(tmp_path, "train", "matmul", edit, condition="step == 3")
    assert sorted(got) == sorted(plain)
    for name in plain:
        assert same(got[name], plain[name]), name


# ---- blocks --------------------------------------------------------------------------------------


def test_a_constant_of_a_loops_body_is_back_in_the_next_iteration(tmp_path: Path) -> None:
    async def edit(stop: Stop) -> None:
        await stop.assign("k.out", "10")

    got = edited(tmp_path, "loop", "neg", edit, condition="iteration == 2")
    assert got["total.out_1"].tolist() == [14]
    assert got["total.out_2"].tolist() == [5]


def test_a_constant_outside_of_a_loop_stays_edited_in_all_iterations(tmp_path: Path) -> None:
    async def edit(stop: Stop) -> None:
        await stop.assign("limit.out", "8")

    got = edited(tmp_path, "loop", "sub", edit, condition="iteration == 2")
    assert got["total.out_1"].tolist() == [8]
    assert got["total.out_2"].tolist() == [5]


def test_variables_of_blocks_around_are_edited_in_their_frames(tmp_path: Path) -> None:
    async def edit(stop: Stop) -> None:
        await stop.assign("total.out", "100", frame=2)

    got = edited(tmp_path, "loop", "sub", edit, condition="iteration == 2")
    assert got["total.out_1"].tolist() == [103]
    assert got["result.out_1"].tolist() == [103 * 103]


@pytest.mark.parametrize(
    ("at", "target", "seen_by"),
    [("b", "a.out", "cd"), ("c", "a.out", "d"), ("c", "b.out", "c"), ("d", "b.out", "")],
)
def test_a_copy_and_what_it_is_a_copy_of_are_edited_apart(
    tmp_path: Path, at: str, target: str, seen_by: str
) -> None:
    plain = script("copies", tmp_path / "plain.npz")

    async def edit(stop: Stop) -> None:
        await stop.assign(target, "0.5")
        other = "a.out" if target == "b.out" else "b.out"
        if at != "b":
            assert not (await stop.value(other) == 0.5).any()

    got = edited(tmp_path, "copies", at, edit)
    for name, value in {"c": 0.25, "d": -0.5}.items():
        first, second = got[f"{name}.out_1"], got[f"{name}.out_2"]
        assert same(second, plain[f"{name}.out_2"])
        assert (first == value).all() if name in seen_by else same(first, second)


def test_what_was_saved_for_the_gradient_stays_as_it_was(tmp_path: Path) -> None:
    plain = script("saved", tmp_path / "plain.npz")

    async def edit(stop: Stop) -> None:
        await stop.assign("X", "0")  # now * now of step 1; `now` was saved before

    got = edited(tmp_path, "saved", "squares", edit, condition="iteration == 1")
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 2, 2)
    x[1] = 0
    assert same(got["rnn.out_1"], np.cumsum(x * x, axis=0, dtype=np.float32))
    assert same(got["x@grad_1"], plain["x@grad_1"])


def test_a_condition_edited_while_its_block_runs_was_read_before(tmp_path: Path) -> None:
    plain = script("rows", tmp_path / "plain.npz")

    async def edit(stop: Stop) -> None:
        await stop.assign("small.out", "True", frame=2)

    got = edited(tmp_path, "rows", "sqrt", edit)
    assert same(got["ifelse_0.out_1"], plain["ifelse_0.out_1"])


# ---- what cannot be done -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "value", "why"),
    [
        ("b.out", "0", "b.out has not been written yet"),
        ("a.out", "[1, 2, 3]", "a value of shape [3] does not fit into [4, 5]"),
        ("a.out[0]", "x", "a value of shape [4, 5] does not fit into [5]"),
        ("a.out[9]", "0", "index 9 is out of range for float32[4, 5]: that axis has 4 elements"),
        ("a.out + 1", "0", "only a variable or a part of one can be changed, such as w[0, :5]"),
        ("step", "3", "only a variable or a part of one can be changed, such as w[0, :5]"),
        ("a.out", "1e39", "1e+39 does not fit float32"),
        ("a.out", "'text'", "an assignment takes numbers, not a string"),
        ("a.outt", "0", "there is no variable 'a.outt' here: did you mean 'a.out'?"),
    ],
)
def test_refused_with_a_sentence_and_nothing_changed(
    tmp_path: Path, target: str, value: str, why: str
) -> None:
    plain = script("chain", tmp_path / "plain.npz")

    async def edit(stop: Stop) -> None:
        with pytest.raises(DebuggerError) as error:
            await stop.assign(target, value)
        assert str(error.value) == why

    got = edited(tmp_path, "chain", "tanh", edit)
    for name in plain:
        assert same(got[name], plain[name]), name


def test_a_python_frame_sees_what_the_run_sees(tmp_path: Path) -> None:
    async def edit(stop: Stop) -> None:
        await stop.assign("a.out", "0.5", frame=2)
        assert (await stop.value("a.out") == 0.5).all()

    edited(tmp_path, "chain", "tanh", edit)


# ---- giving up -----------------------------------------------------------------------------------


def test_a_long_evaluation_can_be_given_up(tmp_path: Path) -> None:
    long = "std(exp(y.out) + log(y.out) * sqrt(y.out)) + " * 30 + "0"

    async def edit(stop: Stop) -> None:
        from opstep_server import expr

        stopped = stop.thread.stopped
        assert stopped is not None
        connection = stop.thread.executor.connection

        def evaluate() -> asyncio.Future[pb.Reply]:
            wanted = pb.Evaluate(thread=stopped.thread, stop=stopped.stop, expr=expr.parse(long))
            return asyncio.ensure_future(connection.send_command(pb.Command(evaluate=wanted)))

        first, second = evaluate(), evaluate()
        asking = asyncio.create_task(stop.debugger.evaluate(stop.thread.id, 0, long))
        await asyncio.to_thread(wait_until_computing, stop.thread.executor.hello.pid)
        for command in (2, 1):  # the one that waits, and the one under way
            ids = sorted(connection._pending)
            cancel = pb.Command(cancel=pb.Cancel(command=ids[command - 1]))
            assert (await connection.send_command(cancel)).HasField("done")
            reply = await (second if command == 2 else first)
            assert reply.error == "the command was cancelled"
        asking.cancel()
        answer = await stop.debugger.evaluate(stop.thread.id, 0, "y.out[0, 0]")
        assert answer.WhichOneof("kind") == "f"

    edited(tmp_path, "large", "reduce_sum", edit)
