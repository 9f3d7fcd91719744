"""`chain`: two programs one after the other, in one."""

from __future__ import annotations

import numpy as np

import opstep
from harness.nets import FEED, RNG, conv_net, error_of, mlp, trained_apart, training, values
from harness.world import World
from opstep import layers


def test_a_chain_computes_one_after_the_other(world: World) -> None:
    hidden = layers.fc(layers.data("x", [None, 2]), 3, act="tanh")
    other, startup = opstep.Program("other"), opstep.Program("other_startup")
    with opstep.program_guard(other, startup):
        z = layers.data("z", [None, 3])
        out = layers.fc(z, 1, name="out")
        layers.cond(layers.mean(out) > 0, lambda: out * 2, lambda: out * 3, name="end")
    world.exe.run(world.startup)
    world.exe.run(startup)
    x = RNG.random((4, 2), np.float32)
    (middle,) = world.exe.run(world.main, {"x": x}, [hidden])
    (wanted,) = world.exe.run(other, {"z": middle}, ["end.out"])
    both = opstep.chain(world.main, other, connect={z: hidden})
    assert both.name == "main+other" and both._core.feed_names() == ["x"]
    assert both.run({"x": x}, ["end.out"])[0].tobytes() == wanted.tobytes()
    assert [op.id for op in both.global_block().ops][: len(world.main.global_block().ops)] == [
        op.id for op in world.main.global_block().ops
    ]
    # Lines stay; the programs as they were.
    assert both.global_block().ops[-1].stack == other.global_block().ops[-1].stack
    assert other._core.feed_names() == ["z"]


def test_a_chain_of_a_step_with_itself_is_two_steps(world: World) -> None:
    _, loss = training(conv_net)
    losses, wanted = trained_apart(world, loss, 2)
    twice = opstep.chain(world.main, world.main)
    assert twice._core.feed_names() == ["x", "label"]
    world.exe.run(world.startup)
    got = twice.run(FEED, [loss.name, f"{loss.name}_1"])
    assert [value.tobytes() for value in got] == losses
    assert values(world.scope) == wanted
    test = twice.clone(for_test=True)
    assert not any(op.forward_op for block in test.blocks for op in block.ops)
    linked = [op for op in twice.global_block().ops if op.forward_op and op.name.endswith("_1")]
    assert linked and all(op.forward_op.name.endswith("_1") for op in linked)


def test_merged_programs_are_chained(world: World) -> None:
    _, loss = training(mlp)
    losses, wanted = trained_apart(world, loss, 2)
    merged = opstep.merge(world.startup, world.main)
    twice = opstep.chain(merged, merged)
    got = twice.run(FEED, [loss.name, f"{loss.name}_1"])
    assert ([value.tobytes() for value in got], values(world.scope)) == (losses, wanted)
    with opstep.program_guard(opstep.Program("other"), opstep.Program("startup")):
        with opstep.name_scope("other"):
            layers.fc(layers.data("z", [None, 2]), 2)
        other = opstep.merge(
            opstep.default_startup_program(), opstep.default_main_program(), name="other"
        )
    assert "'startup.done' says in both programs" in error_of(lambda: opstep.chain(merged, other))


def test_what_cannot_be_chained(world: World) -> None:
    hidden = layers.fc(layers.data("x", [None, 2]), 3)
    other = opstep.Program("other")
    with opstep.program_guard(other, opstep.Program()):
        z = layers.data("z", [None, 4])
        layers.relu(z)
    assert error_of(lambda: opstep.chain(world.main, other, {z: hidden})) == (
        "cannot connect 'z' to 'fc_0.out': it is float32[?, 4], but 'fc_0.out' is float32[?, 3]"
    )
    assert "'y' cannot be connected: program 'other' is not fed it" in error_of(
        lambda: opstep.chain(world.main, other, {"y": hidden})
    )
    assert "'z' cannot be connected to 'no': program 'main' has no such variable" in error_of(
        lambda: opstep.chain(world.main, other, {z: "no"})
    )
    with opstep.program_guard(other, opstep.Program()):
        layers.relu(layers.data("x", [None, 5]))
    assert "both programs are fed 'x', but it is float32[?, 2] in 'main'" in error_of(
        lambda: opstep.chain(world.main, other)
    )
