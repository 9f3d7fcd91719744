"""Optimizers, gradient clipping and learning-rate schedules against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import clipping, layers, lr, optimizer

STEPS = 7


def target(parameter: np.ndarray, k: int) -> np.ndarray:
    """The gradient that `train` gives the parameter."""
    return (parameter - np.float32(k)) * np.float32(1.5)


def train(world, optim: optimizer.Optimizer, **attrs: Any) -> list[dict[str, np.ndarray]]:
    """Some steps on two parameters; gives their values after each step."""
    block = world.main.global_block()
    parts = []
    for k, name in enumerate(["a", "b"]):
        p = block.create_parameter(
            name, [4, 3], initializer=opstep.initializer.Normal(seed=k + 1), optimize_attr=attrs
        )
        difference = p - float(k)
        parts.append(layers.reduce_sum(difference * difference) * 0.75)
    optim.minimize(layers.add(*parts))
    world.exe.run(world.startup)
    history = []
    for _ in range(STEPS):
        history.append({name: world.scope.find(name) for name in "ab"})
        world.exe.run(world.main)
    history.append({name: world.scope.find(name) for name in "ab"})
    return history


def check(history: list[dict[str, np.ndarray]], make: Callable[[], Callable[..., Any]]) -> None:
    """`make` gives a function of parameter, gradient and step that gives the parameter after it."""
    for k, name in enumerate(["a", "b"]):
        update = make()
        value = history[0][name]
        for step in range(STEPS):
            value = update(value, target(value, k), step)
            np.testing.assert_allclose(history[step + 1][name], value, rtol=2e-5, atol=1e-6)


# --- optimizers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_sgd(world, decay: float) -> None:
    history = train(world, optimizer.SGD(0.1, weight_decay=decay))
    check(history, lambda: lambda p, g, step: p - 0.1 * (g + decay * p))


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_momentum(world, nesterov: bool, decay: float) -> None:
    def make():
        velocity: Any = 0

        def update(p, g, step):
            nonlocal velocity
            g = g + decay * p
            velocity = 0.8 * velocity + g
            return p - 0.1 * (g + 0.8 * velocity if nesterov else velocity)

        return update

    check(train(world, optimizer.Momentum(0.1, 0.8, nesterov, weight_decay=decay)), make)
    assert "a.momentum.velocity" in world.scope


def adam(rate: float, decay: float, decoupled: bool) -> Callable[[], Callable[..., Any]]:
    def make():
        m: Any = 0
        v: Any = 0

        def update(p, g, step):
            nonlocal m, v
            if decoupled:
                p = p * (1 - rate * decay)
            else:
                g = g + decay * p
            m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
            corrected = v / (1 - 0.9 ** (step + 1))
            return p - rate * m / (1 - 0.8 ** (step + 1)) / (np.sqrt(corrected) + 1e-3)

        return update

    return make


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam(world, decay: float) -> None:
    optim = optimizer.Adam(0.1, beta1=0.8, beta2=0.9, epsilon=1e-3, weight_decay=decay)
    check(train(world, optim), adam(0.1, decay, decoupled=False))
    assert {"a.adam.moment1", "a.adam.moment2", "b.adam.moment1"} <= set(world.scope.names())
    assert world.scope.find("optimizer_0.step") == STEPS


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adamw(world, decay: float) -> None:
    optim = optimizer.AdamW(0.1, beta1=0.8, beta2=0.9, epsilon=1e-3, weight_decay=decay)
    check(train(world, optim), adam(0.1, decay, decoupled=True))


@pytest.mark.parametrize(
    "optim",
    [
        optimizer.SGD(0.3),
        optimizer.Momentum(0.05),
        optimizer.Momentum(0.05, use_nesterov=True),
        optimizer.Adam(0.05),
        optimizer.AdamW(0.05, weight_decay=1e-4),
        optimizer.SGD(0.5, grad_clip=clipping.ClipByGlobalNorm(1.0)),
        optimizer.Adam(lr.LinearWarmup(lr.ExponentialDecay(0.05, 100, 0.5), 20)),
    ],
    ids=lambda o: type(o).__name__,
)
def test_training_converges(world, optim: optimizer.Optimizer) -> None:
    """A small network learns xor, which no linear one can."""
    world.main.random_seed = 3
    x = layers.data("x", [4, 2])
    y = layers.data("y", [4, 1])
    out = layers.fc(layers.fc(x, 8, act="tanh"), 1)
    loss = layers.mean(layers.square_error_cost(out, y))
    optim.minimize(loss)
    world.exe.run(world.startup)
    step = opstep.compile(world.main, ["x", "y"], [loss])
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    wanted = np.array([[0], [1], [1], [0]], np.float32)
    for _ in range(600):
        (value,) = step(corners, wanted)
    assert value < 0.01


def test_a_parameter_has_its_own_learning_rate_and_weight_decay(world) -> None:
    optim = optimizer.SGD(0.1, weight_decay=0.5)
    history = train(world, optim, learning_rate=0.5, weight_decay=0.25)
    check(history, lambda: lambda p, g, step: p - 0.05 * (g + 0.25 * p))


def test_a_parameter_is_exempt_from_weight_decay(world) -> None:
    history = train(world, optimizer.AdamW(0.1, 0.8, 0.9, 1e-3, weight_decay=9), weight_decay=0)
    check(history, adam(0.1, 0.0, decoupled=True))


def test_an_unknown_attribute_of_a_parameter(world) -> None:
    with pytest.raises(opstep.Error, match=r"no optimize_attr 'weight_decy'.*mean 'weight_decay'"):
        world.main.global_block().create_parameter("w", [1], optimize_attr={"weight_decy": 0})


def test_an_attribute_that_is_no_number(world) -> None:
    with pytest.raises(opstep.Error, match="'w': optimize_attr 'grad_clip' must be a number"):
        world.main.global_block().create_parameter("w", [1], optimize_attr={"grad_clip": "no"})


def test_attributes_of_parameters_are_saved_with_the_program(world) -> None:
    own = {"learning_rate": 0.5, "weight_decay": 0.0, "grad_clip": False}
    layers.fc(layers.data("x", [None, 2]), 3, weight_attr=own)
    for program in (opstep.Program.from_bytes(world.main.to_bytes()), world.main.clone()):
        w, b = program.parameters()
        assert w.optimize_attr == own and b.optimize_attr == {}


def test_two_losses_have_moments_of_their_own(world) -> None:
    w = world.main.global_block().create_parameter("w", [2])
    for factor in (1.0, -1.0):
        optimizer.Adam(0.1).minimize(layers.reduce_sum(w * factor))
    world.exe.run(world.startup)
    before = world.scope.find(w)
    for _ in range(3):
        world.exe.run(world.main)
    np.testing.assert_allclose(world.scope.find(w), before, atol=1e-6)
    moments = [world.scope.find(n)[0] for n in world.scope.names() if n.endswith("moment1")]
    assert len(moments) == 2 and moments[0] == -moments[1] != 0


def test_float64_parameters(world) -> None:
    w = world.main.global_block().create_parameter("w", [3], "float64")
    optimizer.Adam(lr.PolynomialDecay(0.1, 10)).minimize(layers.reduce_sum(w * w))
    world.exe.run(world.startup)
    start = world.scope.find(w)
    world.exe.run(world.main)
    np.testing.assert_allclose(world.scope.find(w), start - 0.1 * np.sign(start), rtol=1e-6)


# --- clipping -----------------------------------------------------------------------------------


def clipped(world, how: clipping.GradientClip, **attrs: Any) -> tuple[list[Any], list[Any]]:
    """The steps that SGD takes with learning rate 1, and the gradients."""
    block = world.main.global_block()
    gradients = [np.float32([3.0, -4.0, 0.25]), np.float32([[0.5], [12.0]])]
    for k, gradient in enumerate(gradients):
        block.create_parameter(
            f"p{k}", gradient.shape, initializer=opstep.initializer.Constant(0), optimize_attr=attrs
        )
    loss = layers.add(
        *(
            layers.reduce_sum(block.var(f"p{k}") * layers.constant(g))
            for k, g in enumerate(gradients)
        )
    )
    optimizer.SGD(1.0, grad_clip=how).minimize(loss)
    world.exe.run(world.startup)
    world.exe.run(world.main)
    return [-world.scope.find(f"p{k}") for k in range(2)], gradients


def test_clip_by_value(world) -> None:
    got, gradients = clipped(world, clipping.ClipByValue(3.5))
    for value, gradient in zip(got, gradients, strict=True):
        np.testing.assert_array_equal(value, np.clip(gradient, -3.5, 3.5))


def test_clip_by_value_with_two_ends(world) -> None:
    got, gradients = clipped(world, clipping.ClipByValue(2.0, min=-1.0))
    for value, gradient in zip(got, gradients, strict=True):
        np.testing.assert_array_equal(value, np.clip(gradient, -1, 2))


def test_clip_by_norm(world) -> None:
    got, gradients = clipped(world, clipping.ClipByNorm(6.0))
    np.testing.assert_array_equal(got[0], gradients[0])
    np.testing.assert_allclose(got[1], gradients[1] * 6 / np.linalg.norm(gradients[1]), rtol=1e-6)


def test_clip_by_global_norm(world) -> None:
    got, gradients = clipped(world, clipping.ClipByGlobalNorm(6.0))
    total = math.sqrt(sum((g**2).sum() for g in gradients))
    for value, gradient in zip(got, gradients, strict=True):
        np.testing.assert_allclose(value, gradient * 6 / total, rtol=1e-6)


def test_clip_by_global_norm_leaves_small_gradients_alone(world) -> None:
    got, gradients = clipped(world, clipping.ClipByGlobalNorm(60.0))
    for value, gradient in zip(got, gradients, strict=True):
        np.testing.assert_array_equal(value, gradient)


def test_a_parameter_is_exempt_from_clipping(world) -> None:
    got, gradients = clipped(world, clipping.ClipByGlobalNorm(6.0), grad_clip=False)
    for value, gradient in zip(got, gradients, strict=True):
        np.testing.assert_array_equal(value, gradient)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: clipping.ClipByValue(1.0, 2.0), "min is 2.0, above max"),
        (lambda: clipping.ClipByNorm(0), "a norm above 0"),
        (lambda: clipping.ClipByGlobalNorm(-1), "a norm above 0"),
        (lambda: optimizer.SGD("0.1"), "learning_rate must be a number, .* not a str"),
        (lambda: lr.StepDecay(0.1, 0), "1 step or more, not 0"),
        (lambda: lr.PiecewiseDecay([5], [1.0]), "1 boundaries, so it needs 2 values"),
        (lambda: lr.PiecewiseDecay([5, 3], [1.0, 2.0, 3.0]), "must rise"),
    ],
)
def test_wrong_settings(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(opstep.Error, match=message):
        make()


# --- schedules ----------------------------------------------------------------------------------

SCHEDULES: list[tuple[lr.Schedule, Callable[[int], float]]] = [
    (lr.Constant(0.3), lambda t: 0.3),
    (lr.StepDecay(0.5, 3, 0.2), lambda t: 0.5 * 0.2 ** (t // 3)),
    (
        lr.PiecewiseDecay([2, 5], [0.3, 0.2, 0.1]),
        lambda t: 0.3 if t < 2 else 0.2 if t < 5 else 0.1,
    ),
    (lr.ExponentialDecay(0.5, 3, 0.7), lambda t: 0.5 * 0.7 ** (t / 3)),
    (lr.ExponentialDecay(0.5, 3, 0.7, staircase=True), lambda t: 0.5 * 0.7 ** (t // 3)),
    (lr.PolynomialDecay(0.5, 6), lambda t: 0.5 * (1 - min(t, 6) / 6)),
    (
        lr.PolynomialDecay(0.5, 6, end=0.1, power=2.0),
        lambda t: 0.4 * (1 - min(t, 6) / 6) ** 2 + 0.1,
    ),
    (
        lr.LinearWarmup(lr.StepDecay(0.5, 2, 0.5), 4, start=0.1),
        lambda t: 0.1 + 0.4 * t / 4 if t < 4 else 0.5 * 0.5 ** ((t - 4) // 2),
    ),
    (lr.LinearWarmup(0.5, 4), lambda t: 0.5 * min(t / 4, 1)),
    (lr.NoamDecay(64, 4, 2.0), lambda t: 0.25 * min((t + 1) ** -0.5, (t + 1) * 4**-1.5)),
    (
        lr.CosineDecay(0.5, 6, end=0.1),
        lambda t: 0.1 + 0.2 * (1 + math.cos(math.pi * min(t, 6) / 6)),
    ),
]


@pytest.mark.parametrize(
    ("schedule", "formula"), SCHEDULES, ids=lambda item: type(item).__name__ if item else ""
)
def test_a_schedule(world, schedule: lr.Schedule, formula: Callable[[int], float]) -> None:
    w = world.main.global_block().create_parameter("w", [1])
    optimizer.SGD(schedule).minimize(layers.reduce_sum(w))
    world.exe.run(world.startup)
    got = [float(world.exe.run(world.main, fetch_list=["learning_rate_0"])[0]) for _ in range(10)]
    np.testing.assert_allclose(got, [formula(t) for t in range(10)], rtol=1e-6, atol=1e-9)


def test_a_learning_rate_that_the_program_computes(world) -> None:
    w = world.main.global_block().create_parameter("w", [2])
    rate = layers.data("rate", [1])
    optimizer.SGD(rate * 2.0).minimize(layers.reduce_sum(w))
    world.exe.run(world.startup)
    before = world.scope.find(w)
    world.exe.run(world.main, {"rate": np.float32([0.25])})
    np.testing.assert_allclose(world.scope.find(w), before - 0.5, rtol=1e-6)


def test_a_schedule_goes_on_where_it_ended(world) -> None:
    w = world.main.global_block().create_parameter("w", [1])
    optimizer.SGD(lr.PolynomialDecay(1.0, 10)).minimize(layers.reduce_sum(w))
    world.exe.run(world.startup)
    world.scope.set("optimizer_0.step", np.int64(7))
    (rate,) = world.exe.run(world.main, fetch_list=["learning_rate_0"])
    assert rate == pytest.approx(0.3)
    assert world.scope.find("optimizer_0.step") == 8


def test_a_minimize_that_fails_leaves_the_programs_as_they_were(world) -> None:
    x = layers.data("x", [None, 3])
    loss = layers.mean(layers.fc(x, size=2))
    before = str(world.main), str(world.startup)
    bad: Any = "much"
    with pytest.raises(opstep.Error):
        optimizer.Momentum(0.1, momentum=bad).minimize(loss)
    assert (str(world.main), str(world.startup)) == before
    optimizer.Momentum(0.1).minimize(loss)
    world.exe.run(world.startup)
    world.exe.run(world.main, feed={"x": np.ones((2, 3), np.float32)})
