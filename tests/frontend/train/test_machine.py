"""Models by their output, machines, composed ones, and updaters: the same bits as programs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import opstep
from harness.world import World
from opstep import Variable, layers, optimizer

RNG = np.random.default_rng(5)
NOISE = RNG.normal(size=(16, 3)).astype(np.float32)
POINTS = RNG.normal(size=(16, 2)).astype(np.float32)
ONES = np.ones((16, 1), np.float32)


def generator(noise: Variable) -> Variable:
    with opstep.name_scope("gen"):
        hidden = layers.batch_norm(layers.fc(noise, size=5), act="relu")
        return layers.fc(layers.dropout(hidden, 0.2), size=2)


def judge(sample: Variable, label: Variable) -> Variable:
    with opstep.name_scope("judge"):
        hidden = layers.fc(sample, size=6, act="tanh")
        # A branch of the graph, so that blocks are joined too.
        hidden = layers.cond(layers.mean(hidden) > 0, lambda: hidden * 2, lambda: hidden * 3)
        logits = layers.fc(hidden, size=1)
    return layers.mean(layers.sigmoid_cross_entropy_with_logits(logits, label))


def two_models() -> tuple[opstep.OutputModel, opstep.OutputModel, Variable, Variable]:
    fake = generator(layers.data("noise", shape=[None, 3]))
    sample = layers.data("sample", shape=[None, 2])
    loss = judge(sample, layers.data("label", shape=[None, 1]))
    return opstep.model_of(fake), opstep.model_of(loss), sample, fake


def small_loss() -> Variable:
    x = layers.data("x", shape=[None, 2])
    label = layers.data("label", shape=[None, 1])
    return layers.mean(layers.square_error_cost(layers.fc(layers.fc(x, 4, act="tanh"), 1), label))


def learned(model: opstep.OutputModel) -> dict[str, np.ndarray]:
    """Without the averages of batch_norm, which move by themselves."""
    return {p.name: model.values[p.name] for p in model.parameters if p.trainable}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(
        value.tobytes() == other[name].tobytes() for name, value in one.items()
    )


def test_a_model_is_what_its_output_needs(world: World) -> None:
    gen, disc, _, _ = two_models()
    assert gen.feeds == ["noise"] and disc.feeds == ["sample", "label"]
    assert all(name.startswith("gen/") for name in gen.values) and len(gen.values) == 8
    assert all(name.startswith("judge/") for name in disc.values) and len(disc.values) == 4
    assert repr(gen) == f"<model '{gen.name}' of noise, with 8 parameters>"
    # First values are those of the startup program; what is there already stays.
    other = opstep.Scope()
    world.exe.run(world.startup, scope=other)
    assert all(np.array_equal(other.find(name), value) for name, value in gen.values.items())
    name = gen.parameters[0].name
    world.scope.set(name, gen.values[name] + 1)
    assert np.array_equal(opstep.model_of(gen.output).values[name], other.find(name) + 1)


def test_gradients_are_those_of_append_backward(world: World) -> None:
    loss = small_loss()
    machine = opstep.gradient_machine(opstep.model_of(loss))
    value = machine.feed({"x": POINTS, "label": ONES}).backward()
    pairs = opstep.append_backward(loss)
    wanted, *gradients = world.exe.run(
        feed={"x": POINTS, "label": ONES}, fetch_list=[loss, *(g for _, g in pairs)]
    )
    assert value.tobytes() == wanted.tobytes() == machine.forward().tobytes()
    expected = {p.name: g for (p, _), g in zip(pairs, gradients, strict=True)}
    assert same(machine.gradients, expected) and len(expected) == 4


OPTIMIZERS: list[Callable[[], optimizer.Optimizer]] = [
    lambda: optimizer.SGD(0.1, weight_decay=0.01),
    lambda: optimizer.Momentum(opstep.lr.PolynomialDecay(0.1, steps=4)),
    lambda: optimizer.Adam(0.05, grad_clip=opstep.clipping.ClipByGlobalNorm(0.01)),
]


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_an_updater_trains_as_minimize_does(
    world: World, make: Callable[[], optimizer.Optimizer]
) -> None:
    loss = small_loss()
    world.main.parameters()[1].optimize_attr = {"learning_rate": 0.5}
    machine = opstep.gradient_machine(opstep.model_of(loss))
    updater = opstep.updater(make())
    make().minimize(loss)
    other = opstep.Scope()
    world.exe.run(world.startup, scope=other)
    for step in range(6):
        batch = {"x": POINTS + step, "label": ONES}
        machine.feed(batch).backward()
        updater.update(machine)
        world.exe.run(feed=batch, scope=other)
    assert same(machine.models[0].values, {p: other.find(p) for p in machine.gradients})


def test_a_composed_machine_is_one_merged_program_bit_for_bit(world: World) -> None:
    gen, disc, sample, fake = two_models()
    machine = opstep.compose(gen, disc, connect={sample: fake})
    assert sorted(machine.feeds) == ["label", "noise"]
    updater = opstep.updater(optimizer.SGD(0.1))

    merged, startup = opstep.Program("merged"), opstep.Program("merged_startup")
    with opstep.program_guard(merged, startup):
        noise = layers.data("noise", shape=[None, 3])
        loss = judge(generator(noise), layers.data("label", shape=[None, 1]))
        pairs = optimizer.SGD(0.1).minimize(loss)
    other = opstep.Scope()
    world.exe.run(startup, scope=other)
    assert {p.name for p, _ in pairs} == learned(gen).keys() | learned(disc).keys()
    for name in (*gen.values, *disc.values):  # the seeds of layers count all that were made
        other.set(name, world.scope.find(name))
    seeds = [
        [op.attrs["seed"] for op in p.global_block().ops if op.type == "dropout"]
        for p in (merged, machine.program)
    ]
    assert seeds[0] == seeds[1]

    for step in range(5):
        batch = {"noise": NOISE + step / 10, "label": ONES}
        value = machine.feed(batch).backward()
        updater.update(machine)
        wanted, *gradients = world.exe.run(
            merged, batch, [loss, *(g for _, g in pairs)], scope=other
        )
        assert value.tobytes() == wanted.tobytes()
        named = {p.name: g for (p, _), g in zip(pairs, gradients, strict=True)}
        assert same(machine.gradients, named)
    kept = [name for name in world.scope.names() if name.startswith(("gen/", "judge/"))]
    assert len(kept) == 8 + 4 + 1  # and dropout's counter
    assert same({n: world.scope.find(n) for n in kept}, {n: other.find(n) for n in kept})


def test_only_leaves_the_other_model_as_it_is(world: World) -> None:
    gen, disc, sample, fake = two_models()
    machine = opstep.compose(gen, disc, connect={sample: fake})
    updater = opstep.updater(optimizer.Adam(0.01))
    machine.feed({"noise": NOISE, "label": ONES}).backward()
    assert machine.gradients.keys() == learned(gen).keys() | learned(disc).keys()
    for only in (gen, fake, fake.name):
        before = learned(gen), disc.values
        updater.update(machine, only=only)
        assert same(disc.values, before[1])
        assert all((value != before[0][name]).any() for name, value in learned(gen).items())
    before = gen.values
    updater.update(machine, only=disc)
    assert same(gen.values, before)


def test_each_model_stays_usable_alone(world: World) -> None:
    gen, disc, sample, fake = two_models()
    listings = str(gen.program), str(disc.program), str(world.main)
    machine = opstep.compose(gen, disc, connect={sample: fake})
    machine.feed({"noise": NOISE, "label": ONES})
    machine.backward()
    assert (str(gen.program), str(disc.program), str(world.main)) == listings
    alone, of_disc = opstep.gradient_machine(gen), opstep.gradient_machine(disc)
    points = alone.feed({"noise": NOISE}).forward()
    assert points.tobytes() == machine.forward(gen).tobytes()
    value = of_disc.feed({"sample": points, "label": ONES}).forward()
    assert value.tobytes() == machine.forward().tobytes()
    of_disc.backward()
    assert of_disc.gradients.keys() == disc.values.keys()


def test_models_of_two_programs_are_composed(world: World) -> None:
    other, startup = opstep.Program("other"), opstep.Program("other_startup")
    with opstep.program_guard(other, startup), opstep.name_scope("second"):
        z = layers.data("z", shape=[None, 4])
        loss = layers.mean(layers.fc(z, 1))
        second = opstep.model_of(loss)
    first = opstep.model_of(layers.fc(layers.data("x", shape=[None, 2]), 4, act="tanh"))
    machine = opstep.compose(first, second, connect={z: first.output})
    machine.feed({"x": POINTS}).backward()
    w1, b1 = first.values.values()
    w2, _ = second.values.values()
    hidden = np.tanh(POINTS.astype(np.float64) @ w1 + b1)
    back = (1 - hidden**2) * w2[:, 0] / len(POINTS)
    assert machine.gradients[next(iter(first.values))] == pytest.approx(POINTS.T @ back, abs=1e-6)
    assert machine.gradients[next(iter(second.values))][:, 0] == pytest.approx(
        hidden.mean(0), abs=1e-6
    )


def test_models_that_share_layers_compute_them_once(world: World) -> None:
    points = generator(layers.data("noise", shape=[None, 3]))
    branch = layers.cond(layers.mean(points) > 0, lambda: points * 2, lambda: points * 3)
    side = layers.cond(layers.mean(points) > 1, lambda: points * 4, lambda: points * 5)
    loss = judge(branch + side, layers.data("label", shape=[None, 1]))
    of_side, of_loss = opstep.model_of(layers.mean(side)), opstep.model_of(loss)
    alone, both = opstep.gradient_machine(of_loss), opstep.compose(of_side, of_loss)
    types = [op.type for op in both.program.global_block().ops]
    assert types.count("dropout") == 1 and types.count("cond") == 3
    count = next(name for name in world.scope.names() if name.endswith(".count"))
    results = []
    for machine in (alone, both):
        world.scope.set(count, np.int64(0))  # the same mask of dropout
        results.append(machine.feed({"noise": NOISE, "label": ONES}).backward())
    assert results[0].tobytes() == results[1].tobytes()
    assert same(alone.gradients, both.gradients)


def test_several_models_behind_one_connection(world: World) -> None:
    gen, disc, sample, fake = two_models()
    far = opstep.model_of(layers.mean(layers.reduce_sum(sample * sample, axes=1)))
    features = opstep.model_of(world.main.global_block().var("judge/fc_0.out"))
    machine = opstep.compose(gen, features, far, disc, connect={sample: fake})
    machine.feed({"noise": NOISE, "label": ONES})
    points = machine.forward(gen)
    assert machine.forward(far) == pytest.approx((points**2).sum(1).mean(), rel=1e-5)
    two = opstep.compose(gen, disc, connect={sample: fake}).feed({"noise": NOISE, "label": ONES})
    assert machine.forward(disc).tobytes() == two.forward().tobytes()
    assert "an earlier model is fed it" in error_of(
        lambda: opstep.compose(far, gen, disc, connect={sample: fake})
    )


def test_forward_changes_nothing_and_backward_draws_anew(world: World) -> None:
    gen, disc, sample, fake = two_models()
    machine = opstep.compose(gen, disc, connect={sample: fake})
    machine.feed({"noise": NOISE, "label": ONES})
    before = {name: world.scope.find(name) for name in world.scope.names()}
    assert machine.forward() == machine.forward()
    assert same({name: world.scope.find(name) for name in world.scope.names()}, before)
    assert machine.backward() != machine.backward()  # another mask of dropout


def test_two_updaters_keep_their_state_apart(world: World) -> None:
    loss = small_loss()
    machine = opstep.gradient_machine(opstep.model_of(loss))
    machine.feed({"x": POINTS, "label": ONES}).backward()
    start = machine.models[0].values
    results = []
    for _ in range(2):
        for name, value in start.items():
            world.scope.set(name, value)
        fresh = opstep.updater(optimizer.Adam(0.05))
        for _ in range(3):
            fresh.update(machine)
        results.append(machine.models[0].values)
    assert same(*results)


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(opstep.Error) as caught:
        call()
    return str(caught.value)


def test_wrong_feeds_are_said_in_one_sentence(world: World) -> None:
    gen, disc, sample, fake = two_models()
    machine = opstep.compose(gen, disc, connect={sample: fake})
    assert error_of(lambda: machine.feed({"sample": POINTS})) == (
        f"'sample' cannot be fed to this machine: it is connected to '{fake.name}'"
    )
    assert error_of(lambda: machine.feed({"lable": ONES})) == (
        f"the machine for '{disc.name}' is not fed 'lable'; did you mean 'label'?"
    )
    machine.feed({"noise": NOISE})
    missing = f"to compute '{disc.name}' the machine must be fed 'label' too"
    assert error_of(machine.backward) == error_of(machine.forward) == missing
    machine.feed({"noise": NOISE[:, :2], "label": ONES})
    assert "'noise'" in error_of(machine.backward)
    pair = ({"noise": NOISE}, True)  # what a reader gives
    assert "not a tuple: as in batch, end = reader()" in error_of(
        lambda: machine.feed(pair)  # type: ignore[arg-type]
    )


def test_what_cannot_be_done_is_said(world: World) -> None:
    gen, disc, sample, fake = two_models()
    machine = opstep.compose(gen, disc, connect={sample: fake})
    updater = opstep.updater(optimizer.SGD(0.1))
    assert "call the machine's backward first" in error_of(lambda: updater.update(machine))
    machine.feed({"noise": NOISE, "label": ONES}).backward()
    assert f"covers no model 'x', only '{gen.name}', '{disc.name}'" in error_of(
        lambda: updater.update(machine, only="x")
    )
    assert "updates the models of a machine: give that, not a OutputModel" in error_of(
        lambda: updater.update(gen)  # type: ignore[arg-type]
    )
    assert "named by its output, a variable, not by a str" in error_of(
        lambda: opstep.model_of("x")  # type: ignore[arg-type]
    )
    assert "needs one of opstep.optimizer, not a float" in error_of(
        lambda: opstep.updater(0.1)  # type: ignore[arg-type]
    )
    assert "compose was given no model" in error_of(opstep.compose)
    assert f"cannot connect 'label' to '{fake.name}': it is float32[?, 1]" in error_of(
        lambda: opstep.compose(gen, disc, connect={"label": fake})
    )
    assert "no model but the first is fed it" in error_of(
        lambda: opstep.compose(gen, disc, connect={"noise": fake})
    )
    assert "no model before" in error_of(lambda: opstep.compose(gen, disc, connect={sample: "y"}))
    assert "in two scopes" in error_of(
        lambda: opstep.compose(gen, opstep.model_of(disc.output, opstep.Scope()))
    )
    machine = opstep.gradient_machine(gen)
    assert machine.feed({"noise": NOISE}).forward().shape == (16, 2)
    assert "a loss must be one float" in error_of(machine.backward)


def test_names_that_mean_two_things_are_refused(world: World) -> None:
    first = opstep.model_of(layers.fc(layers.data("x", shape=[None, 2]), 4))
    with opstep.program_guard(opstep.Program("other"), opstep.Program("other_startup")):
        out = layers.fc(layers.data("x", shape=[None, 2]), 4)
        assert "'fc_0.w' in this scope belongs to program 'main'" in error_of(
            lambda: opstep.model_of(out)
        )
    world.scope.erase("fc_0.w")
    world.scope.erase("fc_0.b")
    second = opstep.model_of(out)
    assert "build one of them inside opstep.name_scope" in error_of(
        lambda: opstep.compose(first, second)
    )
