"""One sentence, with what to write, for what new users try."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import foreign_names, layers, ops
from opstep.imperative import guard, to_variable

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def x() -> opstep.Variable:
    with opstep.program_guard(opstep.Program("main"), opstep.Program()):
        yield layers.data("x", [1, 3, 8, 8])


def recurrent(x: opstep.Variable) -> None:
    rnn = layers.Recurrent()
    with rnn.step():
        rnn.memory(layers.fill([1, 2], 0.0))


TRIED: dict[str, tuple[Callable[[opstep.Variable], Any], str]] = {
    "a loss to run": (
        lambda x: opstep.Executor().run(x),
        r"exe.run takes a program first, and 'x' is a variable: write exe.run\(program, feed=..., "
        r"fetch_list=\['x'\]\)",
    ),
    "a list of losses to run": (
        lambda x: opstep.Executor().run([x]),
        r"exe.run takes a program first, and 'x' is a variable: write exe.run\(program, feed=..., "
        r"fetch_list=\['x'\]\)",
    ),
    "two losses to run": (
        lambda x: opstep.Executor().run((x, x)),
        r"'x', 'x' are variables: write exe.run\(program, feed=..., fetch_list=\['x', 'x'\]\)",
    ),
    "Conv2D": (
        lambda x: opstep.imperative.Conv2D(out_channels=3, kernel_size=3),
        r"Conv2D has no argument 'out_channels': did you mean 'filters'\?",
    ),
    "Conv2D's kernel": (
        lambda x: opstep.imperative.Conv2D(3, kernel_size=3),
        r"Conv2D has no argument 'kernel_size': did you mean 'kernel'\?",
    ),
    "FC": (
        lambda x: opstep.imperative.FC(out_features=3),
        r"FC has no argument 'out_features': did you mean 'size'\?",
    ),
    "np.mean": (lambda x: np.mean(x), "np.mean takes arrays, and 'x' has no value"),
    "np.asarray": (lambda x: np.asarray(x), "'x' has no value .*fetch it, as in exe.run"),
    "Adam": (
        lambda x: opstep.optimizer.Adam(lr=0.1),
        r"Adam has no argument 'lr': did you mean 'learning_rate'\?",
    ),
    "SGD": (lambda x: opstep.optimizer.SGD(0.1, weight_decy=1), "did you mean 'weight_decay'"),
    "conv2d": (
        lambda x: layers.conv2d(x, out_channels=3, kernel=3),
        r"\[conv2d\] has no argument 'out_channels': did you mean 'filters'\?",
    ),
    "conv2d's kernel": (
        lambda x: layers.conv2d(x, 3, kernel_size=3),
        r"'kernel_size': did you mean 'kernel'\?",
    ),
    "fc": (lambda x: layers.fc(x, out_features=3), r"did you mean 'size'\?"),
    "an element": (lambda x: x.__setitem__(0, 0), "elements of 'x' cannot be set .*ops.where"),
    "recurrent": (recurrent, "made inside the step, where a memory cannot begin: make it before"),
}


@pytest.mark.parametrize("what", TRIED)
def test_one_sentence(x: opstep.Variable, what: str) -> None:
    tried, sentence = TRIED[what]
    with pytest.raises(opstep.Error, match=sentence) as failed:
        tried(x)
    assert "\n" not in str(failed.value)
    assert re.search(r"\(test_first_tries.py:\d+\)$", str(failed.value)), failed.value


def test_a_wrong_call_inside_is_not_explained_away(x: opstep.Variable) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'size'"):
        layers.fc(x)


def test_the_number_of_threads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import opstep"],
        env=os.environ | {"OPSTEP_NUM_THREADS": "abc"},
        capture_output=True,
        text=True,
    )
    sentence = "OPSTEP_NUM_THREADS is 'abc': it must be a number from 1 to 256"
    assert done.stderr.splitlines()[-1] == f"opstep.Error: {sentence}"
    command = subprocess.run(
        [sys.executable, "-m", "opstep", "run", "train.py"],
        env=os.environ | {"OPSTEP_NUM_THREADS": "abc"},
        capture_output=True,
        text=True,
    )
    assert (command.returncode, command.stderr) == (1, f"opstep: {sentence}\n")


@pytest.mark.parametrize("name", foreign_names.FUNCTIONS)
def test_words_of_other_libraries_lead_to_ours(name: str) -> None:
    written = foreign_names.FUNCTIONS[name]
    for package, function in re.findall(r"\b(ops|layers)\.(\w+)", written):
        assert callable(getattr({"ops": ops, "layers": layers}[package], function))
    for package in (ops, layers):
        if name in dir(package):
            continue
        with pytest.raises(AttributeError) as failed:
            getattr(package, name)
        known = package is layers and name in layers._ELSEWHERE
        assert known or f"; write {written}" in str(failed.value)


@pytest.mark.parametrize("name", foreign_names.FUNCTIONS)
def test_words_of_other_libraries_as_methods(x: opstep.Variable, name: str) -> None:
    with guard():
        value = to_variable(X)
    for place in (x, value, opstep):
        if not hasattr(place, name):
            with pytest.raises(AttributeError, match=re.escape(foreign_names.FUNCTIONS[name])):
                getattr(place, name)


@pytest.mark.parametrize("name", foreign_names.PACKAGE)
def test_words_of_other_packages(name: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(foreign_names.PACKAGE[name])):
        getattr(opstep, name)
    for written in re.findall(r"opstep\.([\w.]+)", foreign_names.PACKAGE[name]):
        found: Any = opstep
        for part in written.split("."):
            found = getattr(found, part)


def test_an_op_is_no_method(x: opstep.Variable) -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'unsqueeze'; write ops.unsqueeze\(x"):
        x.unsqueeze(0)
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        _ = x.nonsense
    with pytest.raises(AttributeError, match=r"has no attribute 'relu'; write layers.relu$"):
        _ = opstep.relu


def test_no_module_hides_the_hint_to_a_layer_or_an_op() -> None:
    """A folder called `data` would: `opstep.data` leads to `layers.data`."""
    with pytest.raises(AttributeError, match=r"has no attribute 'data'; write layers.data$"):
        _ = opstep.data
    modules = {name for name, value in vars(opstep).items() if isinstance(value, ModuleType)}
    assert not modules & {*dir(ops), *(n for n in dir(layers) if callable(getattr(layers, n)))}


def test_numpy_s_functions_and_operators(x: opstep.Variable) -> None:
    with guard():
        value = to_variable(X)
        for what in (x, value):
            with pytest.raises(opstep.Error, match=r"np.exp takes arrays.*opstep.ops"):
                np.exp(what)
            with pytest.raises(opstep.Error, match=r"np.add takes arrays"):
                np.add.reduce(what)
            assert np.equal(X, what) is False and np.not_equal(X, what) is True
        two = np.float32(2)
        for made, expected in (
            (two * value, 2 * X), (two - value, 2 - X), (two / (value + 1), 2 / (X + 1)),
            (two < value, X > 2), (two >= value, X <= 2), (np.add(value, two), X + 2),
            (np.int64(7) // value.astype("int64").sum(), 7 // 15),
        ):  # fmt: skip
            np.testing.assert_allclose(made.numpy(), expected, rtol=1e-6)
        array = np.zeros_like(X)
        with pytest.raises(opstep.Error, match="must be a value, not an array"):
            array += value


class Scale(opstep.PyLayer):
    @staticmethod
    def forward(ctx, x, factor=1.0):
        return x * np.float32(factor)

    @staticmethod
    def backward(ctx, dout):
        return dout * np.float32(ctx.options["factor"])


def test_a_pylayer_is_called_as_a_layer_is() -> None:
    with guard():
        np.testing.assert_array_equal(Scale()(to_variable(X), factor=3.0).numpy(), X * 3)


def test_methods_of_values() -> None:
    cube = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    with guard():
        x, c = to_variable(X), to_variable(cube)
        assert (x.ndim, x.size) == (2, 6)
        assert int(x.argmax()) == 5
        np.testing.assert_array_equal(x.argmax(axis=1).numpy(), X.argmax(1))
        np.testing.assert_allclose(c.std().numpy(), cube.std(), rtol=1e-5)
        for ddof in (0, 1):
            np.testing.assert_allclose(
                c.std(axis=1, ddof=ddof).numpy(), cube.std(axis=1, ddof=ddof), rtol=1e-5
            )
        for made, expected in (
            (x.flatten(), X.flatten()),
            (c.flatten(1), cube.reshape(2, 12)),
            (x.view(3, 2), X.reshape(3, 2)),
            (x.view([-1]), X.flatten()),
            (x.transpose(), X.T),
            (x.transpose(1, 0), X.T),
            (c.transpose(2, 0, 1), cube.transpose(2, 0, 1)),
            (c.transpose((2, 0, 1)), cube.transpose(2, 0, 1)),
            (c.transpose(0, -1), cube.swapaxes(0, -1)),
        ):
            np.testing.assert_array_equal(made.numpy(), expected)
        for wrong in (
            lambda: x.transpose(0, 1),
            lambda: c.transpose(0, 7),
            lambda: x.view("int32"),
            lambda: x.flatten(2),
            lambda: x.argmax(dim=1),
        ):
            with pytest.raises(opstep.Error):
                wrong()
        with pytest.raises(opstep.Error, match=r"x.numpy\(\)\[...\] = "):
            x[0] = 0


def test_values_for_other_libraries() -> None:
    with guard():
        value = to_variable(X.copy())
    taken = np.from_dlpack(value)
    np.testing.assert_array_equal(taken, X)
    assert not np.shares_memory(taken, value.numpy())
    assert value.__dlpack_device__() == (1, 0)
    # A program is fed it as before.
    with opstep.program_guard(main := opstep.Program(), opstep.Program()):
        out = layers.relu(layers.data("x", [2, 3]))
    np.testing.assert_array_equal(opstep.Executor().run(main, {"x": value}, [out])[0], X)


def test_torch_takes_values() -> None:
    torch = pytest.importorskip("torch")
    with guard():
        value = to_variable(X.copy())
    for take in (torch.as_tensor, torch.tensor, torch.from_dlpack, torch.asarray):
        tensor = take(value)
        np.testing.assert_array_equal(tensor.numpy(), X)
        tensor[0, 0] = 7
        assert value.numpy()[0, 0] == 0, take
