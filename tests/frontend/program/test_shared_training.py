"""Programs that share a parameter and each train it: what belongs to their optimizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import opstep
from opstep import imperative, layers
from opstep.optimizer import SGD, Adam

X = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
exe = opstep.Executor()


class Net(NamedTuple):
    main: opstep.Program
    startup: opstep.Program
    loss: opstep.Variable

    def train(self, scope: opstep.Scope | None = None) -> float:
        return float(exe.run(self.main, {"x": X}, [self.loss], scope)[0])

    def state(self, kind: str) -> opstep.Variable:
        (found,) = (
            v for name, v in self.main.global_block().vars.items() if v.persistable and kind in name
        )
        return found


def net(
    optimizer: Any,
    layer: Any = None,
    startup: opstep.Program | None = None,
    name: str = "shared",
) -> Net:
    main, startup = opstep.Program("main"), startup or opstep.Program("startup")
    main.random_seed = 1
    with opstep.program_guard(main, startup):
        x = layers.data("x", [None, 3])
        out = layers.fc(x, 2, name=name) if layer is None else layer(x)
        loss = layers.mean(out * out)
        optimizer.minimize(loss)
    return Net(main, startup, loss)


@pytest.fixture(autouse=True)
def scope() -> opstep.Scope:
    scope = opstep.Scope()
    with opstep.scope_guard(scope):
        yield scope


SHARED = {"by name": lambda: None, "by layer": lambda: imperative.FC(2)}


@pytest.mark.parametrize("kind", [SGD, Adam])
@pytest.mark.parametrize("way", SHARED)
def test_two_optimizers(scope: opstep.Scope, kind: Any, way: str) -> None:
    layer = SHARED[way]()
    first, second = net(kind(0.1), layer), net(kind(0.2), layer)
    weight = first.main.parameters()[0]
    for one in (first, second):
        exe.run(one.startup)
    # The one has 0.1, and the other 0.2; both change one parameter.
    assert scope.find(first.state("learning_rate")) == np.float32(0.1)
    assert scope.find(second.state("learning_rate")) == np.float32(0.2)
    scope.set(second.state("learning_rate"), np.float32(0))
    first.train()
    before = scope.find(weight)
    second.train()
    np.testing.assert_array_equal(scope.find(weight), before)
    scope.set(second.state("learning_rate"), np.float32(0.2))
    for _ in range(3):
        first.train()
        second.train()
    assert not np.array_equal(scope.find(weight), before)
    if kind is Adam:
        assert [scope.find(one.state(".step")) for one in (first, second)] == [4, 4]
        first.train()
        assert [scope.find(one.state(".step")) for one in (first, second)] == [5, 4]
        moments = [scope.find(one.state(".w.adam.moment1")) for one in (first, second)]
        assert not np.array_equal(*moments)
    # The second one's values are also found by name.
    assert scope.find("learning_rate_0@2") == np.float32(0.2)
    # A startup program that runs again fills what is its own.
    exe.run(second.startup)
    assert scope.find(first.state("learning_rate")) == np.float32(0.1)


@pytest.mark.parametrize("kind", [SGD, Adam])
@pytest.mark.parametrize("way", SHARED)
def test_one_optimizer(scope: opstep.Scope, kind: Any, way: str) -> None:
    layer, optimizer = SHARED[way](), kind(0.1)
    first, second = net(optimizer, layer), net(optimizer, layer)
    exe.run(first.startup)
    # Two steps of one training, as if one program had made both.
    alone = net(kind(0.1))
    exe.run(alone.startup, scope=(other := opstep.Scope()))
    for name in (".w", ".b"):
        copied = scope.find(first.main.parameters()[name == ".b"])
        other.set(f"shared{name}", copied)
    expected = [alone.train(other) for _ in range(4)]
    assert [one.train() for _ in range(2) for one in (first, second)] == expected
    assert not [name for name in scope.names() if "@" in name]
    if kind is Adam:
        assert scope.find("optimizer_0.step") == 4


def test_one_optimizer_for_models_that_share_nothing(scope: opstep.Scope) -> None:
    optimizer = Adam(0.1)
    first, second = net(optimizer, name="first"), net(optimizer, name="second")
    for one in (first, second):
        exe.run(one.startup)
    first.train()
    assert [scope.find(one.state(".step")) for one in (first, second)] == [1, 0]


def test_a_rate_that_was_changed_before_the_second_program(scope: opstep.Scope) -> None:
    optimizer = Adam(0.1)
    first = net(optimizer)
    optimizer.learning_rate = 0.2
    second = net(optimizer)
    for one in (first, second):
        exe.run(one.startup)
    rates = [scope.find(one.state("learning_rate")) for one in (first, second)]
    assert rates == [np.float32(0.1), np.float32(0.2)]
    for one in (first, second):
        one.train()
    assert scope.find("optimizer_0.step") == 2


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_one_startup_program(scope: opstep.Scope, kind: Any) -> None:
    """It fills what both need: the user need not run a second one, which would begin again."""
    first = net(kind(0.1))
    second = net(kind(0.2), startup=first.startup)
    exe.run(first.startup)
    assert scope.find("learning_rate_0") == np.float32(0.1)
    assert scope.find("learning_rate_1") == np.float32(0.2)
    for _ in range(3):
        first.train()
        second.train()
    if kind is Adam:
        assert [scope.find(one.state(".step")) for one in (first, second)] == [3, 3]
    optimizer = kind(0.1)
    third = net(optimizer)
    fourth = net(optimizer, startup=third.startup)
    exe.run(third.startup)
    assert third.train() > fourth.train()
    assert third.state("learning_rate").name == fourth.state("learning_rate").name


def test_clones_with_two_optimizers(scope: opstep.Scope) -> None:
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        loss = layers.mean(layers.square(layers.fc(layers.data("x", [None, 3]), 2)))
    clones = [main.clone(), main.clone()]
    for clone, rate in zip(clones, (0.1, 0.0), strict=True):
        Adam(rate).minimize(clone.global_block().var(loss.name))
    exe.run(startup)
    exe.run(clones[0], {"x": X})
    before = scope.find("fc_0.w")
    exe.run(clones[1], {"x": X})
    np.testing.assert_array_equal(scope.find("fc_0.w"), before)
    assert scope.find("optimizer_0.step") == 1


def test_models_of_two_names(scope: opstep.Scope) -> None:
    first, second = net(Adam(0.1), name="first"), net(Adam(0.2), name="second")
    for one in (first, second):
        exe.run(one.startup)
        one.train()
    other = opstep.Scope()
    exe.run(second.startup, scope=other)
    second.train(other)
    # Where nobody else has the name it is the plain one, and the results are the same.
    np.testing.assert_array_equal(scope.find("second.w"), other.find("second.w"))
    assert not [name for name in other.names() if "@" in name]


def test_checkpoints_keep_their_names(scope: opstep.Scope, tmp_path: Path) -> None:
    first, second = net(Adam(0.1)), net(Adam(0.2))
    for one in (first, second):
        exe.run(one.startup)
    for _ in range(3):
        second.train()
    file = tmp_path / "checkpoint"
    opstep.save_checkpoint(file, second.main)
    # As if the program were alone in the process: a file from before fits, and this one fits there.
    types = opstep._core.read_types(str(file))
    assert {"learning_rate_0", "optimizer_0.step"} <= types.keys()
    expected = second.train()
    exe.run(second.startup)
    opstep.load_checkpoint(file, second.main)
    assert scope.find(second.state(".step")) == 3
    assert scope.find(first.state(".step")) == 0
    assert second.train() == expected
    other = opstep.Scope()
    opstep.load_checkpoint(file, second.main, other)
    assert other.find("optimizer_0.step") == 3
    assert second.train(other) == expected
    # In a scope where only the first one has values.
    third = opstep.Scope()
    exe.run(first.startup, scope=third)
    opstep.load_checkpoint(file, second.main, third)
    assert [third.find(one.state(".step")) for one in (first, second)] == [0, 3]
    # And into the program that has the plain names.
    opstep.load_checkpoint(file, first.main, third)
    assert third.find("optimizer_0.step") == 3


def test_a_copy_for_tests_and_a_saved_model(scope: opstep.Scope, tmp_path: Path) -> None:
    first, second = net(Adam(0.1)), net(Adam(0.2))
    exe.run(first.startup)
    exe.run(second.startup)
    second.train()
    test = second.main.clone(for_test=True)
    (expected,) = exe.run(test, {"x": X}, [second.loss.name])
    with opstep.program_guard(second.main):
        opstep.save_model(tmp_path / "model", ["x"], [second.loss])
    loaded = opstep.load_model(tmp_path / "model", other := opstep.Scope())
    (out,) = exe.run(loaded.program, {"x": X}, loaded.fetches, scope=other)
    np.testing.assert_array_equal(out, expected)
    copy = second.main.clone()
    exe.run(copy, {"x": X})
    assert [scope.find(one.state(".step")) for one in (first, second)] == [0, 2]


def test_a_program_that_has_gone_leaves_its_place(scope: opstep.Scope) -> None:
    """A notebook's cell that builds the second program is run again."""
    first = net(Adam(0.1))
    exe.run(first.startup)
    for _ in range(3):
        second = net(Adam(0.2))
        # What the one before had is not there any more.
        assert second.state(".step") not in scope
        exe.run(second.startup)
        second.train()
        assert scope.find("optimizer_0.step@2") == 1
        assert "optimizer_0.step@3" not in scope
        second = None  # type: ignore[assignment]
    first = None  # type: ignore[assignment]
    second = net(Adam(0.2))
    exe.run(second.startup)
    assert scope.find("learning_rate_0") == np.float32(0.2)


