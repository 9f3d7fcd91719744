"""Programs share values only where the user says so."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import opstep
from opstep import layers

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Net(NamedTuple):
    main: opstep.Program
    startup: opstep.Program
    out: opstep.Variable


def net(name: str | None = None, startup: opstep.Program | None = None, seed: int = 0) -> Net:
    main, startup = opstep.Program(), startup or opstep.Program()
    main.random_seed = seed
    with opstep.program_guard(main, startup):
        out = layers.fc(layers.data("x", [None, 3]), 2, name=name)
        opstep.optimizer.Adam(0.1).minimize(layers.mean(out * out))
    return Net(main, startup, out)


@pytest.fixture(autouse=True)
def scope() -> opstep.Scope:
    scope = opstep.Scope()
    with opstep.scope_guard(scope):
        yield scope


exe = opstep.Executor()


def run(one: Net, program: opstep.Program | None = None) -> np.ndarray:
    (out,) = exe.run(program or one.main, {"x": X}, [one.out.name])
    return out


def refused(what: str = "'fc_0.w' in this scope belongs to program"):
    return pytest.raises(opstep.Error, match=what)


def test_a_second_model_does_not_touch_the_first(scope: opstep.Scope) -> None:
    first, second = net(seed=1), net(seed=2)
    exe.run(first.startup)
    run(first)
    before = {name: scope.find(name) for name in scope.names()}
    with refused() as sentence:
        exe.run(second.startup)
    # Both programs are named with their lines, and there is something to write.
    assert f"belongs to program '{first.main.name}' (test_owners.py:" in str(sentence.value)
    assert f"program '{second.startup.name}' (test_owners.py:" in str(sentence.value)
    assert "scope=opstep.Scope()" in str(sentence.value)
    with refused():
        run(second)
    with refused():
        opstep.compile(second.main, ["x"], [second.out])(X)
    for name, value in before.items():
        np.testing.assert_array_equal(scope.find(name), value)
    run(first)


def test_what_to_write_instead(scope: opstep.Scope) -> None:
    first = net(seed=1)
    exe.run(first.startup)
    before = scope.find("fc_0.w")
    other = opstep.Scope()
    second = net(seed=2)
    exe.run(second.startup, scope=other)
    assert not np.array_equal(other.find("fc_0.w"), before)
    with opstep.name_scope("second"):
        third = net(seed=2)
    exe.run(third.startup)
    np.testing.assert_array_equal(scope.find("second/fc_0.w"), other.find("fc_0.w"))
    np.testing.assert_array_equal(scope.find("fc_0.w"), before)


def test_sharing_that_is_said() -> None:
    first = net("net")
    exe.run(first.startup)
    out = run(first, first.main.clone(for_test=True))
    np.testing.assert_array_equal(run(first, first.main.prune([first.out])), out)
    # An explicit name; without its own startup program run. Its training step is its own.
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        by_name = layers.fc(layers.data("x", [None, 3]), 2, name="net")
    np.testing.assert_array_equal(exe.run(main, {"x": X}, [by_name])[0], out)


def test_one_startup_program_of_two_programs() -> None:
    first = net("net")
    with opstep.program_guard(test := opstep.Program(), first.startup):
        out = layers.fc(layers.data("x", [None, 3]), 2, name="net")
        layers.fc(out, 2)
    exe.run(first.startup)
    expected = run(first, first.main.clone(for_test=True))
    np.testing.assert_array_equal(exe.run(test, {"x": X}, [out])[0], expected)
    with (
        opstep.program_guard(opstep.Program("third"), first.startup),
        refused("fills 'fc_0.w' for another program already: give program 'third' a startup"),
    ):
        layers.fc(layers.data("x", [None, 3]), 2)


def test_a_program_from_bytes_uses_values_by_name() -> None:
    first = net()
    startup = opstep.Program.from_bytes(first.startup.to_bytes())
    main = opstep.Program.from_bytes(first.main.clone(for_test=True).to_bytes())
    exe.run(startup)
    exe.run(main, {"x": X}, [first.out.name])


def test_a_model_that_has_gone_leaves_its_names(scope: opstep.Scope) -> None:
    """A notebook's cell that builds the model is run again."""
    for seed in range(3):
        model = net(seed=seed)
        exe.run(model.startup)
        fresh = scope.find("fc_0.w")
        run(model)
        assert not np.array_equal(scope.find("fc_0.w"), fresh)
        model = None  # type: ignore[assignment]


