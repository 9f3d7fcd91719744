"""foreign: functions of another library as ops, and programs over another library's memory.

NumPy plays the other library.
"""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import _core, layers


class Capsule:
    """What NumPy takes a DLPack capsule from."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: object) -> object:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def adopt(capsule: object) -> np.ndarray:
    return np.from_dlpack(Capsule(capsule))


def writable(array: np.ndarray) -> np.ndarray:
    """NumPy makes arrays from DLPack read-only."""
    pointer = ctypes.cast(array.ctypes.data, ctypes.POINTER(ctypes.c_float))
    return np.ctypeslib.as_array(pointer, array.shape)


def double_and_sum(inputs: list[object], outputs: list[object]) -> None:
    x, y = map(adopt, inputs)
    writable(adopt(outputs[0]))[...] = 2 * x
    writable(adopt(outputs[1]))[...] = x + y


def program_of(function: Callable[..., Any], key: str, types: list[str]) -> opstep.Program:
    _core.lend_function(key, function)
    program = opstep.Program("with foreign")
    with opstep.program_guard(program):
        x, y = (layers.data(name, shape=[2, 3]) for name in "xy")
        outputs = [f"out_{i}" for i in range(len(types))]
        opstep.ops.foreign(
            [x, y], target="numpy.both", key=key, types=types, out=outputs, name="both"
        )
    return program


TYPES = ["float32[2, 3]", "float32[2, 3]"]
X = np.arange(6, dtype=np.float32).reshape(2, 3)
FEED = {"x": X, "y": X + 10}


def test_a_foreign_function_fills_its_outputs() -> None:
    program = program_of(double_and_sum, "test/1", TYPES)
    first, second = program.run(FEED, ["out_0", "out_1"])
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, 2 * X + 10)


def test_its_types_are_those_that_it_was_given() -> None:
    program = program_of(double_and_sum, "test/2", ["float32[2, 3]", "int64[]"])
    block = program.global_block()
    assert (block.var("out_0").dtype, list(block.var("out_0").shape)) == ("float32", [2, 3])
    assert (block.var("out_1").dtype, list(block.var("out_1").shape)) == ("int64", [])


@pytest.mark.parametrize("text", ["float32", "float32[?, 2]", "float8[2]", "float32[2"])
def test_a_type_must_be_one_of_known_sizes(text: str) -> None:
    with pytest.raises(opstep.Error, match="is not a type"):
        program_of(double_and_sum, "test/3", [text, "int64[]"])


def test_its_error_becomes_that_of_the_op() -> None:
    def fails(inputs: list[object], outputs: list[object]) -> None:
        raise ValueError("out of luck")

    program = program_of(fails, "test/4", TYPES)
    said = r"raised ValueError: out of luck.*test_foreign\.py:\d+, op #\d+ both\)"
    with pytest.raises(opstep.Error, match=said) as caught:
        program.run(FEED, ["out_0"])
    assert isinstance(caught.value.__cause__, ValueError)


def test_ctrl_c_ends_the_run() -> None:
    def interrupted(inputs: list[object], outputs: list[object]) -> None:
        raise KeyboardInterrupt

    program = program_of(interrupted, "test/5", TYPES)
    with pytest.raises(KeyboardInterrupt):
        program.run(FEED, ["out_0"])


def test_a_saved_program_without_the_function_says_so() -> None:
    program = program_of(double_and_sum, "test/6", TYPES)
    loaded = opstep.Program.from_bytes(program.to_bytes())
    _core.take_function_back("test/6")
    with pytest.raises(opstep.Error, match="only the process that made this program can call it"):
        loaded.run(FEED, ["out_0"])


def test_it_runs_even_if_nobody_reads_its_results() -> None:
    calls = []
    program = program_of(lambda *_: calls.append(1), "test/7", TYPES)
    program.run(FEED, [])
    assert calls == [1]


def test_the_function_lives_as_long_as_the_plan() -> None:
    class Function:
        def __call__(self, inputs: list[object], outputs: list[object]) -> None:
            double_and_sum(inputs, outputs)

    function = Function()
    alive = weakref.ref(function)
    program = program_of(function, "test/8", TYPES)
    program.run(FEED, ["out_0"])
    del function
    _core.take_function_back("test/8")
    np.testing.assert_array_equal(program.run(FEED, ["out_0"])[0], 2 * X)
    del program
    gc.collect()
    assert alive() is None


def test_a_program_runs_on_addresses_and_hands_its_results_over() -> None:
    program = opstep.Program()
    with opstep.program_guard(program):
        x = layers.data("x", shape=[2, 3])
        out = opstep.ops.relu(x)
    call = _core.MemoryCall(
        program._core, [("x", "float32", [2, 3])], [out.name], lambda a: a.ctypes.data, adopt
    )
    given = X - 3
    (first,) = call([given])
    (second,) = call([given + 1])
    np.testing.assert_array_equal(first, np.maximum(given, 0))
    np.testing.assert_array_equal(second, np.maximum(given + 1, 0))


def test_a_program_over_memory_wants_all_its_feeds() -> None:
    program = opstep.Program()
    with opstep.program_guard(program):
        out = opstep.ops.relu(layers.data("x", shape=[2, 3]))
    call = _core.MemoryCall(
        program._core, [("x", "float32", [2, 3])], [out.name], lambda a: 0, adopt
    )
    with pytest.raises(opstep.Error, match="0 tensors for 1 feeds"):
        call([])
    with pytest.raises(opstep.Error, match="'x' has no memory"):
        call([X])


# --- check_indices


@pytest.mark.parametrize("index", [-1, 4])
def test_indices_outside_are_an_error(index: int) -> None:
    program = opstep.Program()
    with opstep.program_guard(program):
        indices = layers.data("indices", shape=[2], dtype="int64")
        out = opstep.ops.check_indices(indices, size=4)
    with pytest.raises(opstep.Error, match=f"index {index} is out of range: .* 0 to 3"):
        program.run({"indices": np.array([0, index])}, [out])
