"""Threads inside ops: the same bits with any number of them, no trouble with forks and threads."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import opstep
from opstep import layers, ops


@pytest.fixture(autouse=True)
def one_thread_afterwards() -> Iterator[None]:
    yield
    opstep.set_num_threads(1)


def network(batch: int, size: int) -> tuple[opstep.Program, opstep.Variable]:
    """Every op that splits its work, each large enough to do so."""
    rng = np.random.default_rng(batch)

    def weight(*shape: int) -> opstep.Variable:
        return layers.constant(rng.standard_normal(shape).astype(np.float32))

    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", [batch, 3, size, size])
        x.stop_gradient = False
        h = ops.conv(x, weight(32, 3, 3, 3), weight(32), pads=[1, 1, 1, 1])
        mean, var = weight(32), ops.abs(weight(32))
        h = ops.batch_norm(h, weight(32), weight(32), mean, var, training_mode=True)
        h = ops.max_pool(ops.relu(h), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        h = ops.conv(h, weight(64, 32, 3, 3), pads=[1, 1, 1, 1])
        h = ops.group_norm(h, weight(64), weight(64), num_groups=4)
        h = ops.conv_transpose(h, weight(64, 32, 2, 2), weight(32), strides=[2, 2])
        h = ops.average_pool(h, kernel_shape=[2, 2], strides=[2, 2])
        h = ops.instance_norm(h, weight(32), weight(32))
        h = ops.layer_norm(h, weight(size // 2), weight(size // 2))
        h = ops.reshape(h, shape=[batch, -1])
        h = ops.matmul(h, weight(8 * size * size, 256))
        h = ops.softmax(h)
        loss = ops.reduce_sum(ops.mul(h, h), keepdims=False)
        ((_, gradient),) = opstep.append_backward(loss, [x])
    return program, gradient


def run(program: opstep.Program, fetch: opstep.Variable, x: np.ndarray) -> bytes:
    (value,) = opstep.Executor().run(
        program, feed={"x": x}, fetch_list=[fetch], scope=opstep.Scope()
    )
    assert np.isfinite(value).all() and value.any()
    return value.tobytes()


def images(batch: int, size: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal((batch, 3, size, size)).astype(np.float32)


@pytest.mark.parametrize(("batch", "size"), [(7, 24), (1, 48)])
def test_the_same_bits_with_any_number_of_threads(batch: int, size: int) -> None:
    program, gradient = network(batch, size)
    x = images(batch, size)
    one = run(program, gradient, x)
    for n in (2, 3):
        opstep.set_num_threads(n)
        assert opstep.get_num_threads() == n
        assert run(program, gradient, x) == one


def test_two_threads_run_two_plans_with_two_threads_each() -> None:
    opstep.set_num_threads(2)
    jobs = [(*network(batch, 24), images(batch, 24)) for batch in (4, 5)]
    expected = [run(*job) for job in jobs]
    got: list[list[bytes]] = [[], []]

    def work(i: int) -> None:
        for _ in range(5):
            got[i].append(run(*jobs[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [[value] * 5 for value in expected]


def script(body: str, **env: str) -> subprocess.CompletedProcess[str]:
    code = "import os, numpy as np, opstep\nfrom opstep import layers, ops\n" + textwrap.dedent(
        body
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | env
    )


LARGE = """
x = layers.data("x", [4, 16, 40, 40])
w = layers.constant(np.ones((32, 16, 3, 3), np.float32))
y = ops.max_pool(ops.conv(x, w), kernel_shape=[2, 2])
exe = opstep.Executor()
value = np.random.default_rng(0).standard_normal((4, 16, 40, 40)).astype(np.float32)
def run():
    return exe.run(feed={"x": value}, fetch_list=[y])[0].tobytes()
def threads():
    return len(os.listdir("/proc/self/task"))
first = run()
"""


def test_a_forked_child_goes_on_with_threads_of_its_own() -> None:
    done = script(
        LARGE
        + """
before = threads()
opstep.set_num_threads(2)
assert run() == first
assert threads() > before, "no thread was started"
child = os.fork()
if child == 0:
    alone = threads()
    good = opstep.get_num_threads() == 2 and run() == first
    os._exit(0 if good and threads() > alone else 1)
_, status = os.waitpid(child, 0)
assert status == 0
assert opstep.get_num_threads() == 2 and run() == first
"""
    )
    assert done.returncode == 0, done.stderr


def test_the_environment_gives_the_number() -> None:
    body = "print(opstep.get_num_threads())"
    assert script(body, OPSTEP_NUM_THREADS="3").stdout == "3\n"
    refused = script(body, OPSTEP_NUM_THREADS="many")
    assert "OPSTEP_NUM_THREADS is 'many': it must be a number from 1 to 256" in refused.stderr


@pytest.mark.parametrize("n", [0, -1, 1000])
def test_numbers_that_make_no_sense_are_refused(n: int) -> None:
    with pytest.raises(opstep.Error, match=f"the number of threads is {n}: it must be 1 to 256"):
        opstep.set_num_threads(n)
    assert opstep.get_num_threads() == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_elementwise_ops_are_split_at_any_place(dtype: str) -> None:
    size = 3 * (1 << 16) + 17
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(0.5, 2, size).astype(dtype) for _ in range(2))
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        a = layers.data("x", [size], dtype)
        b = layers.data("y", [size], dtype)
        half = layers.constant(np.full([1], 0.5, dtype))
        w = main.global_block().create_parameter("w", [size], dtype, opstep.initializer.Assign(y))
        h = ops.leaky_relu(ops.sub(ops.mul(ops.tanh(a), b), half), alpha=0.25)
        loss = ops.reduce_sum(ops.mul(h, w), keepdims=False)
        opstep.optimizer.Momentum(0.5, 0.9).minimize(loss)
    results = []
    for n in (1, 2, 3):
        opstep.set_num_threads(n)
        scope = opstep.Scope()
        exe = opstep.Executor()
        exe.run(startup, scope=scope)
        for _ in range(2):
            (value,) = exe.run(main, feed={"x": x, "y": y}, fetch_list=[h], scope=scope)
        results.append((value, scope.find("w").copy()))
    z = np.tanh(x) * y - 0.5
    expected = np.where(z < 0, 0.25 * z, z)
    for value, weight in results:
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(weight, y - 0.5 * 2.9 * expected, rtol=1e-4, atol=1e-5)
        assert value.tobytes() == results[0][0].tobytes()
        assert weight.tobytes() == results[0][1].tobytes()


def test_many_short_ops_from_many_threads() -> None:
    """Helpers come and go while jobs run out of pieces."""
    opstep.set_num_threads(3)

    def work(size: int, results: list[set[bytes]]) -> None:
        program = opstep.Program()
        with opstep.program_guard(program, opstep.Program()):
            x = h = layers.data("x", [size])
            for _ in range(20):
                h = ops.relu(ops.add(h, x))
        step = opstep.compile(program, feeds=["x"], fetches=[h])
        value = np.ones(size, np.float32)
        results.append({step(x=value)[0].tobytes() for _ in range(300)})

    results: list[set[bytes]] = []
    sizes = [1 << 16, 70_000, 75_000]
    threads = [threading.Thread(target=work, args=(size, results)) for size in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [{np.full(size, 21, np.float32).tobytes()} for size in sizes]
    assert sorted(results, key=lambda found: len(min(found))) == expected
