"""A loop that does not end must not take all memory for its gradients."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import opstep
from opstep import imperative, layers, ops


@pytest.fixture
def limit() -> Iterator[None]:
    before = opstep.get_loop_memory()
    opstep.set_loop_memory(1 << 20)
    yield
    opstep.set_loop_memory(before)


def compiled_loop(turns: int) -> tuple[opstep.Program, opstep.Variable]:
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
    main, gradient = compiled_loop(2**60)
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
    main, gradient = compiled_loop(1000)
    for _ in range(5):
        exe.run(main, X, [gradient])


@pytest.mark.usefixtures("limit")
def test_more_can_be_allowed() -> None:
    main, gradient = compiled_loop(20_000)
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


def endless(x: imperative.Value) -> imperative.Value:
    while layers.reduce_max(x) > -5.0:  # the endless loop
        x = turn(x)
    return layers.mean(x)


def turn(x: imperative.Value) -> imperative.Value:
    for _ in range(2):
        pass
    return layers.tanh(x) * 1.0  # its op


def endless_while_loop(x: imperative.Value) -> imperative.Value:
    (x,) = opstep.while_loop(lambda v: layers.reduce_max(v) > -5.0, turn, [x])  # the while_loop
    return layers.mean(x)


def line_of(mark: str) -> str:
    with open(__file__) as file:
        numbers = [n for n, line in enumerate(file, 1) if line.rstrip().endswith(f"# {mark}")]
    (number,) = numbers
    return f"test_loop_memory.py:{number}"


WAYS = {
    "to_graph": (opstep.to_graph(endless), "the endless loop"),
    "while_loop": (endless_while_loop, "the while_loop"),
    "while_loop in to_graph": (opstep.to_graph(endless_while_loop), "the while_loop"),
}


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("way", WAYS)
@imperative.guard()
def test_an_endless_loop_of_imperative_mode_is_ended(way: str) -> None:
    loop, where = WAYS[way]
    x = imperative.to_variable(np.ones(1000, np.float32), stop_gradient=False)
    for _ in range(3):  # the memory is free again
        with pytest.raises(opstep.Error) as failed:
            loop(x)
        sentence = str(failed.value)
        assert f"the limit of 1048576 bytes in the loop at {line_of(where)}: does" in sentence
        assert "opstep.set_loop_memory" in sentence
        assert sentence.endswith(f"({line_of('its op')})")
        del failed
    main, gradient = compiled_loop(1000)
    opstep.Executor().run(main, X, [gradient])


@opstep.to_graph
def many_turns(x: imperative.Value, turns: int) -> imperative.Value:
    for _ in range(turns):
        x = layers.tanh(x) * 1.0
    return layers.mean(x)


@opstep.to_graph
def without_a_loop(x: imperative.Value) -> imperative.Value:
    return layers.mean(layers.tanh(x))


@pytest.mark.usefixtures("limit")
@imperative.guard()
def test_what_is_not_an_endless_loop_runs() -> None:
    x = imperative.to_variable(np.ones(1000, np.float32), stop_gradient=False)
    for _ in range(10):  # more than the limit together, but each gives its memory back
        many_turns(x, 50).backward()
    with pytest.raises(opstep.Error, match="the limit of 1048576 bytes in the loop"):
        many_turns(x, 500)
    opstep.set_loop_memory(1 << 30)
    many_turns(x, 500).backward()
    opstep.set_loop_memory(1 << 20)
    # Nothing is kept where no gradient is wanted.
    with imperative.no_grad():
        many_turns(x, 500)
    constant = imperative.to_variable(np.ones(1000, np.float32))
    many_turns(constant, 500)
    opstep.while_loop(lambda v, i: i < 500, lambda v, i: (layers.tanh(v), i + 1), [constant, 0])
    # Values outside of loops are the script's own affair.
    large = imperative.to_variable(np.ones(1 << 19, np.float32), stop_gradient=False)
    kept = [without_a_loop(large) for _ in range(3)]
    assert all(float(value) > 0 for value in kept)
