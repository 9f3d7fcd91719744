"""Parts of programs: clone, clone for testing, prune; and `Program.run`."""

from __future__ import annotations

import numpy as np
import pytest

import opstep
from opstep import clipping, layers, lr, optimizer


def types(program: opstep.Program) -> list[str]:
    return [op.type for op in program.global_block().ops]


def network() -> tuple[opstep.Variable, opstep.Variable, opstep.Variable]:
    x = layers.data("x", [None, 4])
    label = layers.data("label", [None, 1], "int64")
    logits = layers.fc(layers.fc(x, 5, act="tanh"), 3)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    return logits, loss, layers.accuracy(logits, label)


FEED = {
    "x": np.random.default_rng(0).random((6, 4), np.float32),
    "label": np.arange(6).reshape(6, 1) % 3,
}


@pytest.mark.parametrize(
    "optim",
    [
        optimizer.SGD(0.1),
        optimizer.Adam(0.1),
        optimizer.AdamW(
            lr.LinearWarmup(lr.PiecewiseDecay([3], [0.1, 0.01]), 2),
            grad_clip=clipping.ClipByGlobalNorm(1.0),
        ),
    ],
    ids=lambda o: type(o).__name__,
)
def test_a_clone_for_testing_is_the_network_before_minimize(world, optim) -> None:
    _logits, loss, _accuracy = network()
    before = str(world.main)
    before_vars = list(world.main.global_block().vars)
    optim.minimize(loss)
    test = world.main.clone(for_test=True, name="main")
    assert str(test) == before
    assert list(test.global_block().vars) == before_vars
    assert [op.id for op in test.global_block().ops] == list(range(1, len(types(test)) + 1))


def test_a_clone_for_testing_changes_nothing_in_the_scope(world) -> None:
    _logits, loss, accuracy = network()
    optimizer.Adam(lr.ExponentialDecay(0.1, 5, 0.5)).minimize(loss)
    test = world.main.clone(for_test=True)
    world.exe.run(world.startup)
    world.exe.run(world.main, FEED)
    before = {name: world.scope.find(name) for name in world.scope.names()}
    tested = world.exe.run(test, FEED, [loss, accuracy])
    for name, value in before.items():
        assert np.array_equal(world.scope.find(name), value), name
    assert tested == world.exe.run(world.main, FEED, [loss, accuracy])


def test_a_loss_that_only_gradients_read_is_kept(world) -> None:
    w = world.main.global_block().create_parameter("w", [3])
    loss = layers.sqrt(layers.reduce_sum(w * w))  # the gradient of sqrt reads its result
    optimizer.SGD(0.1).minimize(loss)
    assert types(world.main.clone(for_test=True)) == ["mul", "reduce_sum", "sqrt"]


def test_a_counter_of_the_user_is_kept(world) -> None:
    count = world.main.global_block().create_var("count", [], "int64", persistable=True)
    _logits, loss, _accuracy = network()
    layers.increment(count)
    optimizer.SGD(0.1).minimize(loss)
    assert types(world.main.clone(for_test=True)).count("increment") == 1


def test_a_plain_clone_is_equal_and_separate(world) -> None:
    _logits, loss, _accuracy = network()
    optimizer.SGD(0.1).minimize(loss)
    copy = world.main.clone(name="main")
    assert copy.to_bytes() == world.main.to_bytes()
    with opstep.program_guard(copy):
        layers.fill([1], 0.0)
    assert copy.to_bytes() != world.main.to_bytes()
    assert world.main.clone().name == "main_clone"


def test_prune_keeps_what_the_targets_need(world) -> None:
    logits, loss, _accuracy = network()
    optimizer.Adam(0.1).minimize(loss)
    inference = world.main.prune(logits)
    assert types(inference) == ["feed", "matmul", "add", "tanh", "matmul", "add"]
    assert [p.name for p in inference.parameters()] == ["fc_0.w", "fc_0.b", "fc_1.w", "fc_1.b"]
    assert "label" not in inference.global_block().vars
    world.exe.run(world.startup)
    (value,) = inference.run({"x": FEED["x"]}, [logits])
    (same,) = world.exe.run(world.main.clone(for_test=True), FEED, [logits])
    assert np.array_equal(value, same)


def test_prune_to_a_parameter_keeps_its_training(world) -> None:
    _logits, loss, _accuracy = network()
    optimizer.SGD(0.1).minimize(loss)
    names = [op.name for op in world.main.prune("fc_1.b").global_block().ops]
    assert "fc_1.b.sgd" in names and "fc_0.w.sgd" not in names


def test_prune_keeps_and_renumbers_blocks(world) -> None:
    outs = []
    for limit in (3, 5):
        i = layers.fill([1], 0, "int64")
        running = layers.less_than(i, limit)
        loop = layers.While(running)
        with loop.block():
            layers.increment(i)
            layers.less_than(i, limit, out=running)
        outs.append(i)
    pruned = world.main.prune([outs[1]])
    assert len(pruned.blocks) == 2
    assert pruned.run(fetch_list=[outs[1]])[0] == [5]


def test_prune_to_what_is_not_there(world) -> None:
    network()
    message = r"cannot prune to 'fc_1.outt': program 'main' has no such .* mean 'fc_1.out'\?"
    with pytest.raises(opstep.Error, match=message):
        world.main.prune(["fc_1.outt"])


def test_a_pruned_program_can_be_built_on(world) -> None:
    logits, _loss, _accuracy = network()
    inference = world.main.prune(logits)
    with opstep.program_guard(inference, world.startup):
        out = layers.fc(inference.global_block().var(logits.name), 2)
    assert out.name == "fc_2.out"
    world.exe.run(world.startup)
    assert inference.run({"x": FEED["x"]}, [out])[0].shape == (6, 2)


def test_a_program_runs_by_itself_in_a_scope(world) -> None:
    scope = opstep.Scope()
    logits, _loss, _accuracy = network()
    world.startup.run(scope=scope)
    (value,) = world.main.run(FEED, [logits], scope)
    assert value.shape == (6, 3)
    assert "fc_0.w" in scope and "fc_0.w" not in world.scope
