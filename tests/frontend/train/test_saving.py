"""Programs that save by themselves: models with `inside`, checkpoints, and going on from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import opstep
from harness.world import World
from opstep import layers, lr, optimizer

RNG = np.random.default_rng(8)
FEED = {
    "x": RNG.random((6, 4), np.float32),
    "label": np.arange(6).reshape(6, 1) % 3,
}


def training() -> tuple[opstep.Variable, opstep.Variable]:
    x = layers.data("x", [None, 4])
    label = layers.data("label", [None, 1], "int64")
    scores = layers.fc(layers.dropout(layers.fc(x, 5, act="tanh"), 0.2), 3)
    loss = layers.mean(layers.softmax_with_cross_entropy(scores, label))
    optimizer.Adam(lr.CosineDecay(0.1, 20)).minimize(loss)
    return scores, loss


def run(world: World, loss: opstep.Variable, times: int, scope: opstep.Scope) -> list[bytes]:
    return [world.exe.run(world.main, FEED, [loss], scope)[0].tobytes() for _ in range(times)]


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(opstep.Error) as caught:
        call()
    return str(caught.value)


# --- models -------------------------------------------------------------------------------------


def test_a_model_that_its_program_saves_is_always_the_newest(world: World, tmp_path: Path) -> None:
    scores, loss = training()
    test = world.main.clone(for_test=True)
    home = tmp_path / "model"
    opstep.save_model(home, ["x"], [scores], inside=True)
    assert error_of(lambda: opstep.load_model(home)) == (
        f"the model in '{home}' has no parameters yet: run the program that saves them"
    )
    world.exe.run(world.startup)
    for _ in range(3):
        run(world, loss, 1, world.scope)
        scope = opstep.Scope()
        program, feeds, fetches = opstep.load_model(home, scope)
        assert (feeds, fetches) == (["x"], [scores.name])
        (got,) = program.run({"x": FEED["x"]}, fetches, scope)
        (wanted,) = world.exe.run(test, FEED, [scores])
        assert got.tobytes() == wanted.tobytes()
    assert sorted(load_file(home / "params.safetensors")) == scope.names()
    assert json.loads((home / "model.json").read_text())["sha256"].keys() == {"program.opstep"}


def test_parameters_of_another_model_do_not_pass_for_its_own(world: World, tmp_path: Path) -> None:
    scores, loss = training()
    home = tmp_path / "model"
    world.exe.run(world.startup)
    copy = world.main.clone(name="main")
    opstep.save_model(home, ["x"], [scores], inside=True)
    run(world, loss, 1, world.scope)
    # A script that is started again adds the same model; what was learned stays.
    opstep.save_model(home, ["x"], [scores.name], program=copy, inside=True)
    opstep.load_model(home, opstep.Scope())
    opstep.save_model(home, ["x"], [f"{scores.name[:-4]}.matmul.out"], program=copy, inside=True)
    assert "has no parameters yet" in error_of(lambda: opstep.load_model(home))


def test_parameters_that_do_not_fit_are_refused(world: World, tmp_path: Path) -> None:
    scores, loss = training()
    home = tmp_path / "model"
    opstep.save_model(home, ["x"], [scores], inside=True)
    world.exe.run(world.startup)
    run(world, loss, 1, world.scope)
    values = load_file(home / "params.safetensors")
    save_file(values | {"fc_0.w": np.zeros((4, 6), np.float32)}, home / "params.safetensors")
    scope = opstep.Scope()
    assert "'fc_0.w' as float32[4, 6] but the program has it as float32[4, 5]" in error_of(
        lambda: opstep.load_model(home, scope)
    )
    assert scope.names() == []
    (home / "params.safetensors").write_bytes(b"\0" * 40)
    assert "params.safetensors' is " in error_of(lambda: opstep.load_model(home, scope))


# --- checkpoints --------------------------------------------------------------------------------


def test_training_goes_on_from_a_checkpoint(world: World, tmp_path: Path) -> None:
    _, loss = training()
    file = tmp_path / "training.safetensors"
    opstep.checkpoint(file, every=3)
    straight, scope = opstep.Scope(), opstep.Scope()
    world.exe.run(world.startup, scope=straight)
    wanted = run(world, loss, 9, straight)
    file.unlink()

    assert opstep.resume(file, world.main, scope) is False
    world.exe.run(world.startup, scope=scope)
    assert run(world, loss, 2, scope) == wanted[:2] and not file.exists()
    assert run(world, loss, 3, scope) == wanted[2:5]
    # It ends here, two runs after its checkpoint.
    scope = opstep.Scope()
    assert opstep.resume(file, world.main, scope) is True
    assert scope.find("checkpoint_0.count") == 3
    assert run(world, loss, 2, scope) == wanted[3:5]
    assert load_file(file)["checkpoint_0.count"] == 3
    assert run(world, loss, 4, scope) == wanted[5:]
    assert load_file(file)["checkpoint_0.count"] == 9
    assert {n: scope.find(n).tobytes() for n in scope.names()} == {
        n: straight.find(n).tobytes() for n in straight.names()
    }


def test_a_checkpoint_of_each_run(world: World, tmp_path: Path) -> None:
    _, loss = training()
    opstep.checkpoint(tmp_path / "one")
    opstep.checkpoint(tmp_path / "two", every=1)
    world.exe.run(world.startup)
    for _ in range(2):
        run(world, loss, 1, world.scope)
        for name in ("one", "two"):
            read = load_file(tmp_path / name)
            assert sorted(read) == world.scope.names()
            assert all(np.array_equal(world.scope.find(n), value) for n, value in read.items())


def test_a_checkpoint_in_a_loop_counts_its_turns(world: World, tmp_path: Path) -> None:
    total = world.main.global_block().create_var("total", [], "int64", persistable=True)
    i = layers.fill([], 0, "int64")
    going = layers.less_than(i, 7)
    with layers.While(going).block():
        layers.increment(i)
        opstep.ops.add(total, i, out=total)
        opstep.checkpoint(tmp_path / "inside", every=5)
        layers.less_than(i, 7, out=going)
    world.exe.run(world.startup)
    world.scope.set("total", np.int64(0))
    world.exe.run(world.main)
    read = load_file(tmp_path / "inside")
    assert (read["total"], read["checkpoint_0.count"]) == (15, 5)
    world.exe.run(world.main)  # turns 8 to 14: the tenth is the third of this run
    read = load_file(tmp_path / "inside")
    assert (read["total"], read["checkpoint_0.count"]) == (28 + 6, 10)


def test_a_merged_program_goes_on_too(world: World, tmp_path: Path) -> None:
    _, loss = training()
    opstep.checkpoint(tmp_path / "merged", every=2)
    merged = opstep.merge(world.startup, world.main)
    wanted = [merged.run(FEED, [loss])[0].tobytes() for _ in range(4)][2:]
    (tmp_path / "merged").unlink()
    scope = opstep.Scope()
    assert not opstep.resume(tmp_path / "merged", merged, scope)
    merged.run(FEED, scope=scope)
    merged.run(FEED, scope=scope)
    scope = opstep.Scope()
    assert opstep.resume(tmp_path / "merged", merged, scope)
    assert [merged.run(FEED, [loss], scope)[0].tobytes() for _ in range(2)] == wanted


def test_a_checkpoint_stays_where_it_was_asked_for(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, loss = training()
    monkeypatch.chdir(tmp_path)
    opstep.checkpoint("here")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    world.exe.run(world.startup)
    run(world, loss, 1, world.scope)
    assert (tmp_path / "here").exists() and not (tmp_path / "elsewhere" / "here").exists()


def test_files_that_are_no_checkpoint_change_nothing(world: World, tmp_path: Path) -> None:
    _, loss = training()
    file = tmp_path / "file"
    opstep.checkpoint(file)
    world.exe.run(world.startup)
    run(world, loss, 1, world.scope)
    good = file.read_bytes()
    values = load_file(file)
    del values["fc_1.b"]
    save_file(values, tmp_path / "foreign")
    cases = [
        (good[:-1], "file' is "),
        (b"", "file' is "),
        (b"hello, world", "file' is "),
        ((tmp_path / "foreign").read_bytes(), "file' has no tensor 'fc_1.b'"),
    ]
    for data, message in cases:
        file.write_bytes(data)
        scope = opstep.Scope()
        said = error_of(lambda: opstep.resume(file, world.main, scope))  # noqa: B023
        assert message in said and "\n" not in said
        assert scope.names() == []
    file.unlink()
    file.mkdir()
    assert "it is a directory" in error_of(lambda: opstep.resume(file, world.main))


def test_a_checkpoint_that_cannot_be_written_is_said(world: World, tmp_path: Path) -> None:
    _, loss = training()
    opstep.checkpoint(tmp_path / "no" / "where")
    world.exe.run(world.startup)
    message = error_of(lambda: run(world, loss, 1, world.scope))
    assert "there is no directory" in message and "checkpoint_0.save" in message
    for every in (0, -1, 2.5):
        assert error_of(lambda: opstep.checkpoint("x", every=every)) == (  # noqa: B023
            f"a checkpoint every {every} runs is not possible: every is 1 or more"
        )