def test_erased_values_have_no_owner(scope: opstep.Scope) -> None:
    first, second = net(), net()
    exe.run(first.startup)
    for name in scope.names():
        scope.erase(name)
    exe.run(second.startup)
    with refused():
        exe.run(first.startup)


def test_what_a_scope_is_asked_by_variable(scope: opstep.Scope) -> None:
    first, second = net(), net()
    exe.run(first.startup)
    mine, other = first.main.parameters()[0], second.main.parameters()[0]
    assert mine in scope
    assert other not in scope
    assert scope.find(mine).shape == (3, 2)
    for look in (scope.find, scope.view, scope.erase, lambda v: scope.set(v, X)):
        with refused():
            look(other)


def test_files(scope: opstep.Scope, tmp_path: Path) -> None:
    first, second = net(seed=1), net(seed=2)
    exe.run(first.startup)
    before = scope.find("fc_0.w")
    file = tmp_path / "file"
    opstep.save_checkpoint(file, first.main)
    opstep.save_model(tmp_path / "model", ["x"], [first.out], first.main)
    for save in (opstep.save_params, opstep.save_checkpoint):
        with refused():
            save(tmp_path / "other", second.main)
    with refused():
        opstep.save_model(tmp_path / "other", ["x"], [second.out], second.main)
    what = "'fc_0.w' in this scope belongs to program .* would be replaced: load into another"
    for load in (opstep.load_params, opstep.load_checkpoint):
        with refused(what):
            load(file, second.main)
        load(file, first.main)
    with refused(what):
        opstep.load_model(tmp_path / "model")
    np.testing.assert_array_equal(scope.find("fc_0.w"), before)
    other = opstep.Scope()
    loaded = opstep.load_model(tmp_path / "model", other)
    with refused(what):
        opstep.load_model(tmp_path / "model", other)
    (out,) = exe.run(loaded.program, {"x": X}, loaded.fetches, scope=other)
    np.testing.assert_array_equal(out, run(first, first.main.clone(for_test=True)))


def test_joined_programs(scope: opstep.Scope) -> None:
    first, second = net(), net()
    what = "each have their own 'fc_0.w': build one of them inside opstep.name_scope"
    with refused(what):
        opstep.chain(first.main, second.main)
    exe.run(first.startup)
    model = opstep.model_of(first.out)
    with refused():
        opstep.model_of(second.out)
    exe.run(opstep.merge(net(seed=3).startup, first.main.clone()), {"x": X}, scope=opstep.Scope())
    assert opstep.gradient_machine(model).feed({"x": X}).forward().shape == (2, 2)


class Part(opstep.imperative.Layer):
    def forward(self, x):
        return layers.fc(x, 2)


def test_a_layer_takes_its_parameters_along(scope: opstep.Scope) -> None:
    part, other = Part(), Part()
    outs = []
    startups = []
    for layer in (part, part, other):
        main, startup = opstep.Program(), opstep.Program()
        with opstep.program_guard(main, startup):
            outs.append(layer(layers.data("x", [None, 3])))
        startups.append(startup)
    exe.run(startups[0])
    values = [exe.run(out.program, {"x": X}, [out])[0] for out in outs[:2]]
    np.testing.assert_array_equal(*values)
    with refused(".w' in this scope belongs to another layer"):
        exe.run(outs[2].program, {"x": X}, [outs[2]])


def test_graphs_of_two_functions_have_their_own_values() -> None:
    def function(x):
        return layers.relu(x) * 2

    one, two = opstep.to_graph(function), opstep.to_graph(function)
    np.testing.assert_array_equal(one(X), two(X))
    np.testing.assert_array_equal(one(X[:1]), two(X[:1]))
