"""Layers written in NumPy, in both modes."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opstep
from harness.both_modes import X, at_once, compiled
from opstep import imperative, layers, ops
from opstep.imperative import to_variable

INDEX = np.array([1, 0, 1])


class Rectified(opstep.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return np.maximum(x, 0)

    @staticmethod
    def backward(ctx, dout):
        return dout * (ctx.inputs[0] > 0)


class Picked(opstep.PyLayer):
    """Several inputs, one of them of integers, several results and an option."""

    @staticmethod
    def forward(ctx, x, index, scale):
        return x[index] * np.float32(scale), np.abs(x).sum(axis=0)

    @staticmethod
    def backward(ctx, dpicked, dsums):
        x, index = ctx.inputs
        assert ctx.wanted == (True, False)
        dx = np.sign(x) * dsums
        np.add.at(dx, index, dpicked * np.float32(ctx.options["scale"]))
        return dx, None

    @staticmethod
    def shapes(x, index, scale):
        return [((index.shape[0], x.shape[1]), x.dtype), x.shape[1:]]


def network(x: Any, index: Any) -> Any:
    picked, sums = Picked.apply(Rectified.apply(x * x - 2.0), index, scale=3)
    return picked * sums


def test_both_modes_give_the_same_bits() -> None:
    feeds = {"x": X, "index": INDEX}
    first, second = compiled(network, feeds, "x"), at_once(network, feeds, "x")
    assert [a.tobytes() for a in first] == [a.tobytes() for a in second]
    kept = np.maximum(X * X - 2, 0)
    np.testing.assert_allclose(first[0], kept[INDEX] * 3 * kept.sum(axis=0))
    # Central differences of the mean.
    step = np.float64(1e-2)
    for place in np.ndindex(X.shape):
        ends = []
        for sign in (1, -1):
            moved = X.astype(np.float64)
            moved[place] += sign * step
            kept = np.maximum(moved * moved - 2, 0)
            ends.append((kept[INDEX] * 3 * kept.sum(axis=0)).mean())
        assert first[1][place] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-3, abs=0.1)


def test_it_trains_as_the_op_that_it_stands_for() -> None:
    def parameters(act: Callable[[Any], Any]) -> list[bytes]:
        imperative.seed(3)
        model = imperative.Sequential(imperative.FC(4), act, imperative.FC(1))
        with imperative.guard():
            sgd = opstep.optimizer.SGD(0.1)
            for _ in range(5):
                model.clear_gradients()
                loss = layers.mean(ops.square(model(to_variable(X))))
                sgd.minimize(loss, parameters=model.parameters())
        return [value.numpy().tobytes() for value in model.parameters()]

    assert parameters(Rectified.apply) == parameters(ops.relu)


def test_in_the_blocks_of_loops_and_branches() -> None:
    def build(x: Any) -> Any:
        total = layers.fill([1, 3], 0.0, "float32")
        i = layers.fill([1], 0, "int64")
        running = layers.less_than(i, 3)
        loop = layers.While(running)
        with loop.block():
            ops.add(total, Rectified.apply(x)[:1] * 2.0, out=total)
            layers.increment(i)
            layers.less_than(i, 3, out=running)
        positive = ops.greater(ops.reduce_sum(x), -100.0)
        return layers.cond(positive, lambda: Rectified.apply(total - 7.0), lambda: total)

    out, gradient = compiled(build, {"x": X}, "x")
    assert out.tolist() == [[0, 0, 11]]
    np.testing.assert_allclose(gradient, [[0, 0, 2], [0, 0, 0]])


def test_in_a_loop_over_a_reader() -> None:
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        rows = np.arange(-6, 6, dtype=np.float32)[:, None]
        with (loop := opstep.readers.from_arrays({"x": rows}, batch=4).iterate()) as (x,):
            loss = layers.mean(Rectified.apply(layers.fc(x, size=1, bias_attr=False)))
            opstep.optimizer.SGD(0.01).minimize(loss)
            losses = loop.fetch(loss)
    executor = opstep.Executor()
    executor.run(startup)
    (values,) = executor.run(main, fetch_list=[losses])
    assert values.shape[0] == 3


def test_arrays_may_be_kept_and_written_into() -> None:
    kept: list[np.ndarray] = []

    class Greedy(opstep.PyLayer):
        @staticmethod
        def forward(ctx, x):
            kept.append(x)
            x += 1
            return x

    def build(x: Any) -> Any:
        return ops.add(Greedy.apply(x * 1.0), x)

    for run in (compiled, at_once):
        before = X.copy()
        (out,) = run(build, {"x": before})
        assert (before == X).all()
        assert out.tolist() == (2 * X + 1).tolist()
    assert all((array == X + 1).all() for array in kept)


def test_only_the_arguments_that_it_declares() -> None:
    class Constant(opstep.PyLayer):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

    (out,) = compiled(lambda x: Constant.apply(x, 2.0), {"x": X})
    assert out.tolist() == (X + 2).tolist()


def test_none_is_a_gradient_of_zeros() -> None:
    class Stopped(Rectified):
        @staticmethod
        def backward(ctx, dout):
            return None

    for run in (compiled, at_once):
        assert not run(Stopped.apply, {"x": X}, "x")[1].any()


def test_an_interruption_ends_the_run() -> None:
    class Leaves(opstep.PyLayer):
        @staticmethod
        def forward(ctx, x):
            raise KeyboardInterrupt

    for run in (compiled, at_once):
        with pytest.raises(KeyboardInterrupt):
            run(Leaves.apply, {"x": X})


def test_many_threads_at_once() -> None:
    program = opstep.Program()
    with opstep.program_guard(program):
        out = Rectified.apply(Rectified.apply(layers.data("x", [None, 3])))
    step = opstep.compile(program, feeds=["x"], fetches=[out])
    wrong = []

    def work(number: int) -> None:
        for _ in range(50):
            (value,) = step(x=X + number)
            if not (value == np.maximum(X + number, 0)).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_end_of_python_while_layers_run() -> None:
    code = """