def test_merged_programs(scope: opstep.Scope) -> None:
    first, second = net(Adam(0.1)), net(Adam(0.2))
    for one in (first, second):
        merged = opstep.merge(one.startup, one.main)
        for _ in range(2):
            exe.run(merged, {"x": X})
    assert [scope.find(one.state(".step")) for one in (first, second)] == [2, 2]


def test_imperative_steps_share_the_state(scope: opstep.Scope) -> None:
    layer, optimizer = imperative.FC(2), Adam(0.1)
    other = net(Adam(0.2), layer)
    exe.run(other.startup)
    one = net(optimizer, layer)
    exe.run(one.startup)
    one.train()
    optimizer.share()
    layer.share()
    with imperative.guard():
        loss = layers.mean(layers.square(layer(imperative.to_variable(X))))
        optimizer.minimize(loss, parameters=layer.parameters())
    assert scope.find(one.state(".step")) == 2
    one.train()
    assert [scope.find(each.state(".step")) for each in (one, other)] == [3, 0]


def test_the_sentences_advice_works(scope: opstep.Scope) -> None:
    """One part is shared by name, and the other has the name that it was given."""

    def head(where: str | None = None, name: str | None = None) -> Net:
        main, startup = opstep.Program(), opstep.Program()
        with opstep.program_guard(main, startup):
            hidden = layers.fc(layers.data("x", [None, 3]), 2, name="shared")
            with opstep.name_scope(where or "head"):
                loss = layers.mean(layers.square(layers.fc(hidden, 2, name=name)))
            Adam(0.1).minimize(loss)
        return Net(main, startup, loss)

    first = head()
    exe.run(first.startup)
    with pytest.raises(opstep.Error) as failed:
        exe.run(head().startup)
    assert (
        "run it in another scope (scope=opstep.Scope()) or make 'head/fc_0.w' inside "
        "opstep.name_scope; to share values, use clone() or the same name= for the layer"
    ) in str(failed.value)
    second = head("second")
    exe.run(second.startup)
    second.train()
    one, two = head(name="named"), head(name="named")
    for each in (one, two):
        exe.run(each.startup)
        each.train()
    exe.run(head().startup, scope=opstep.Scope())


def test_chained(scope: opstep.Scope) -> None:
    with pytest.raises(opstep.Error) as failed:
        opstep.chain(net(Adam(0.1)).main, net(Adam(0.1)).main)
    assert (
        "belong to two optimizers: train both with the same optimizer object, or run the programs "
        "one after the other"
    ) in str(failed.value)
    optimizer = Adam(0.1)
    first, second = net(optimizer), net(optimizer)
    exe.run(first.startup)
    exe.run(opstep.chain(first.main, second.main), {"x": X})
    assert scope.find("optimizer_0.step") == 2


def test_a_copy_in_bytes_with_the_startup_program(scope: opstep.Scope) -> None:
    first = net(Adam(0.1))
    copy = opstep.Program.from_bytes(first.main.to_bytes())
    with opstep.program_guard(copy, first.startup):
        pass
    exe.run(first.startup)
    first.train()
    exe.run(copy, {"x": X})
    assert scope.find("optimizer_0.step") == 2
    # Without one it finds all by name.
    exe.run(opstep.Program.from_bytes(first.main.to_bytes()), {"x": X})
    assert scope.find("optimizer_0.step") == 3
