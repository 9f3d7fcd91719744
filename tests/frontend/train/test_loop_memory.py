"""A loop that does not end must not take all memory for its gradients."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import opstep
from opstep import layers, ops


@pytest.fixture
def limit() -> Iterator[None]:
    before = opstep.get_loop_memory()
    opstep.set_loop_memory(1 << 20)
    yield
    opstep.set_loop_memory(before)


def loop(turns: int) -> tuple[opstep.Program, opstep.Variable]:
    main = opstep.Program()
    with opstep.program_guard(main, opstep.Program()):
        x = layers.data("x", [4])
        x.stop_gradient = False
        value = layers.assign(x)
        i = layers.fill([1], 0, "int64")
        going = layers.less_than(i, turns)
        with layers.While(going).block():
            ops.tanh(value, out=value)
            layers.increment(i)
            layers.less_than(i, turns, out=going)
        (gradient,) = opstep.gradients(value, x)
    return main, gradient


X = {"x": np.ones(4, np.float32)}


@pytest.mark.usefixtures("limit")
def test_an_endless_loop_is_ended_with_a_sentence() -> None:
    main, gradient = loop(2**60)
    exe = opstep.Executor()
    with pytest.raises(opstep.Error) as failed:
        exe.run(main, X, [gradient])
    sentence = str(failed.value)
    assert "have reached the limit of 1048576 bytes: does the loop end?" in sentence
    assert "opstep.set_loop_memory" in sentence and "(test_loop_memory.py:" in sentence
    # The memory is free again: as often as one likes, and with a smaller loop too.
    for _ in range(3):
        with pytest.raises(opstep.Error, match="have reached the limit"):
            exe.run(main, X, [gradient])
    main, gradient = loop(1000)
    for _ in range(5):
        exe.run(main, X, [gradient])


@pytest.mark.usefixtures("limit")
def test_more_can_be_allowed() -> None:
    main, gradient = loop(20_000)
    with pytest.raises(opstep.Error, match="have reached the limit"):
        opstep.Executor().run(main, X, [gradient])
    opstep.set_loop_memory(1 << 30)
    assert opstep.Executor().run(main, X, [gradient])[0].shape == (4,)


def test_the_default_and_the_environment() -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 1 << 20 <= opstep.get_loop_memory() <= memory // 2
    for wrong in (0, -1, 1.5, "1", True):
        with pytest.raises(opstep.Error, match="it must be a whole number of bytes above 0"):
            opstep.set_loop_memory(wrong)  # type: ignore[arg-type]
    code = "import opstep; print(opstep.get_loop_memory())"
    for text, said in (("12345", "12345"), ("a lot", "OPSTEP_LOOP_MEMORY is 'a lot': it must be")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"OPSTEP_LOOP_MEMORY": text},
            capture_output=True,
            text=True,
        )
        assert said in done.stdout + done.stderr