import threading, time, numpy, opstep

class Slow(opstep.PyLayer):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.001)
        return x

out = Slow.apply(Slow.apply(opstep.layers.data("x", [2])))
step = opstep.compile(out.program, feeds=["x"], fetches=[out])

def work():
    while True:
        step(x=numpy.ones(2, "float32"))
        running.set()

running = threading.Event()
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
running.wait()
print("end")
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "end\n", "")


def test_a_copy_for_tests_and_a_saved_model(tmp_path: Path) -> None:
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        x = layers.data("x", [None, 3])
        out = Rectified.apply(layers.fc(x, size=2, name="fc"))
        opstep.optimizer.SGD(0.1).minimize(layers.mean(out))
    assert 'rectified_0.out float32[?, 2] = py_layer(X=fc.out, layer="' in str(main)
    scope = opstep.Scope()
    executor = opstep.Executor()
    with opstep.scope_guard(scope):
        executor.run(startup)
        (expected,) = executor.run(main.clone(for_test=True), feed={"x": X}, fetch_list=[out])
        opstep.save_model(tmp_path / "model", ["x"], [out], main)
    with opstep.scope_guard(opstep.Scope()):
        program, feeds, fetches = opstep.load_model(tmp_path / "model")
        (value,) = executor.run(
            program, feed=dict(zip(feeds, [X], strict=True)), fetch_list=fetches
        )
    assert value.tobytes() == expected.tobytes()
    # Elsewhere the class is not there, and nothing is imported for it.
    code = f"""
import numpy, opstep
program, feeds, fetches = opstep.load_model({str(tmp_path / "model")!r})
try:
    opstep.Executor().run(program, feed={{"x": numpy.zeros((2, 3), "float32")}}, fetch_list=fetches)
except opstep.Error as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"the layer is the class {__name__}.Rectified, which this process does not" in ran.stdout


def test_a_class_that_is_defined_anew_is_another() -> None:
    def define(number: float) -> Any:
        class Plus(opstep.PyLayer):
            @staticmethod
            def forward(ctx, x):
                return x + np.float32(number)

        return Plus

    programs = []
    for number in (1.0, 2.0):
        with opstep.program_guard(opstep.Program()):
            programs.append(define(number).apply(layers.data("x", [None, 3])))
    for number, out in zip((1.0, 2.0), programs, strict=True):
        (value,) = opstep.Executor().run(out.program, feed={"x": X}, fetch_list=[out])
        assert (value == X + number).all()


def test_nothing_is_kept() -> None:
    array = X.copy()
    gone = weakref.ref(array)
    with imperative.guard():
        x = to_variable(array, stop_gradient=False)
        layers.mean(Rectified.apply(x)).backward()
        del x, array
        gc.collect()
        assert gone() is None

        def steps(count: int) -> int:
            for _ in range(count):
                x = to_variable(np.ones((64, 64), np.float32), stop_gradient=False)
                layers.mean(Rectified.apply(x)).backward()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = steps(3)
            assert steps(50) - before < 64 * 64 * 4
        finally:
            tracemalloc.stop()
