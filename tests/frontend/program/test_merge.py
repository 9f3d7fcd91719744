"""`merge`: one program out of two computes the same bits as both."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import opstep
from harness.nets import (
    FEED,
    IMAGES,
    NETS,
    conv_net,
    error_of,
    mlp,
    recurrent,
    trained_apart,
    training,
    values,
)
from harness.patience import SECONDS
from harness.world import World
from opstep import Variable, _core, initializer, layers

# --- merge --------------------------------------------------------------------------------------


@pytest.mark.parametrize("net", NETS)
def test_a_merged_program_is_startup_and_then_main(
    world: World, net: Callable[[Variable], Variable]
) -> None:
    _, loss = training(net)
    wanted = trained_apart(world, loss, 4)
    merged = opstep.merge(world.startup, world.main)
    # In two scopes, by turns: each has its own first run.
    scopes = opstep.Scope(), opstep.Scope()
    losses: list[list[bytes]] = [[], []]
    for _ in range(4):
        for scope, got in zip(scopes, losses, strict=True):
            got.append(world.exe.run(merged, FEED, [loss], scope)[0].tobytes())
    for scope, got in zip(scopes, losses, strict=True):
        assert (got, values(scope)) == wanted
        assert scope.find("startup.done")


@pytest.mark.parametrize("net", NETS)
def test_a_hook_changes_nothing(world: World, net: Callable[[Variable], Variable]) -> None:
    _, loss = training(net)
    wanted = trained_apart(world, loss, 2)
    merged = opstep.merge(world.startup, world.main)
    hook = _core.CountingHook()
    hook.install()
    try:
        got = [merged.run(FEED, [loss])[0].tobytes() for _ in range(2)]
    finally:
        hook.remove()
    assert (got, values(world.scope)) == wanted and hook.before > 0


def test_an_empty_startup_is_merged_too(world: World) -> None:
    y = layers.relu(layers.data("x", [2]))
    merged = opstep.merge(world.startup, world.main)
    feed = {"x": np.array([-1, 1], np.float32)}
    for _ in range(2):
        assert merged.run(feed, [y])[0].tolist() == [0, 1]
    assert world.scope.names() == ["startup.done"]


def test_a_merged_program_in_a_file_runs_in_another_process(world: World, tmp_path: Path) -> None:
    _, loss = training(conv_net)
    wanted, _ = trained_apart(world, loss, 3)
    opstep.merge(world.startup, world.main).save(tmp_path / "merged.opstep")
    np.savez(tmp_path / "feed.npz", **FEED)
    script = (
        "import sys, numpy as np, opstep\n"
        "program = opstep.Program.load('merged.opstep')\n"
        "feed = dict(np.load('feed.npz'))\n"
        "for _ in range(3): print(program.run(feed, [sys.argv[1]])[0].tobytes().hex())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, loss.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.stdout.split() == [value.hex() for value in wanted], done.stderr


def test_main_keeps_its_ids_names_lines_and_blocks(world: World) -> None:
    training(recurrent)
    merged = opstep.merge(world.startup, world.main, name="both")
    assert merged.name == "both" and merged._core.feed_names() == ["x", "label"]
    for old in world.main.blocks:
        ops = merged.blocks[old.index].ops
        ops = ops[1:] if old.index == 0 else ops
        assert [(o.id, o.name, o.stack) for o in ops] == [(o.id, o.name, o.stack) for o in old.ops]
    once = merged.global_block().ops[0]
    assert (once.type, once.name) == ("once", "startup")
    assert once.stack[0].file == __file__
    inside = merged.blocks[once.attrs["block"]]
    assert inside.parent is merged.global_block()
    ops = world.startup.global_block().ops
    assert [(o.name, o.stack) for o in inside.ops] == [(o.name, o.stack) for o in ops]
    assert len(merged.blocks) == len(world.main.blocks) + 1


def test_names_that_both_have(world: World) -> None:
    """Only persistable variables are shared; ops and blocks of the startup program fit in too."""
    x = layers.data("x", [None, 2])
    y = layers.fc(x, 2, name="y", weight_init=initializer.Constant(2.0))
    with opstep.program_guard(world.startup):
        block = world.startup.global_block()
        w = block.create_var("y.b", [2], persistable=True)
        x_there = layers.fill([2], 5.0, name="x", out="x")  # a name of main
        count = layers.fill([1], 0, "int64", name="y.matmul")  # an op of main
        going = layers.less_than(count, 3)
        with layers.While(going).block():
            doubled = x_there * 2.0
            layers.assign(doubled, out=x_there)
            layers.increment(count)
            layers.less_than(count, 3, out=going)
        layers.assign(x_there, out=w)
    feed = {"x": np.ones((1, 2), np.float32)}
    world.exe.run(world.startup)
    (wanted,) = world.exe.run(world.main, feed, [y])
    merged = opstep.merge(world.startup, world.main)
    (got,) = merged.run(feed, [y], opstep.Scope())
    assert got.tolist() == wanted.tolist() == [[44.0, 44.0]]
    inside = merged.blocks[merged.global_block().ops[0].attrs["block"]]
    assert "x_1" in inside.vars and "x" not in inside.vars
    assert "y.matmul_1" in [op.name for op in inside.ops]


def test_parameters_stay_when_first_values_are_there(world: World) -> None:
    y = layers.fc(layers.data("x", [None, 2]), 2)
    merged = opstep.merge(world.startup, world.main)
    feed = {"x": np.ones((1, 2), np.float32)}
    merged.run(feed)
    world.scope.set("fc_0.w", np.full((2, 2), 7, np.float32))
    assert merged.run(feed, [y])[0].tolist() == [[14.0, 14.0]]
    # Until they are asked for again.
    world.scope.set("startup.done", False)
    assert merged.run(feed, [y])[0].tolist() != [[14.0, 14.0]]


def test_a_value_that_was_erased_is_missed(world: World) -> None:
    y = layers.fc(layers.data("x", [None, 2]), 2)
    merged = opstep.merge(world.startup, world.main)
    feed = {"x": np.ones((1, 2), np.float32)}
    merged.run(feed)
    world.scope.erase("fc_0.w")
    for _ in range(2):
        message = error_of(lambda: merged.run(feed, [y]))
        assert message.startswith("'fc_0.w' has no value, although 'startup.done' says that")
        assert "fc_0.w" not in world.scope and "fc_0.b" in world.scope
    world.scope.set("fc_0.w", np.ones((2, 2), np.float32))
    assert merged.run(feed, [y])[0].tolist() == [[2.0, 2.0]]


def test_a_startup_that_fails_half_way_leaves_nothing(world: World, tmp_path: Path) -> None:
    init = initializer.Load(tmp_path / "w.npy")
    y = layers.fc(layers.fc(layers.data("x", [None, 2]), 2), 2, weight_init=init)
    merged = opstep.merge(world.startup, world.main)
    feed = {"x": np.ones((1, 2), np.float32)}
    assert "[load] cannot read" in error_of(lambda: merged.run(feed, [y]))
    assert world.scope.names() == []
    np.save(tmp_path / "w.npy", np.zeros((2, 2), np.float32))
    assert merged.run(feed, [y])[0].tolist() == [[0.0, 0.0]]


def test_gradients_of_a_merged_program(world: World) -> None:
    x = layers.data("x", [None, 2])
    loss = layers.mean(layers.fc(x, 1))
    merged = opstep.merge(world.startup, world.main)
    pairs = opstep.append_backward(merged.global_block().var(loss.name))
    feed = {"x": np.array([[1, 2], [3, 6]], np.float32)}
    got = merged.run(feed, [gradient for _, gradient in pairs])
    assert [value.tolist() for value in got] == [[[2.0], [4.0]], [1.0]]


def test_what_cannot_be_merged(world: World) -> None:
    layers.fc(layers.data("x", [None, 2]), 2)
    merged = opstep.merge(world.startup, world.main)
    assert "has been merged with a program 'startup' already" in error_of(
        lambda: opstep.merge(world.startup, merged)
    )
    assert "cannot be merged with itself" in error_of(lambda: opstep.merge(world.main, world.main))
    assert "it is fed 'x'" in error_of(lambda: opstep.merge(world.main, world.startup))
    assert error_of(lambda: opstep.merge("startup", world.main)) == (  # type: ignore[arg-type]
        "merge takes programs, not a str"
    )
    other = opstep.Program("other")
    other.global_block().create_var("fc_0.w", [2, 3], persistable=True)
    assert error_of(lambda: opstep.merge(other, world.main)) == (
        "'fc_0.w' is float32[2, 2] in program 'main' but float32[2, 3] in 'other': programs share "
        "persistable variables, so they must agree"
    )
    other = opstep.Program("other")
    other.global_block().create_var("fc_0.out", [2, 2], persistable=True)
    assert "'fc_0.out' is persistable in 'other' but not in 'main'" in error_of(
        lambda: opstep.merge(other, world.main)
    )


# --- parts of merged programs -------------------------------------------------------------------


def test_a_test_of_a_merged_program_fills_what_training_needs_too(world: World) -> None:
    logits, loss = training(conv_net)
    merged = opstep.merge(world.startup, world.main)
    test = merged.clone(for_test=True)
    assert [op.type for op in test.global_block().ops].count("once") == 1
    assert not any("adam" in op.type or op.forward_op for op in test.global_block().ops)
    (first,) = test.run(FEED, [logits])
    wanted = trained_apart(world, loss, 2)
    got = [merged.run(FEED, [loss])[0].tobytes() for _ in range(2)]
    assert (got, values(world.scope)) == wanted
    (after,) = test.run(FEED, [logits])
    assert not np.array_equal(first, after)


def test_prune_keeps_first_values_that_are_needed(world: World) -> None:
    logits, _ = training(mlp)
    merged = opstep.merge(world.startup, world.main)
    part = merged.prune(logits)
    assert part.global_block().ops[0].type == "once"
    world.exe.run(world.startup)
    (wanted,) = world.exe.run(world.main, FEED, [logits])
    assert part.run({"x": IMAGES}, [logits], opstep.Scope())[0].tobytes() == wanted.tobytes()
    assert merged.prune("x").global_block().ops[0].type == "feed"
    assert len(merged.prune("x").blocks) == 1
    filled = merged.prune(logits, filled=True)
    assert [op.id for op in filled.global_block().ops] == [
        op.id for op in world.main.prune(logits).global_block().ops
    ]


def test_a_model_of_a_merged_program_has_its_values(world: World, tmp_path: Path) -> None:
    logits, _ = training(mlp)
    merged = opstep.merge(world.startup, world.main)
    merged.run(FEED)
    opstep.save_model(tmp_path / "model", ["x"], [logits], merged)
    scope = opstep.Scope()
    model = opstep.load_model(tmp_path / "model", scope)
    assert all(op.type != "once" for op in model.program.global_block().ops)
    assert scope.names() == sorted(p.name for p in world.main.parameters())
    assert sorted(opstep.model_of(merged.global_block().var(logits.name)).values) == scope.names()


def test_a_checkpoint_of_a_merged_program_is_not_overwritten(world: World, tmp_path: Path) -> None:
    _, loss = training(mlp)
    merged = opstep.merge(world.startup, world.main)
    wanted = [merged.run(FEED, [loss])[0].tobytes() for _ in range(4)][2:]
    scope = opstep.Scope()
    for _ in range(2):
        merged.run(FEED, scope=scope)
    opstep.save_checkpoint(tmp_path / "two", merged, scope)
    scope = opstep.Scope()
    opstep.load_checkpoint(tmp_path / "two", merged, scope)
    assert [merged.run(FEED, [loss], scope)[0].tobytes() for _ in range(2)] == wanted


def test_parameters_are_loaded_before_the_first_run(world: World, tmp_path: Path) -> None:
    _, loss = training(conv_net)
    merged = opstep.merge(world.startup, world.main)
    merged.run(FEED)
    opstep.save_params(tmp_path / "params", merged)
    scopes = opstep.Scope(), opstep.Scope()
    world.exe.run(world.startup, scope=scopes[0])
    for program, scope in zip((world.main, merged), scopes, strict=True):
        opstep.load_params(tmp_path / "params", program, scope)
    wanted, got = (
        [world.exe.run(program, FEED, [loss], scope)[0].tobytes() for _ in range(2)]
        for program, scope in zip((world.main, merged), scopes, strict=True)
    )
    assert got == wanted and values(scopes[0]) == values(scopes[1])
    # Later it changes parameters only.
    opstep.load_params(tmp_path / "params", merged, scopes[1])
    assert scopes[1].find("optimizer_0.step") == 2
