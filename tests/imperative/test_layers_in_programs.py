"""One Layer in programs and in imperative mode: the same parameters, however it is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opstep
from opstep import imperative, layers, optimizer
from opstep.imperative import to_variable
from opstep.initializer import Normal

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


class Scaled(imperative.Layer):
    """With a parameter that is made in __init__."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = layers.create_parameter([3], initializer=Normal(), trainable=True)

    def forward(self, x: Any) -> Any:
        return x * self.scale


class Net(imperative.Layer):
    """Parameters made in __init__, by layers, by functions, and one layer called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = imperative.FC(3, act="tanh")
        self.inner = Scaled()
        self.shift = layers.create_parameter([3], initializer=Normal())
        self.drop = imperative.Dropout(0.3)

    def forward(self, x: Any) -> Any:
        x = self.hidden(self.inner(x)) + self.shift
        x = self.hidden(self.drop(self.inner(self.drop(x)))) - self.shift
        return layers.fc(layers.fc(x, 3), 1)


def loss_of(net: Net, x: Any) -> Any:
    """Of two calls, also of the functions inside."""
    return layers.mean(net(x) * net(x * 2.0))


NAMES = {
    "net/shift", "net/inner/scale", "net/hidden.w", "net/hidden.b",
    "net/fc_0.w", "net/fc_0.b", "net/fc_1.w", "net/fc_1.b",
}  # fmt: skip


class Compiled:
    def __init__(self, net: Net | None = None, outside: bool = True) -> None:
        self.main, startup, self.scope = opstep.Program(), opstep.Program(), opstep.Scope()
        self.main.random_seed = 5
        net = Net() if net is None and outside else net
        with opstep.program_guard(self.main, startup):
            self.net = net or Net()
            self.loss = loss_of(self.net, layers.data("x", [None, 3]))
            self.pairs = optimizer.SGD(0.1).minimize(self.loss, parameters=self.net.parameters())
        self.exe = opstep.Executor()
        self.exe.run(startup, scope=self.scope)

    def step(self) -> bytes:
        return self.exe.run(self.main, {"x": X}, [self.loss], self.scope)[0].tobytes()


def now(net: Net, sgd: optimizer.SGD) -> bytes:
    with imperative.guard():
        loss = loss_of(net, to_variable(X))
        sgd.minimize(loss, parameters=net.parameters())
        return loss.numpy().tobytes()


def steps_now(count: int = 4) -> tuple[list[bytes], Net]:
    imperative.seed(5)
    net, sgd = Net(), optimizer.SGD(0.1)
    return [now(net, sgd) for _ in range(count)], net


@pytest.mark.parametrize("outside", [True, False])
def test_both_modes_train_the_same(outside: bool) -> None:
    """Whether the layer is made while the program is being built or before."""
    compiled = Compiled(outside=outside)
    losses, net = steps_now()
    assert [compiled.step() for _ in range(4)] == losses
    assert len(set(losses)) == 4
    assert {p.name for p, _ in compiled.pairs} == NAMES
    values = {p.name: p.numpy() for p in net.parameters()}
    assert values.keys() == NAMES
    for name, value in values.items():
        assert compiled.scope.find(name).tobytes() == value.tobytes(), name


def test_what_was_compiled_goes_on_line_by_line() -> None:
    """The layer takes what the startup program made, and the counters and seeds of its dropout."""
    compiled, sgd = Compiled(), optimizer.SGD(0.1)
    losses = [compiled.step()]
    compiled.net.share(compiled.scope)
    losses += [now(compiled.net, sgd), compiled.step(), now(compiled.net, sgd)]
    assert losses == steps_now()[0]


def test_what_ran_line_by_line_goes_on_compiled() -> None:
    imperative.seed(5)
    net, sgd = Net(), optimizer.SGD(0.1)
    losses = [now(net, sgd)]
    compiled = Compiled(net)
    net.share(compiled.scope)
    losses += [compiled.step(), now(net, sgd), compiled.step()]
    assert losses == steps_now()[0]


def test_parameters_are_the_programs_while_it_is_built() -> None:
    net = steps_now(1)[1]
    main = opstep.Program()
    with opstep.program_guard(main, opstep.Program()):
        assert net.shift.numpy().shape == (3,), "it has not joined yet"
        net(layers.data("x", [None, 3]))
        assert net.shift is main.global_block().var("net/shift")
        assert net.hidden.w is main.global_block().var("net/hidden.w")
        assert {p.program for p in net.parameters()} == {main}
        with imperative.guard():
            assert isinstance(net.shift, imperative.Value)
    assert isinstance(net.shift, imperative.Value)
    assert [name for name, _ in net.named_parameters()][:2] == ["shift", "fc_0.w"]


def test_layers_of_one_name_are_two_in_a_program() -> None:
    main = opstep.Program()
    with opstep.program_guard(main, opstep.Program()):
        x = layers.data("x", [None, 3])
        a, b = imperative.FC(3), imperative.FC(3)
        b(layers.fc(a(x), 3))
        layers.fc(a(x), 3)
    assert [p.name for p in main.parameters()] == [
        "fc.w", "fc.b", "fc_0.w", "fc_0.b", "fc_2.w", "fc_2.b", "fc_4.w", "fc_4.b",
    ]  # fmt: skip


def test_a_copy_of_the_program_knows_the_layer() -> None:
    main, scope = opstep.Program(), opstep.Scope()
    with opstep.program_guard(main, opstep.Program()):
        net = imperative.FC(2)
        net(layers.data("x", [None, 3]))
    copy = main.clone()
    out = net(copy.global_block().var("x"))
    assert [p.name for p in copy.parameters()] == ["fc.w", "fc.b"]
    with imperative.guard():
        expected = net(to_variable(X)).numpy()
    net.share(scope)
    assert opstep.Executor().run(copy, {"x": X}, [out], scope)[0].tobytes() == expected.tobytes()


class Tied(imperative.Layer):
    """Two layers with one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Scaled(), Scaled()
        self.second.scale = self.first.scale

    def forward(self, x: Any) -> Any:
        return layers.mean(self.second(self.first(x)))


