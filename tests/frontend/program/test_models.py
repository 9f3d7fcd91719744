"""save_model, load_model, parameters and checkpoints in files; and directories made to do harm."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import opstep
from harness.world import World
from opstep import layers, ops

X = np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)
LABEL = np.array([[0], [1], [2], [0]])


@pytest.fixture
def net(world: World) -> tuple[opstep.Variable, opstep.Variable]:
    """A net with its training step, a few steps trained: scores and loss."""
    x = layers.data("x", shape=[None, 5])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    scores = layers.fc(layers.fc(x, size=7, act="tanh"), size=3)
    loss = layers.mean(layers.softmax_with_cross_entropy(scores, label))
    opstep.optimizer.Adam(learning_rate=0.05).minimize(loss)
    world.exe.run(world.startup)
    for _ in range(3):
        train(world, loss)
    return scores, loss


def train(world: World, loss: opstep.Variable, scope: opstep.Scope | None = None) -> float:
    feed = {"x": X, "label": LABEL}
    (value,) = world.exe.run(world.main, feed=feed, fetch_list=[loss], scope=scope)
    return float(value)


def scores_of(world: World, scores: opstep.Variable) -> np.ndarray:
    (value,) = world.exe.run(world.main.prune([scores]), feed={"x": X}, fetch_list=[scores.name])
    return value


@pytest.fixture
def saved(world: World, net: tuple[opstep.Variable, opstep.Variable], tmp_path: Path) -> Path:
    opstep.save_model(tmp_path / "model", ["x"], [net[0]], world.main)
    return tmp_path / "model"


# --- models -------------------------------------------------------------------------------------


def test_a_model_comes_back_with_topology_and_parameters(
    world: World, net: tuple[opstep.Variable, opstep.Variable], saved: Path
) -> None:
    scope = opstep.Scope()
    program, feeds, fetches = opstep.load_model(saved, scope)
    assert (feeds, fetches) == (["x"], [net[0].name])
    (got,) = opstep.Executor().run(program, feed={"x": X}, fetch_list=fetches, scope=scope)
    np.testing.assert_array_equal(got, scores_of(world, net[0]))
    # Nothing of training is left.
    assert len(program.global_block().ops) < len(world.main.global_block().ops) / 2
    assert scope.names() == sorted(p.name for p in world.main.parameters())
    # Its ops know their lines.
    assert program.global_block().ops[0].stack[0].file == __file__
    assert sorted(p.name for p in saved.iterdir()) == [
        "model.json",
        "params.safetensors",
        "program.opstep",
    ]


def test_others_read_the_parameters(world: World, saved: Path) -> None:
    read = load_file(saved / "params.safetensors")
    assert sorted(read) == sorted(p.name for p in world.main.parameters())
    for name, value in read.items():
        np.testing.assert_array_equal(value, world.scope.find(name))


def test_a_model_can_be_saved_again_in_its_place(
    world: World, net: tuple[opstep.Variable, opstep.Variable], saved: Path
) -> None:
    train(world, net[1])
    opstep.save_model(saved, ["x"], [net[0]], world.main)
    scope = opstep.Scope()
    program, _, fetches = opstep.load_model(saved, scope)
    (got,) = opstep.Executor().run(program, feed={"x": X}, fetch_list=fetches, scope=scope)
    np.testing.assert_array_equal(got, scores_of(world, net[0]))


def test_what_save_model_refuses(
    world: World, net: tuple[opstep.Variable, opstep.Variable], tmp_path: Path
) -> None:
    scores, loss = net
    there = tmp_path / "m"
    for feeds, fetches, message in [
        (["x"], [], "a model needs something to fetch"),
        (["y"], [scores], "has no variable 'y'"),
        (["x"], ["fc_1.outt"], "has no variable 'fc_1.outt'; did you mean 'fc_1.out'"),
        ([], [scores], "the model must be fed 'x' too"),
        (["x", "label"], [scores], "nothing reads 'label': do not feed it"),
        (["x"], [loss], "the model must be fed 'label' too"),
    ]:
        with pytest.raises(opstep.Error, match=message):
            opstep.save_model(there, feeds, fetches, world.main)
        assert not there.exists()
    with pytest.raises(opstep.Error, match=r"cannot make the directory .*: No such file"):
        opstep.save_model(tmp_path / "a" / "b", ["x"], [scores], world.main)
    with pytest.raises(opstep.Error, match=r"'fc_0.w' has no value yet"):
        opstep.save_model(there, ["x"], [scores], world.main, opstep.Scope())
    with pytest.raises(opstep.Error, match="a int is not a path"):
        opstep.save_model(3, ["x"], [scores], world.main)  # type: ignore[arg-type]


# --- parameters and checkpoints -----------------------------------------------------------------


def test_training_goes_on_from_a_checkpoint_bit_by_bit(
    world: World, net: tuple[opstep.Variable, opstep.Variable], tmp_path: Path
) -> None:
    loss = net[1]
    opstep.save_checkpoint(tmp_path / "c.safetensors", world.main)
    went_on = [train(world, loss) for _ in range(3)]
    scope = opstep.Scope()
    opstep.load_checkpoint(tmp_path / "c.safetensors", world.main, scope)
    assert [train(world, loss, scope) for _ in range(3)] == went_on
    for name in world.scope.names():
        np.testing.assert_array_equal(scope.find(name), world.scope.find(name))


def test_dropout_goes_on_from_a_checkpoint_and_is_off_in_a_model(
    world: World, tmp_path: Path
) -> None:
    x = layers.data("x", shape=[None, 5])
    y = layers.dropout(layers.fc(x, size=40), 0.5)
    world.exe.run(world.startup)
    world.exe.run(world.main, feed={"x": X})
    opstep.save_checkpoint(tmp_path / "c", world.main)
    opstep.save_model(tmp_path / "m", [x], [y], world.main)
    (went_on,) = world.exe.run(world.main, feed={"x": X}, fetch_list=[y])
    scope = opstep.Scope()
    opstep.load_checkpoint(tmp_path / "c", world.main, scope)
    (got,) = world.exe.run(world.main, feed={"x": X}, fetch_list=[y], scope=scope)
    np.testing.assert_array_equal(got, went_on)
    assert (got == 0).any()
    scope = opstep.Scope()
    program, _, fetches = opstep.load_model(tmp_path / "m", scope)
    (whole,) = world.exe.run(program, feed={"x": X}, fetch_list=fetches, scope=scope)
    assert not (whole == 0).any()


def test_parameters_alone(
    world: World, net: tuple[opstep.Variable, opstep.Variable], tmp_path: Path
) -> None:
    path = tmp_path / "p.safetensors"
    opstep.save_params(path, world.main)
    names = {p.name for p in world.main.parameters()}
    assert load_file(path).keys() == names
    scope = opstep.Scope()
    opstep.load_params(path, world.main, scope)
    assert set(scope.names()) == names
    # Without the optimizer's state training cannot go on.
    with pytest.raises(opstep.Error, match="has no value yet"):
        train(world, net[1], scope)


def test_a_file_that_does_not_fit_changes_nothing(
    world: World, net: tuple[opstep.Variable, opstep.Variable], tmp_path: Path
) -> None:
    path = tmp_path / "p.safetensors"
    before = {name: world.scope.find(name) for name in world.scope.names()}
    zeros = {p.name: np.zeros_like(world.scope.find(p)) for p in world.main.parameters()}
    last = sorted(zeros)[-1]
    for value, message in [
        (None, f"has no tensor '{last}'"),
        (np.zeros(99, np.float32), rf"'{last}' as float32\[99\] but the program has it as"),
        (zeros[last].astype(np.float64), "as float64"),
    ]:
        content = dict(zeros)
        del content[last]
        if value is not None:
            content[last] = value
        save_file(content, path)
        with pytest.raises(opstep.Error, match=message):
            opstep.load_params(path, world.main)
    for name, value in before.items():
        np.testing.assert_array_equal(world.scope.find(name), value)


# --- directories made to do harm ----------------------------------------------------------------


def manifest(path: Path, **changes: Any) -> None:
    file = path / "model.json"
    text = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in text.items() if value is not ...}))


def deep(path: Path) -> None:
    (path / "model.json").write_text("[" * 200_000)


def escape(path: Path) -> None:
    secret = path.parent / "secret.safetensors"
    shutil.move(path / "params.safetensors", secret)
    (path / "params.safetensors").symlink_to(secret)


def old_manifest(path: Path) -> None:
    save_file({"w": np.zeros(3, np.float32)}, path / "params.safetensors")


HARM: list[tuple[Callable[[Path], object], str]] = [
    (shutil.rmtree, "there is no model directory"),
    (lambda p: (p / "model.json").unlink(), "cannot read '.*model.json': No such file"),
    (lambda p: (p / "program.opstep").unlink(), "cannot read '.*program.opstep': No such file"),
    (lambda p: (p / "params.safetensors").unlink(), "cannot read '.*params.safetensors': No such"),
    (lambda p: (p / "model.json").write_text("{"), "is not proper JSON"),
    (lambda p: (p / "model.json").write_bytes(b"\xff\xfe{"), "is not proper JSON"),
    (lambda p: (p / "model.json").write_text("[]"), "does not describe an opstep model"),
    (lambda p: (p / "model.json").write_bytes(bytes(2 << 20)), "more than the 1048576"),
    (deep, "is not proper JSON"),
    (lambda p: manifest(p, version=2), "has a version that is not known here"),
    (lambda p: manifest(p, program=...), "is not complete"),
    (lambda p: manifest(p, program=7), "is not complete"),
    (lambda p: manifest(p, feeds="x"), "is not complete"),
    (lambda p: manifest(p, feeds=[["x"]]), "is not complete"),
    (lambda p: manifest(p, fetches=["\ud800"]), "is not complete"),
    (lambda p: manifest(p, sha256=[]), "is not complete"),
    (lambda p: manifest(p, feeds=[]), "must be fed 'x', but its model.json says otherwise"),
    (lambda p: manifest(p, feeds=["x", "x"]), "says otherwise"),
    (lambda p: manifest(p, fetches=["nope"]), "has no variable 'nope'"),
    (lambda p: manifest(p, program="../model/program.opstep"), "not in its directory"),
    (lambda p: manifest(p, program=str(p / "program.opstep")), "not in its directory"),
    (lambda p: manifest(p, parameters="/etc/passwd"), "not in its directory"),
    (lambda p: manifest(p, parameters=".."), "not in its directory"),
    (lambda p: manifest(p, parameters=""), "not in its directory"),
    (lambda p: manifest(p, parameters="a\0b"), "not in its directory"),
    (lambda p: manifest(p, parameters="\ud800"), "is not complete"),
    (lambda p: manifest(p, parameters="x" * 400), "File name too long"),
    (escape, "not in its directory"),
    (old_manifest, "is not the file that the model was saved with"),
    (
        lambda p: (manifest(p, sha256=...), (p / "program.opstep").write_bytes(b"\x01\x02")),
        "this is not an opstep program",
    ),
    (lambda p: (manifest(p, sha256=...), old_manifest(p)), "has no tensor 'fc_0.b'"),
]


@pytest.mark.parametrize(("harm", "message"), HARM, ids=[f"{i}" for i in range(len(HARM))])
def test_directories_made_to_do_harm(
    saved: Path, harm: Callable[[Path], Any], message: str
) -> None:
    harm(saved)
    scope = opstep.Scope()
    with pytest.raises(opstep.Error, match=message) as caught:
        opstep.load_model(saved, scope)
    assert "\n" not in str(caught.value)
    assert scope.names() == []


def test_pipes_do_not_hold_up(saved: Path) -> None:
    for name in ("params.safetensors", "program.opstep", "model.json"):
        (saved / name).unlink()
        os.mkfifo(saved / name)
        with pytest.raises(opstep.Error, match="it is not a regular file"):
            opstep.load_model(saved, opstep.Scope())


def test_a_model_may_not_write_files(world: World, tmp_path: Path) -> None:
    x = layers.data("x", shape=[2])
    y = layers.relu(x)
    ops.save(y, path=str(tmp_path / "trap.npy"))
    # Saved as a model, only what the fetch needs is kept …
    opstep.save_model(tmp_path / "m", [x], [y])
    program, _, _ = opstep.load_model(tmp_path / "m", opstep.Scope())
    assert len(program.global_block().ops) == 2
    # … but someone may have put another program there.
    world.main.save(tmp_path / "m" / "program.opstep")
    manifest(tmp_path / "m", sha256=...)
    with pytest.raises(opstep.Error, match=r"its op #3 save_0 \(test_models.py:\d+\) reads or wr"):
        opstep.load_model(tmp_path / "m", opstep.Scope())


def test_no_mutation_does_harm(saved: Path, tmp_path: Path) -> None:
    """Every outcome is a model that runs or fails in a sentence, or a sentence."""
    rng = random.Random(20)
    files = {path.name: path.read_bytes() for path in saved.iterdir()}
    outcomes = {True: 0, False: 0}
    target = tmp_path / "mutant"
    for _ in range(400):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        content = {name: bytearray(data) for name, data in files.items()}
        for _ in range(rng.randint(1, 3)):
            mutate(rng, content[rng.choice(sorted(content))])
        if rng.random() < 0.9:  # else the digests find it at once
            with contextlib.suppress(ValueError, TypeError, AttributeError, KeyError):
                seal(content)
        for name, data in content.items():
            (target / name).write_bytes(data)
        scope = opstep.Scope()
        try:
            program, feeds, fetches = opstep.load_model(target, scope)
            str(program)
            feed = dict.fromkeys(feeds, X)
            opstep.Executor().run(program, feed=feed, fetch_list=fetches, scope=scope)
            outcomes[True] += 1
        except opstep.Error as error:
            assert str(error)
            outcomes[False] += 1
    assert outcomes[True] > 20 and outcomes[False] > 100  # it does reach both


def mutate(rng: random.Random, data: bytearray) -> None:
    kind = rng.randrange(5)
    at = rng.randrange(len(data)) if data else 0
    if kind == 0 and data:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1 and data:
        data[at] = rng.choice(b'\x00\xff\x7f\x80"{}[],:019-')
    elif kind == 2:
        del data[at : at + rng.randint(1, 40)]
    elif kind == 3:
        data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 12)))
    else:
        piece = data[at : at + rng.randint(1, 60)]
        place = rng.randrange(len(data) + 1)
        data[place : place + len(piece)] = piece


def seal(content: dict[str, bytearray]) -> None:
    """Makes the digests fit again, so that what is behind them is tried."""
    text = json.loads(content["model.json"])
    for name in text["sha256"]:
        text["sha256"][name] = hashlib.sha256(content.get(name, b"")).hexdigest()
    content["model.json"][:] = json.dumps(text).encode()
