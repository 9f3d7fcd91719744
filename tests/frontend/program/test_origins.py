"""A variable names something in its own program only, and in what was made from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import layers, ops

X = np.arange(6, dtype=np.float32).reshape(2, 3)
exe = opstep.Executor()


class Net:
    """Two of them have the same names, and compute different things."""

    def __init__(self, op: Callable[..., Any]) -> None:
        self.main, self.startup = opstep.Program(), opstep.Program()
        with opstep.program_guard(self.main, self.startup):
            self.x = layers.data("x", [2, 3])
            self.x.stop_gradient = False
            self.w = layers.create_parameter([3])
            self.out = op(self.x * self.w, out="out")
            self.loss = ops.reduce_mean(self.out, out="loss")


@pytest.fixture
def nets() -> tuple[Net, Net]:
    return Net(ops.relu), Net(ops.tanh)


DOORS: dict[str, Callable[[Net, Net, Path], Any]] = {
    "fetch": lambda a, b, _: exe.run(a.main, {"x": X}, [b.out]),
    "fetch one": lambda a, b, _: exe.run(a.main, {"x": X}, b.out),
    "feed": lambda a, b, _: exe.run(a.main, {b.x: X}),
    "run": lambda a, b, _: a.main.run({"x": X}, [b.out]),
    "compile feeds": lambda a, b, _: opstep.compile(a.main, [b.x], [a.out]),
    "compile fetches": lambda a, b, _: opstep.compile(a.main, [a.x], [b.out]),
    "call": lambda a, b, _: opstep.compile(a.main, [a.x], [a.out])({b.x: X}),
    "gradients": lambda a, b, _: opstep.gradients(a.loss, b.x),
    "backward": lambda a, b, _: opstep.append_backward(a.loss, [b.w]),
    "minimize": lambda a, b, _: opstep.optimizer.SGD(0.1).minimize(a.loss, parameters=[b.w]),
    "save feeds": lambda a, b, d: opstep.save_model(d / "m", [b.x], [a.out], a.main),
    "save fetches": lambda a, b, d: opstep.save_model(d / "m", [a.x], [b.out], a.main),
    "prune": lambda a, b, _: a.main.prune([b.out]),
    "prune a clone": lambda a, b, _: a.main.clone().prune(b.out),
    "op": lambda a, b, _: a.main.global_block().append_operator(
        "relu", {"x": b.out}, {"out": "new"}
    ),
    "op output": lambda a, b, _: ops.relu(a.out, out=b.out),
    "chain": lambda a, b, _: opstep.chain(a.main, a.main.clone(), connect={b.x: a.out}),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_variable_of_another_program_is_refused(
    nets: tuple[Net, Net], door: str, tmp_path: Path
) -> None:
    a, b = nets
    with opstep.scope_guard(opstep.Scope()):
        exe.run(a.startup)
        before = a.main.to_bytes()
        with pytest.raises(opstep.Error) as failed:
            DOORS[door](a, b, tmp_path)
    assert f"program '{b.main.name}'" in str(failed.value), failed.value
    assert f"'{a.main.name}" in str(failed.value)
    assert a.main.to_bytes() == before
    assert not (tmp_path / "m").exists()


def test_the_sentence(nets: tuple[Net, Net]) -> None:
    a, b = nets
    with pytest.raises(opstep.Error) as failed:
        DOORS["fetch"](a, b, Path())
    assert str(failed.value).startswith(
        f"cannot fetch 'out': it is a variable of program '{b.main.name}'"
    )
    assert "given by its name, 'out' (test_origins.py:" in str(failed.value)


def test_machines(nets: tuple[Net, Net]) -> None:
    a, b = nets
    with opstep.scope_guard(opstep.Scope()):
        model = opstep.model_of(a.loss)
        machine = opstep.gradient_machine(model)
        for wrong in (
            lambda: machine.feed({b.x: X}),
            lambda: machine.model(b.loss),
            lambda: opstep.compose(model, opstep.model_of(a.out), connect={b.x: a.out}),
        ):
            with pytest.raises(opstep.Error, match=f"program '{b.main.name}'"):
                wrong()
        machine.feed({a.x: X}).backward()
        assert machine.model(a.loss) is model


def test_what_was_made_from_a_program(nets: tuple[Net, Net]) -> None:
    a, _ = nets
    with opstep.scope_guard(opstep.Scope()):
        exe.run(a.startup, fetch_list=[a.w])  # the same value, by its owner
        (expected,) = exe.run(a.main, {a.x: X}, [a.out])
        for part in (
            a.main.clone(),
            a.main.clone(for_test=True),
            a.main.clone().clone().prune(a.loss),
            opstep.merge(a.startup, a.main),
        ):
            (out,) = exe.run(part, {a.x: X}, [a.out])
            np.testing.assert_array_equal(out, expected)
            exe.run(a.main, {part.global_block().var("x"): X}, [part.global_block().var("out")])


def test_programs_that_have_grown_apart(nets: tuple[Net, Net]) -> None:
    a, _ = nets
    clone = a.main.clone()
    with opstep.program_guard(a.main):
        later = ops.exp(a.out, out="later")
    with opstep.program_guard(clone):
        other = ops.tanh(clone.global_block().var("out"), out="later")
    assert later.name == other.name
    with opstep.scope_guard(opstep.Scope()):
        exe.run(a.startup)
        with pytest.raises(opstep.Error, match=f"it is a variable of program '{a.main.name}'"):
            exe.run(clone, {"x": X}, [later])
        with pytest.raises(opstep.Error, match=f"it is a variable of program '{clone.name}'"):
            exe.run(a.main, {"x": X}, [other])
        exe.run(clone, {"x": X}, [other, a.out])


def test_a_chain_renames_what_both_have() -> None:
    a, b = opstep.Program(), opstep.Program()
    outs = []
    for program, op in ((a, ops.relu), (b, ops.tanh)):
        with opstep.program_guard(program):
            x = layers.data("x", [2, 3])
            outs.append((op(x, out="both"), op(x, out=f"of_{op.type}")))
    chained = opstep.chain(a, b)
    relu, tanh, tanh_again = exe.run(chained, {"x": X}, [outs[0][0], outs[1][1], "both_1"])
    np.testing.assert_array_equal(relu, X)
    np.testing.assert_array_equal(tanh, tanh_again)
    with pytest.raises(opstep.Error, match="cannot fetch 'both'"):
        exe.run(chained, {"x": X}, [outs[1][0]])