def test_a_parameter_of_two_layers_is_one() -> None:
    net, sgd = Tied(), optimizer.SGD(1.0)
    before = net.first.scale.numpy().copy()
    with imperative.guard():
        assert len(net.parameters()) == 1
        sgd.minimize(net(to_variable(X)), parameters=net.parameters())
    expected = net.first.scale.numpy().copy()
    np.testing.assert_allclose(expected, before - 2 * before * X.mean(0) / 3, rtol=1e-5)

    main, startup, scope = opstep.Program(), opstep.Program(), opstep.Scope()
    np.copyto(net.first.scale.numpy(), before)
    with opstep.program_guard(main, startup):
        loss = net(layers.data("x", [None, 3]))
        assert len(net.parameters()) == 1
        optimizer.SGD(1.0).minimize(loss)
    exe = opstep.Executor()
    exe.run(startup, scope=scope)
    net.share(scope)
    exe.run(main, {"x": X}, [loss], scope)
    assert net.first.scale.numpy().tobytes() == expected.tobytes()


def test_one_startup_program_fills_a_layer_for_several() -> None:
    startup, scope, exe = opstep.Program(), opstep.Scope(), opstep.Executor()
    net, programs = Net(), {}
    for name in ("training", "test"):
        programs[name] = opstep.Program(name)
        with opstep.program_guard(programs[name], startup):
            programs[name].random_seed = 5
            out = net(layers.data("x", [None, 3]))
        net.eval()
    exe.run(startup, scope=scope)
    (compiled,) = exe.run(programs["test"], {"x": X}, [out], scope)
    imperative.seed(5)
    other = Net()
    with imperative.guard():
        other(to_variable(X))
        other.eval()
        assert other(to_variable(X)).numpy().tobytes() == compiled.tobytes()
