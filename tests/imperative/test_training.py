"""Models train in both modes to the same bits, from the same code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import imperative, layers, lr, optimizer
from opstep.clipping import ClipByGlobalNorm, ClipByNorm, ClipByValue

STEPS = 6
Feed = dict[str, np.ndarray]


class Mlp(imperative.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = imperative.FC(16, act="relu")
        self.norm = imperative.LayerNorm()
        self.drop = imperative.Dropout(0.25)
        self.out = imperative.FC(4)

    def forward(self, x: Any) -> Any:
        return self.out(self.drop(self.norm(self.hidden(x))))


class ConvNet(imperative.Layer):
    """With the functions of opstep.layers, some of them without a name."""

    def forward(self, x: Any) -> Any:
        x = layers.conv2d(x, 4, 3, padding=1)
        x = layers.batch_norm(x, act="relu", is_test=not self.training)
        x = layers.pool2d(x, 2)
        x = layers.conv2d(x, 6, 3, act="relu", name="second")
        return layers.fc(x, 4)


class Words(imperative.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.words = imperative.Embedding([12, 8], padding_idx=0)
        self.tail = imperative.Sequential(imperative.FC(8, act="tanh"), imperative.FC(4))

    def forward(self, ids: Any) -> Any:
        return self.tail(self.words(ids).mean(axis=1))


def batches(model: type[imperative.Layer]) -> list[Feed]:
    rng = np.random.default_rng(3)
    make: dict[type, Callable[[], np.ndarray]] = {
        Mlp: lambda: rng.normal(size=(8, 10)).astype(np.float32),
        ConvNet: lambda: rng.normal(size=(4, 3, 8, 8)).astype(np.float32),
        Words: lambda: rng.integers(0, 12, (8, 5)),
    }
    feeds = []
    for _ in range(STEPS):
        x = make[model]()
        feeds.append({"x": x, "label": rng.integers(0, 4, (len(x), 1))})
    return feeds


def loss_of(model: imperative.Layer, x: Any, label: Any) -> Any:
    return layers.mean(layers.softmax_with_cross_entropy(model(x), label))


def train_compiled(
    kind: type[imperative.Layer], make: Callable[[], optimizer.Optimizer]
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    main, startup = opstep.Program(), opstep.Program()
    main.random_seed = 5
    feeds = batches(kind)
    with opstep.program_guard(main, startup):
        x = layers.data("x", shape=[None, *feeds[0]["x"].shape[1:]], dtype=str(feeds[0]["x"].dtype))
        label = layers.data("label", shape=[None, 1], dtype="int64")
        loss = loss_of(kind(), x, label)
        make().minimize(loss)
    scope, exe = opstep.Scope(), opstep.Executor()
    exe.run(startup, scope=scope)
    losses = [exe.run(main, feed, [loss], scope)[0] for feed in feeds]
    return losses, {p.name: scope.find(p) for p in main.parameters()}


def train_now(
    kind: type[imperative.Layer], make: Callable[[], optimizer.Optimizer]
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    imperative.seed(5)
    model, steps, losses = kind(), make(), []
    with imperative.guard():
        for feed in batches(kind):
            x, label = map(imperative.to_variable, (feed["x"], feed["label"]))
            loss = loss_of(model, x, label)
            loss.backward()
            steps.step(model.parameters())
            losses.append(loss.numpy())
    values = {value.name: value.numpy() for _, value in model._named_values()}
    return losses, values


def compare(kind: type[imperative.Layer], make: Callable[[], optimizer.Optimizer]) -> None:
    losses, parameters = train_compiled(kind, make)
    losses_now, parameters_now = train_now(kind, make)
    assert [a.tobytes() for a in losses_now] == [a.tobytes() for a in losses]
    assert losses[0] != losses[-1]
    assert parameters
    for name, value in parameters.items():
        assert parameters_now[name].tobytes() == value.tobytes(), name


@pytest.mark.parametrize("kind", [Mlp, ConvNet, Words])
def test_a_model_trains_to_the_same_bits(kind: type[imperative.Layer]) -> None:
    compare(kind, lambda: optimizer.Adam(0.01))


@pytest.mark.parametrize(
    "make",
    [
        lambda: optimizer.SGD(0.1, weight_decay=0.01),
        lambda: optimizer.Momentum(0.1, grad_clip=ClipByNorm(0.1)),
        lambda: optimizer.Adam(lr.CosineDecay(0.01, steps=4), grad_clip=ClipByGlobalNorm(0.5)),
        lambda: optimizer.AdamW(0.01, grad_clip=ClipByValue(0.01)),
    ],
    ids=["sgd", "momentum", "adam", "adamw"],
)
def test_an_optimizer_takes_the_same_steps(make: Callable[[], optimizer.Optimizer]) -> None:
    compare(Mlp, make)


def test_the_mode_changes_between_two_steps_of_one_loop() -> None:
    """Every other step is compiled; both modes use the same memory."""
    expected, _ = train_compiled(Mlp, lambda: optimizer.SGD(0.1))
    main, startup = opstep.Program(), opstep.Program()
    main.random_seed = 5
    model = Mlp()
    with opstep.program_guard(main, startup):
        x = layers.data("x", shape=[None, 10])
        label = layers.data("label", shape=[None, 1], dtype="int64")
        loss = loss_of(model, x, label)
        optimizer.SGD(0.1).minimize(loss)
    scope, exe, steps = opstep.Scope(), opstep.Executor(), optimizer.SGD(0.1)
    exe.run(startup, scope=scope)
    imperative.seed(5)
    losses = []
    for number, feed in enumerate(batches(Mlp)):
        if number == 1:  # the first call has made the parameters
            model.share(scope)
        if number % 2:
            losses.append(exe.run(main, feed, [loss], scope)[0])
            continue
        with imperative.guard():
            x_now, label_now = map(imperative.to_variable, (feed["x"], feed["label"]))
            now = loss_of(model, x_now, label_now)
            steps.minimize(now, parameters=model.parameters())
            losses.append(now.numpy())
    assert [a.tobytes() for a in losses] == [a.tobytes() for a in expected]


def test_minimize_is_backward_and_step() -> None:
    results = []
    for at_once in (True, False):
        imperative.seed(1)
        model, steps = Mlp(), optimizer.Adam(0.01)
        with imperative.guard():
            for feed in batches(Mlp):
                x, label = map(imperative.to_variable, (feed["x"], feed["label"]))
                loss = loss_of(model, x, label)
                if at_once:
                    steps.minimize(loss, parameters=model.parameters())
                else:
                    loss.backward()
                    steps.step(model.parameters())
        results.append(model.state_dict())
    assert all(np.array_equal(results[0][name], results[1][name]) for name in results[0])
    assert all(p.gradient is None for p in model.parameters())


def test_minimize_changes_nothing_but_what_it_was_told() -> None:
    """Two losses over two layers, as in a GAN: what one step leaves does not reach the other."""
    with imperative.guard():
        first, second = imperative.FC(3), imperative.FC(1)
        x = imperative.to_variable(np.ones((2, 3), np.float32))
        layers.mean(second(first(x))).backward()
        kept = [p.gradient.numpy().copy() for p in first.parameters()]
        values = [p.numpy().copy() for p in first.parameters()]
        loss = layers.mean(second(first(x)))
        changed = optimizer.SGD(0.1).minimize(loss, parameters=second.parameters())
        assert [p.name for p, _ in changed] == ["fc.w", "fc.b"]
        for p, gradient, value in zip(first.parameters(), kept, values, strict=True):
            assert np.array_equal(p.gradient.numpy(), gradient)
            assert np.array_equal(p.numpy(), value)
        assert all(p.gradient is None for p in second.parameters())


def test_no_gradient_passes_what_is_detached() -> None:
    def loss_of_both(x: Any) -> Any:
        return layers.mean(x * x.detach())

    array = np.array([1.0, 2.0], np.float32)
    with imperative.guard():
        x = imperative.to_variable(array, stop_gradient=False)
        loss_of_both(x).backward()
        now = x.gradient.numpy()
    main = opstep.Program()
    with opstep.program_guard(main, opstep.Program()):
        fed = layers.data("x", [2])
        fed.stop_gradient = False
        ((_, gradient),) = opstep.append_backward(loss_of_both(fed), [fed])
    (compiled,) = opstep.Executor().run(main, {"x": array}, [gradient])
    assert compiled.tobytes() == now.tobytes() == (array / 2).tobytes()
