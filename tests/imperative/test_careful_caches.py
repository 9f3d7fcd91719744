"""What plans are found by, and memory that is not to be written into unnoticed."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

import opstep
from opstep import _core, imperative, layers, ops
from opstep.imperative import FC, to_variable


def test_attributes_that_do_not_say_what_they_are() -> None:
    """A generator's text is only its address, which another may have later."""
    with imperative.guard():
        x = to_variable(np.zeros((2, 3, 4), "float32"))
        for perm in ((0, 1, 2), (2, 0, 1), (1, 2, 0)) * 3:
            turned = ops.transpose(x, perm=(i for i in perm))
            assert turned.shape == tuple((2, 3, 4)[i] for i in perm)
        for shape in ((4, 6), (6, 4), (24,), (2, 12)) * 3:
            view = memoryview(np.array(shape, "int64"))
            assert ops.reshape(x, shape=view).shape == shape


def test_an_array_that_is_read_only_is_copied(tmp_path: Path) -> None:
    raw = bytes(16)
    np.save(tmp_path / "a.npy", np.zeros(4, "float32"))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    with imperative.guard():
        for array in (np.frombuffer(raw, "float32"), mapped):
            value = to_variable(array)
            ops.add(value, 1.0, out=value)
            assert value.numpy().tolist() == [1, 1, 1, 1]
    assert raw == bytes(16) and mapped.tolist() == [0, 0, 0, 0]


def test_loading_between_forward_and_backward_is_noticed() -> None:
    with imperative.guard():
        net = FC(2)
        x = to_variable(np.ones((1, 3), "float32"), stop_gradient=False)
        loss = net(x).sum()
        net.load_state_dict({name: array * 2 for name, array in net.state_dict().items()})
        with pytest.raises(opstep.Error, match="was written into since"):
            loss.backward()


def test_a_hook_that_comes_in_a_small_layer_sees_what_runs_there() -> None:
    seen = []

    class Installs(opstep.PyLayer):
        @staticmethod
        def forward(ctx, x):
            hook = _core.CountingHook()
            hook.install()
            try:
                to_variable(np.ones(3, "float32")) * 2.0
                seen.append(hook.before)
            finally:
                hook.remove()
            return x

    with imperative.guard():
        for size in (4, 40000):
            Installs.apply(to_variable(np.ones(size, "float32")))
    assert seen[0] == seen[1] > 0


def test_a_copied_layer_joins_a_program() -> None:
    class Scaled(imperative.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.factor = layers.create_parameter([3], "float32")

        def forward(self, x):
            return x * self.factor

    with imperative.guard():
        net = copy.deepcopy(Scaled())
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        out = net(layers.data("x", [3]))
    exe = opstep.Executor()
    exe.run(startup)
    (ours,) = exe.run(main, feed={"x": np.zeros(3, "float32")}, fetch_list=[out])
    assert ours.tolist() == [0, 0, 0]
