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


def loop_net(x: opstep.Variable) -> opstep.Variable:
    i = layers.fill([1], 0, "int64")
    value = layers.fc(x, 4)
    running = layers.less_than(i, 3)
    with layers.While(running).block():
        layers.assign(layers.fc(value, 4, act="tanh", name="again"), out=value)
        layers.increment(i)
        layers.less_than(i, 3, out=running)
    return value


def branch_net(x: opstep.Variable) -> opstep.Variable:
    branch = layers.IfElse(layers.less_than(x[:, 0], 0.5))
    with branch.true_block():
        branch.output(layers.fc(branch.input(x), size=4))
    with branch.false_block():
        branch.output(layers.dropout(layers.fc(branch.input(x), size=4), 0.5))
    value = layers.assign(branch())
    with layers.Switch() as switch:
        with switch.case(layers.mean(value) > 0):
            layers.assign(layers.fc(value, 4), out=value)
        with switch.default():
            layers.assign(value * 2.0, out=value)
    return layers.cond(
        layers.mean(value) > 1, lambda: layers.dropout(value, 0.5), lambda: layers.fc(value, 4)
    )


def recurrent_net(x: opstep.Variable) -> opstep.Variable:
    steps = layers.transpose(layers.reshape(x, [-1, 4, 1]), [1, 0, 2])
    rnn = layers.Recurrent()
    with rnn.step():
        part = rnn.step_input(steps)
        before = rnn.memory(shape=[4])
        hidden = layers.fc(layers.concat([part, before], axis=1), size=4, act="tanh")
        rnn.update(before, layers.dropout(hidden, 0.5))
        rnn.output(hidden)
    return rnn()[-1]


@pytest.mark.parametrize("net", [loop_net, branch_net, recurrent_net])
def test_blocks_that_were_trained_are_as_before_minimize(world, net) -> None:
    out = net(layers.data("x", [None, 4]))
    loss = layers.mean(out * out)
    before = [[op.name for op in block.ops] for block in world.main.clone(for_test=True).blocks]
    optimizer.Adam(0.1).minimize(loss)
    test = world.main.clone(for_test=True)
    assert [[op.name for op in block.ops] for block in test.blocks] == before
    world.exe.run(world.startup)
    world.exe.run(world.main, {"x": FEED["x"]})
    values = {name: world.scope.find(name) for name in world.scope.names()}
    for part in (test, test.prune([out])):
        (value,) = part.run({"x": FEED["x"]}, [out])
        assert np.isfinite(value).all()
    for name, value in values.items():
        assert np.array_equal(world.scope.find(name), value), name


# --- networks in blocks -------------------------------------------------------------------------


def training_loop(world) -> tuple[opstep.Variable, opstep.Variable]:
    """A loop whose body is a network with its whole training step: its loss and its logits.

    Gradients are made in block 0 today, so the body is taken from there.
    """
    x = layers.data("x", [None, 4])
    label = layers.data("label", [None, 1], "int64")
    count = layers.fill([1], 0, "int64")
    going = layers.less_than(count, 3)
    loop = layers.While(going)
    inner = opstep.Program("inner")
    with opstep.program_guard(inner, world.startup):
        inner_x = layers.data("x", [None, 4])
        inner_label = layers.data("label", [None, 1], "int64")
        hidden = layers.dropout(layers.fc(inner_x, 5, act="tanh"), 0.2)
        logits = layers.fc(hidden, 3)
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, inner_label))
        optimizer.Adam(lr.ExponentialDecay(0.1, 5, 0.5)).minimize(loss)
    for name, variable in inner.global_block().vars.items():
        if variable.persistable:
            world.main._core.create_var(
                0,
                name,
                variable.dtype,
                variable.shape,
                True,
                isinstance(variable, opstep.Parameter),
                True,
                False,
            )
    with loop.block() as body:
        for op in inner.global_block().ops:
            if op.type != "feed":
                body.append_operator(op.type, op.inputs, op.outputs, op.attrs, op.name)
        layers.increment(count)
        layers.less_than(count, 3, out=going)
    link_gradients(world.main, inner, body)
    assert x.name == "x" and label.name == "label"
    return body.var(loss.name), body.var(logits.name)


