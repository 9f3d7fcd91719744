"""Running programs: values, training, loops, threads, Ctrl-C, and hooks that change nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import opstep
from harness import TESTS
from harness.patience import SECONDS, wait_until_computing
from opstep import _core, layers, ops

# Where a script of its own finds this file and the harness.
FOLDERS = (str(Path(__file__).parent), str(TESTS))


def train_in_numpy(params, images, labels, rate: float, steps: int) -> list[float]:
    """The MLP of `mlp` below, written out by hand in float64."""
    w0, b0, w1, b1 = (p.astype(np.float64) for p in params)
    losses = []
    for step in range(steps):
        x, label = images[step].astype(np.float64), labels[step][:, 0]
        hidden = x @ w0 + b0
        active = np.maximum(hidden, 0)
        logits = active @ w1 + b1
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        softmax = shifted / shifted.sum(axis=1, keepdims=True)
        rows = np.arange(len(label))
        losses.append(-np.log(softmax[rows, label]).mean())
        d_logits = softmax.copy()
        d_logits[rows, label] -= 1
        d_logits /= len(label)
        d_hidden = (d_logits @ w1.T) * (hidden > 0)
        w1 = w1 - rate * active.T @ d_logits
        b1 = b1 - rate * d_logits.sum(axis=0)
        w0 = w0 - rate * x.T @ d_hidden
        b0 = b0 - rate * d_hidden.sum(axis=0)
    return losses


def mlp(rate: float) -> opstep.Variable:
    x = layers.data("x", [None, 12])
    label = layers.data("label", [None, 1], "int64")
    hidden = layers.fc(x, size=16, act="relu")
    logits = layers.fc(hidden, size=5)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    opstep.optimizer.SGD(rate).minimize(loss)
    return loss


def batches(steps: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    images = rng.standard_normal((steps, 20, 12), np.float32)
    return images, rng.integers(0, 5, (steps, 20, 1))


def test_training_gives_the_losses_of_numpy(world) -> None:
    loss = mlp(0.3)
    world.exe.run(world.startup)
    names = ["fc_0.w", "fc_0.b", "fc_1.w", "fc_1.b"]
    images, labels = batches(40)
    expected = train_in_numpy([world.scope.find(n) for n in names], images, labels, 0.3, 40)
    losses = [
        float(world.exe.run(world.main, {"x": i, "label": n}, [loss])[0])
        for i, n in zip(images, labels, strict=True)
    ]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert losses[-1] != losses[0]


def parameters_after_training(hook: _core.CountingHook | None = None) -> dict[str, bytes]:
    main, startup, scope = opstep.Program(), opstep.Program(), opstep.Scope()
    with opstep.program_guard(main, startup):
        loss = mlp(0.3)
    exe = opstep.Executor()
    if hook is not None:
        hook.install()
    try:
        exe.run(startup, scope=scope)
        for images, labels in zip(*batches(30), strict=True):
            exe.run(main, {"x": images, "label": labels}, [loss], scope)
    finally:
        if hook is not None:
            hook.remove()
    return {name: scope.find(name).tobytes() for name in scope.names()}


def test_a_hook_that_watches_every_op_changes_no_bit() -> None:
    hook = _core.CountingHook()
    watched = parameters_after_training(hook)
    assert hook.before == hook.after > 30 * 15
    assert hook.entered == hook.left == 31 and hook.errors == 0
    assert watched == parameters_after_training()
    assert hook.entered == 31


def test_compile_is_the_same_program_as_a_function(world) -> None:
    loss = mlp(0.3)
    world.exe.run(world.startup)
    step = opstep.compile(world.main, feeds=["x", "label"], fetches=[loss])
    images, labels = batches(3)
    start = {name: world.scope.find(name) for name in world.scope.names()}
    called = [step(x=images[0], label=labels[0])]
    called += [step({"x": images[1], "label": labels[1]}), step(images[2], labels[2])]
    for name, value in start.items():
        world.scope.set(name, value)
    run = [
        world.exe.run(world.main, {"x": images[i], "label": labels[i]}, [loss]) for i in range(3)
    ]
    assert [c[0].tobytes() for c in called] == [r[0].tobytes() for r in run]
    # Another batch size, and a program that has grown, are compiled anew.
    assert step(images[0][:7], labels[0][:7])[0].shape == ()
    layers.fill([1], 0)
    assert step(images[0], labels[0])[0].shape == ()


def test_equal_seeds_give_equal_parameters() -> None:
    def weights(seed: int) -> np.ndarray:
        main, startup, scope = opstep.Program(), opstep.Program(), opstep.Scope()
        main.random_seed = seed
        with opstep.program_guard(main, startup):
            layers.fc(layers.fc(layers.data("x", [1, 8]), size=8), size=8)
        opstep.Executor().run(startup, scope=scope)
        return np.stack([scope.find("fc_0.w"), scope.find("fc_1.w")])

    assert np.array_equal(weights(1), weights(1))
    assert not np.array_equal(weights(1), weights(2))
    first, second = weights(1)
    assert not np.array_equal(first, second)
    assert np.abs(first).max() <= np.sqrt(6 / 16) and first.std() > 0.2


def test_arrays_of_any_layout_can_be_fed(world) -> None:
    x = layers.data("x", [None, None])
    y = x * 2
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    read_only = base.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + base.tobytes(), np.float32, offset=1).reshape(4, 6)
    for array in (base.T, base[::2, ::-1], read_only, unaligned, base[:0], np.asfortranarray(base)):
        (value,) = world.exe.run(world.main, {"x": array}, [y])
        assert np.array_equal(value, array * 2)


def test_a_fetched_array_is_the_callers_own(world) -> None:
    x = layers.data("x", [2])
    y = x + 1
    (first,) = world.exe.run(world.main, {"x": [1, 2]}, [y])
    (second,) = world.exe.run(world.main, {"x": [5, 6]}, [y])
    assert first.tolist() == [2, 3] and second.tolist() == [6, 7]
    first[:] = 0
    assert second.tolist() == [6, 7]


def test_a_large_result_that_was_dropped_is_memory_for_the_next_one(world) -> None:
    x = layers.data("x", [1 << 18])
    y = x + 1

    def run(value: int) -> np.ndarray:
        return world.exe.run(world.main, {"x": np.full(1 << 18, value, np.float32)}, [y])[0]

    kept, dropped = run(1), run(2)
    address = dropped.ctypes.data
    del dropped
    again = run(3)
    assert again.ctypes.data == address != kept.ctypes.data
    assert np.all(kept == 2) and np.all(again == 4)


def test_scopes(world) -> None:
    w = world.main.global_block().create_parameter("w", [2])
    y = w * 2
    world.scope.set(w, np.array([1, 2], np.float32))
    view, copy = world.scope.view("w"), world.scope.find("w")
    view[0] = 10
    assert copy.tolist() == [1, 2] and "w" in world.scope and world.scope.names() == ["w"]
    assert world.exe.run(world.main, fetch_list=[y])[0].tolist() == [20, 4]
    other = opstep.Scope()
    other.set("w", np.array([3, 3], np.float32))
    assert world.exe.run(world.main, fetch_list=[y], scope=other)[0].tolist() == [6, 6]
    assert other.erase("w") and "w" not in other
    del world.scope
    assert view.tolist() == [10, 2]


def test_a_loop(world) -> None:
    n = layers.data("n", [1], "int64")
    i = layers.fill([1], 0, "int64")
    total = layers.fill([1], 0, "int64")
    going = layers.less_than(i, n)
    loop = layers.While(going)
    with loop.block():
        layers.increment(i)
        layers.add(total, i * i, out=total)
        layers.less_than(i, n, out=going)
    for count in (0, 1, 10, 1000):
        values = world.exe.run(world.main, {"n": [count]}, [total, i])
        assert [v.tolist() for v in values] == [[sum(k * k for k in range(count + 1))], [count]]


def test_a_loop_in_a_loop(world) -> None:
    i = layers.fill([1], 0, "int64")
    count = layers.fill([1], 0, "int64")
    outer_going = layers.less_than(i, 3)
    outer = layers.While(outer_going)
    with outer.block():
        j = layers.fill([1], 0, "int64")
        inner_going = layers.less_than(j, i)
        inner = layers.While(inner_going)
        with inner.block():
            layers.increment(count)
            layers.increment(j)
            layers.less_than(j, i, out=inner_going)
        layers.increment(i)
        layers.less_than(i, 3, out=outer_going)
    assert world.exe.run(world.main, fetch_list=[count])[0].tolist() == [3]


def endless(limit: int = 2**62) -> tuple[opstep.Program, opstep.Variable]:
    main = opstep.Program()
    with opstep.program_guard(main, opstep.Program()):
        i = layers.fill([1], 0, "int64")
        going = layers.less_than(i, limit)
        loop = layers.While(going)
        with loop.block():
            layers.increment(i)
            layers.less_than(i, limit, out=going)
    return main, i


def test_the_gil_is_released_while_a_program_runs() -> None:
    # What is fed is read where it is: the other thread ends the loop, if it ever gets to run.
    main = opstep.Program()
    with opstep.program_guard(main, opstep.Program()):
        limit = layers.data("limit", [1], "int64")
        i = layers.fill([1], 0, "int64")
        going = layers.less_than(i, limit)
        with layers.While(going).block():
            layers.increment(i)
            layers.less_than(i, limit, out=going)
    fed = np.array([1 << 60])
    turns = 0

    def spin() -> None:
        nonlocal turns
        while turns < 1000:
            turns += 1
            time.sleep(0)
        fed[0] = 0

    thread = threading.Thread(target=spin)
    thread.start()
    opstep.Executor().run(main, feed={"limit": fed}, fetch_list=[i])
    thread.join()
    assert turns == 1000


def test_two_threads_run_two_programs_at_once() -> None:
    results: dict[int, dict[str, bytes]] = {}

    def work(number: int) -> None:
        results[number] = parameters_after_training()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1] == parameters_after_training()


def test_two_threads_run_one_program_at_once(world) -> None:
    x = layers.data("x", [64])
    y = x
    for _ in range(50):
        y = y + 1
    failures = []

    def work(start: float) -> None:
        feed = {"x": np.full(64, start, np.float32)}
        for _ in range(50):
            (value,) = world.exe.run(world.main, feed, [y], world.scope)
            if not np.array_equal(value, feed["x"] + 50):
                failures.append(value)

    threads = [threading.Thread(target=work, args=(float(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("how", ["run", "compiled"])
def test_ctrl_c_ends_a_long_run(how: str) -> None:
    script = textwrap.dedent(
        """
        import sys, opstep
        sys.path[:0] = sys.argv[1:3]
        from test_run import endless
        main, i = endless()
        exe = opstep.Executor()
        try:
            print("go", flush=True)
            if sys.argv[3] == "run":
                exe.run(main, fetch_list=[i])
            else:
                opstep.compile(main, fetches=[i])()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        main, i = endless(5)
        print(exe.run(main, fetch_list=[i])[0].tolist(), flush=True)
        """
    )
    command = [sys.executable, "-c", script, *FOLDERS, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        wait_until_computing(process.pid, 0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.stdout.readline() == "[5]\n"
    assert process.returncode == 0


@pytest.mark.parametrize("iterations", [10, 100_000])
def test_a_process_ends_well_while_its_daemon_threads_run(iterations: int) -> None:
    script = textwrap.dedent(
        """
        import sys, threading, time, opstep
        sys.path[:0] = sys.argv[1:3]
        from test_run import endless
        main, i = endless(int(sys.argv[3]))
        exe = opstep.Executor()
        began = time.process_time()

        def work():
            while True:
                exe.run(main, fetch_list=[i])

        for _ in range(2):
            threading.Thread(target=work, daemon=True).start()
        while time.process_time() < began + 0.1:  # They run.
            time.sleep(0.001)
        """
    )
    command = [sys.executable, "-c", script, *FOLDERS, str(iterations)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_exception_from_a_signal_handler_ends_the_run() -> None:
    class Alarm(Exception):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    def press() -> None:
        wait_until_computing(os.getpid(), 0.2)
        os.kill(os.getpid(), signal.SIGALRM)

    main, i = endless()
    before = signal.signal(signal.SIGALRM, ring)
    thread = threading.Thread(target=press)
    try:
        with pytest.raises(Alarm):
            thread.start()
            opstep.Executor().run(main, fetch_list=[i])
    finally:
        thread.join()
        signal.signal(signal.SIGALRM, before)


def test_a_forked_child_runs_programs() -> None:
    script = textwrap.dedent(
        """
        import os, sys, opstep
        from opstep import layers
        x = layers.data("x", [2])
        y = x + 1
        exe = opstep.Executor()
        exe.run(feed={"x": [1, 2]}, fetch_list=[y])
        child = os.fork()
        got = exe.run(feed={"x": [3, 4]}, fetch_list=[y])[0].tolist()
        os.write(1, f"{got}\\n".encode())
        if child:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[4.0, 5.0]\n" * 2, "")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            {"OPSTEP_SERVER": "unix:/nowhere/at/all"},
            "opstep: no debug server answers at unix:/nowhere/at/all: running without it "
            "and trying again\n",
        ),
        (
            {"OPSTEP_SERVER": "unix:/nowhere/at/all", "OPSTEP_WAIT": "soon"},
            "opstep: running without the debugger: "
            "OPSTEP_WAIT is a number of seconds, not 'soon'\n",
        ),
    ],
)
def test_a_debug_server_that_is_not_there_does_not_end_the_run(settings, complaint: str) -> None:
    script = textwrap.dedent(
        """
        import opstep
        y = opstep.layers.data("x", [2]) + 1
        print(opstep.Executor().run(feed={"x": [3, 4]}, fetch_list=[y])[0].tolist())
        """
    )
    command = [sys.executable, "-c", script]
    environment = os.environ | settings
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[4.0, 5.0]\n", complaint)


