"""First values of parameters."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import opstep
from opstep import initializer, layers
from opstep.initializer import Initializer


def values(world, how: Initializer, shape: list[int], dtype: str = "float32") -> np.ndarray:
    world.main.global_block().create_parameter("w", shape, dtype, how)
    world.exe.run(world.startup)
    return world.scope.find("w")


def test_constant(world) -> None:
    assert np.array_equal(values(world, initializer.Constant(2.5), [2, 3]), np.full((2, 3), 2.5))


@pytest.mark.parametrize(
    ("how", "shape", "limit"),
    [
        (initializer.Uniform(-0.5, 0.5), [100, 50], 0.5),
        (initializer.Xavier(), [100, 50], math.sqrt(6 / 150)),
        (initializer.Xavier(), [8, 50, 3, 5], math.sqrt(6 / (50 * 15 + 8 * 15))),
        (initializer.MSRA(), [100, 50], math.sqrt(6 / 100)),
        (initializer.MSRA(), [8, 50, 3, 5], math.sqrt(6 / (50 * 15))),
        (initializer.MSRA(fan_in=24), [100, 50], 0.5),
    ],
)
def test_uniform_ones(world, how: Initializer, shape: list[int], limit: float) -> None:
    got = values(world, how, shape)
    assert -limit <= got.min() < -0.98 * limit and 0.98 * limit < got.max() <= limit
    assert abs(got.mean()) < 0.05 * limit


@pytest.mark.parametrize(
    ("how", "shape", "std"),
    [
        (initializer.Normal(0.0, 0.1), [100, 50], 0.1),
        (initializer.Xavier(uniform=False), [100, 50], math.sqrt(2 / 150)),
        (initializer.MSRA(uniform=False), [100, 50], math.sqrt(2 / 100)),
        (initializer.MSRA(uniform=False), [16, 20, 3, 5], math.sqrt(2 / 300)),
    ],
)
def test_normal_ones(world, how: Initializer, shape: list[int], std: float) -> None:
    got = values(world, how, shape)
    assert got.std() == pytest.approx(std, rel=0.05)
    assert abs(got.mean()) < 0.05 * std


def test_a_seed_of_its_own(world) -> None:
    block = world.main.global_block()
    for name, seed in (("a", 7), ("b", 7), ("c", None), ("d", None)):
        block.create_parameter(name, [9], initializer=initializer.MSRA(seed=seed))
    world.exe.run(world.startup)
    a, b, c, d = (world.scope.find(name) for name in "abcd")
    assert np.array_equal(a, b)
    assert not np.array_equal(c, d) and not np.array_equal(a, c)


def test_the_values_of_an_array(world) -> None:
    array = np.arange(6).reshape(2, 3)
    got = values(world, initializer.Assign(array), [2, 3], "float64")
    assert got.dtype == np.float64 and np.array_equal(got, array)


def test_an_array_of_another_shape(world) -> None:
    with pytest.raises(opstep.Error, match=r"'w' is \[2, 3\] but the array .* is \[3, 2\]"):
        values(world, initializer.Assign(np.zeros((3, 2))), [2, 3])


def test_values_from_files(world, tmp_path: Path) -> None:
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "w.npy", value)
    save_file({"a": value[0], "b": value[1]}, tmp_path / "w.safetensors")
    block = world.main.global_block()
    first = block.create_parameter(
        "first", [2, 3], initializer=initializer.Load(tmp_path / "w.npy")
    )
    second = block.create_parameter(
        "second", [3], initializer=initializer.Load(str(tmp_path / "w.safetensors"), key="b")
    )
    world.exe.run(world.startup)
    np.testing.assert_array_equal(world.scope.find(first), value)
    np.testing.assert_array_equal(world.scope.find(second), value[1])


def test_a_startup_that_fails_leaves_no_values(world, tmp_path: Path) -> None:
    block = world.main.global_block()
    block.create_parameter("a", [3], initializer=initializer.Constant(1.0))
    wrong = block.create_parameter("b", [3], initializer=initializer.Load(tmp_path / "b.npy"))
    layers.relu(wrong)
    with pytest.raises(opstep.Error, match=r"\[load\] cannot read '.*b\.npy': No such file"):
        world.exe.run(world.startup)
    assert world.scope.names() == []
    with pytest.raises(opstep.Error, match="'b' has no value yet: run the startup program first"):
        world.exe.run(world.main)
    np.save(tmp_path / "b.npy", np.ones(3, np.float32))
    world.exe.run(world.startup)
    world.exe.run(world.main)


def test_the_values_of_a_layer_from_a_file(world, tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.eye(3, dtype=np.float32))
    x = layers.data("x", [None, 3])
    y = layers.fc(x, 3, weight_init=initializer.Load(tmp_path / "w.npy"))
    world.exe.run(world.startup)
    feed = np.float32([[1, 2, 3]])
    assert np.array_equal(world.exe.run(feed={"x": feed}, fetch_list=[y])[0], feed)


def test_a_file_that_is_not_there(world, tmp_path: Path) -> None:
    with pytest.raises(opstep.Error, match=r"\[load\] .*missing.npy.*test_initializers.py:\d+"):
        values(world, initializer.Load(tmp_path / "missing.npy"), [2, 3])


def test_a_file_with_another_shape(world, tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.zeros((3, 2), np.float32))
    with pytest.raises(opstep.Error, match=r"\[load\] .*float32\[3, 2\] but float32\[2, 3\]"):
        values(world, initializer.Load(tmp_path / "w.npy"), [2, 3])