def link_gradients(program: opstep.Program, inner: opstep.Program, body: opstep.Block) -> None:
    """`forward_op`, which Python cannot set."""
    from opstep_server.wire import program_pb2 as pb

    desc = pb.ProgramDesc.FromString(program.to_bytes())
    ids = {op.name: op.id for op in desc.blocks[body.index].ops}
    for op in desc.blocks[body.index].ops:
        old = next((o for o in inner.global_block().ops if o.name == op.name), None)
        if old is not None and old.forward_op is not None:
            op.forward_op = ids[old.forward_op.name]
    program._core.restore(desc.SerializeToString())


def test_a_clone_for_testing_has_no_training_in_loops(world) -> None:
    loss, logits = training_loop(world)
    world.exe.run(world.startup)
    world.exe.run(world.main, FEED)
    before = {name: world.scope.find(name) for name in world.scope.names()}
    test = world.main.clone(for_test=True)
    body = [op.type for op in test.blocks[1].ops]
    assert body == [
        *("matmul", "add", "tanh", "dropout", "matmul", "add"),
        *("softmax_with_cross_entropy", "reduce_mean", "increment", "fill", "less"),
    ]
    assert "fc_0.w@grad" not in test.blocks[1].vars
    assert "fc_0.w.adam.moment1" not in test.global_block().vars
    world.exe.run(test, FEED)
    for name, value in before.items():
        assert np.array_equal(world.scope.find(name), value), name
    assert loss.name in test.blocks[1].vars and logits.name in test.blocks[1].vars


def test_prune_to_a_variable_of_a_loop(world) -> None:
    loss, logits = training_loop(world)
    test = world.main.clone(for_test=True)
    part = test.prune([logits])
    assert [op.type for op in part.blocks[1].ops] == [
        *("matmul", "add", "tanh", "dropout", "matmul", "add", "increment", "fill", "less")
    ]
    assert part._core.feed_names() == ["x"] and "label" not in part.global_block().vars
    world.exe.run(world.startup)
    part.run({"x": FEED["x"]})
    # What the loop computes in its second run depends on the training step of its first.
    names = [op.name for op in world.main.prune([loss]).blocks[1].ops]
    assert "fc_0.w.adam" in names
    # The loop is there for its count only.
    count = world.main.blocks[1].ops[-1].inputs["X"][0]
    part = world.main.prune([count])
    assert [op.type for op in part.blocks[1].ops] == ["increment", "fill", "less"]
    assert part.run(fetch_list=[count])[0] == [3]


def test_prune_looks_into_branches(world) -> None:
    x = layers.data("x", [4])
    kept = layers.fill([4], 0.0, name="kept")
    other = layers.fill([4], 0.0, name="other")
    with layers.Switch() as switch:
        with switch.case(layers.mean(x) > 0):
            layers.assign(x * 2, out=kept)
            layers.assign(x * 3, out=other)
        with switch.default():
            layers.assign(x * 4, out=other)
    part = world.main.prune([kept])
    inside = [[op.type for op in block.ops] for block in part.blocks[1:]]
    assert inside == [["fill", "mul", "assign"], []]
    assert "other.out" not in part.global_block().vars
    for sign in (1, -1):
        feed = {"x": sign * np.ones(4, np.float32)}
        (wanted,) = world.exe.run(world.main, feed, [kept])
        assert np.array_equal(part.run(feed, [kept])[0], wanted)


def test_a_clone_for_testing_writes_no_files(world, tmp_path) -> None:
    logits, loss, _accuracy = network()
    opstep.ops.save(logits, path=str(tmp_path / "logits.npy"))
    before = types(world.main.clone(for_test=True))
    optimizer.Adam(0.1).minimize(loss)
    opstep.checkpoint(tmp_path / "checkpoint", every=2)
    test = world.main.clone(for_test=True)
    assert types(test) == before and "save" not in before and len(test.blocks) == 1
    world.exe.run(world.startup)
    for _ in range(2):
        world.exe.run(test, FEED, [logits])
    assert list(tmp_path.iterdir()) == []