def test_paths_and_words_that_are_no_utf8_and_odd_ranks_do_not_end_the_run(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    with open(folder + b"/script.py", "w") as file:
        file.write(
            "import opstep\n"
            "y = opstep.layers.data('x', [2]) + 1\n"
            "print(opstep.Executor().run(feed={'x': [3, 4]}, fetch_list=[y])[0].tolist())\n"
        )
    command = [os.fsencode(sys.executable), folder + b"/script.py", b"\xfe"]
    for rank in ("99999999999", "\N{SUPERSCRIPT TWO}"):
        environment = os.environ | {"RANK": rank}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, env=environment
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "[4.0, 5.0]\n", "")


def test_a_run_that_fails_leaves_the_scope_as_it_was(world) -> None:
    w = world.main.global_block().create_var("w", [4], persistable=True)
    layers.fill([4], 1.0, out=w)
    zero = layers.data("zero", [], "int64")
    bad = ops.div(layers.fill([], 1, "int64"), zero)
    world.scope.set("w", np.array([1, 2, 3], np.float32))
    with pytest.raises(opstep.Error, match="div"):
        world.exe.run(world.main, feed={"zero": np.array(0)}, fetch_list=[bad])
    np.testing.assert_array_equal(world.scope.find("w"), [1, 2, 3])


def test_bytes_that_are_no_bools_count_as_true(world) -> None:
    c = layers.data("c", [None], "bool")
    out = ops.where(c, layers.fill([], 1.0), layers.fill([], 2.0))
    odd = np.array([0, 1, 2, 255], np.uint8).view(bool)
    (got,) = world.exe.run(world.main, feed={"c": odd}, fetch_list=[out])
    np.testing.assert_array_equal(got, [2, 1, 1, 1])
