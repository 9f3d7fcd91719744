"""What can be fed: arrays, lists, buffers and other libraries' tensors, without copies."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import layers
from opstep.executor import _array


class Tensor:
    """Another library's tensor: all it has is DLPack."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()


class Broken(Tensor):
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("it lives on another planet.")


def double(world, value: Any) -> np.ndarray:
    x = layers.data("x", [None, 3])
    return world.exe.run(feed={"x": value}, fetch_list=[x + x])[0]


VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_tensor_with_dlpack(world) -> None:
    assert np.array_equal(double(world, Tensor(VALUES)), VALUES * 2)
    assert np.shares_memory(_array(world.main, "x", Tensor(VALUES)), VALUES)


def test_a_tensor_with_dlpack_of_any_layout(world) -> None:
    assert np.array_equal(double(world, Tensor(np.asfortranarray(VALUES))), VALUES * 2)


def test_a_tensor_with_dlpack_in_a_compiled_program(world) -> None:
    x = layers.data("x", [None, 3])
    step = opstep.compile(world.main, ["x"], [x + x])
    assert np.array_equal(step(x=Tensor(VALUES))[0], VALUES * 2)


def test_a_buffer(world) -> None:
    buffer = memoryview(VALUES)
    assert np.array_equal(double(world, buffer), VALUES * 2)
    assert np.shares_memory(_array(world.main, "x", buffer), VALUES)


def test_a_buffer_keeps_its_dtype(world) -> None:
    layers.data("y", [None])
    with pytest.raises(opstep.Error, match="'y': it is float32 but the value is float64"):
        world.exe.run(feed={"y": array.array("d", [1.0, 2.0])})


def test_a_tensor_that_cannot_be_read(world) -> None:
    with pytest.raises(opstep.Error, match=r"cannot feed 'x': .* Broken \(it lives on another pl"):
        double(world, Broken(VALUES))


def test_a_tensor_of_pytorch(world) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    assert np.array_equal(double(world, tensor), VALUES * 2)
    assert _array(world.main, "x", tensor).ctypes.data == tensor.data_ptr()
    with pytest.raises(opstep.Error, match=r"cannot feed 'x': .* Tensor \(.*gradient"):
        world.exe.run(feed={"x": tensor.requires_grad_()})
