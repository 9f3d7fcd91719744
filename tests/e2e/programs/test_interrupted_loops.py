"""Ctrl-C while a loop over a reader runs: it is never lost, and nothing is done twice."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from harness.patience import SECONDS, wait_until

pytestmark = pytest.mark.e2e

HEAD = """
import os, signal, sys, threading, time
import numpy as np
import opstep
from opstep import layers, ops, readers

main, startup = opstep.Program(), opstep.Program()
exe, scope = opstep.Executor(), opstep.global_scope()
# A fed array is read where it is: what the program waits for is written into it.
gate = np.zeros([1], np.int64)
scope.set("turns", gate.copy())
with opstep.program_guard(main, startup):
    held = layers.data("held", [1], "int64")

def pressed(*_):
    gate[0] = 1
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, pressed)

def busy():
    '''Turns in a loop until Ctrl-C was pressed.'''
    turns = main.global_block().create_var("turns", [1], "int64", persistable=True)
    go = ops.less(held, 1)
    with layers.While(go).block():
        ops.increment(turns, out=turns)
        ops.less(held, 1, out=go)

def interrupt(reached=lambda: scope.find("turns")[0] > 0):
    '''Presses Ctrl-C when that is reached; the gate opens when the run has seen it.'''
    def work():
        while not reached():
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=work, daemon=True).start()
"""


def run(tmp_path: Path, script: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(HEAD + textwrap.dedent(script))
    command = [sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout


COUNTED = """
started = threading.Event()

def slow():
    for i in range(5):
        yield {"x": np.full((2, 1), i, np.float32)}  # The first is also asked for its type.
        started.set()
        while not gate[0]:
            time.sleep(0.001)

with opstep.program_guard(main, startup):
    count = layers.create_parameter([1], name="count", initializer=opstep.initializer.Constant(0))
    reader = readers.from_arrays({"x": np.arange(20, dtype=np.float32).reshape(20, 1)}, 2)
    with (loop := reader.iterate()) as (x,):
        value = layers.mean(x)
        ops.assign(count + 1.0, out=count)
        INSIDE
        seen = loop.fetch(value)
exe.run(startup)
feed = {"held": gate}
interrupt(REACHED)
try:
    exe.run(main, feed=feed)
except KeyboardInterrupt:
    done = int(scope.find("reader_loop_0.step"))
    assert 0 < done < 10 and done == scope.find("count")[0], (done, scope.find("count"))
    print("interrupted")
(values,) = exe.run(main, feed=feed, fetch_list=[seen])
assert scope.find("count")[0] == 10, scope.find("count")
assert values.tolist() == [2 * i + 0.5 for i in range(10)][done:], values
"""


@pytest.mark.parametrize(
    ("inside", "reached"),
    [
        ("busy()", ""),
        ("loop.evaluate(readers.from_generator(slow), value)", "started.is_set"),
    ],
    ids=["busy", "evaluating"],
)
def test_it_ends_between_two_iterations_and_goes_on(
    tmp_path: Path, inside: str, reached: str
) -> None:
    script = COUNTED.replace("INSIDE", inside).replace("REACHED", reached)
    assert run(tmp_path, script) == "interrupted\n"


def test_it_is_not_lost_in_the_last_iteration(tmp_path: Path) -> None:
    script = """
    with opstep.program_guard(main, startup):
        reader = readers.from_arrays({"x": np.ones((4, 1), np.float32)}, 2)
        with (loop := reader.iterate()) as (x,):
            busy()
            loop.stop_when(ops.less(layers.mean(x), 5.0))
    exe.run(startup)
    interrupt()
    try:
        exe.run(main, feed={"held": gate})
        print("lost")
    except KeyboardInterrupt:
        print("interrupted")
    """
    assert run(tmp_path, script) == "interrupted\n"


def test_an_error_in_the_same_iteration_is_told(tmp_path: Path) -> None:
    script = """
    with opstep.program_guard(main, startup):
        data = {"x": np.ones((4, 1), np.float32), "at": np.full((4, 1), 7)}
        with readers.from_arrays(data, 2).iterate() as (x, at):
            busy()
            ops.gather(x, at)
    exe.run(startup)
    interrupt()
    try:
        exe.run(main, feed={"held": gate})
    except opstep.Error as error:
        print("[gather]" in str(error))
    """
    assert run(tmp_path, script) == "True\n"


def test_data_that_never_come_do_not_keep_it(tmp_path: Path) -> None:
    script = """
    asked = threading.Event()

    def make():
        yield {"x": np.ones((2, 3), np.float32)}
        asked.set()
        threading.Event().wait()

    with opstep.program_guard(main, startup):
        with readers.from_generator(make).iterate() as (x,):
            layers.mean(x)
    exe.run(startup)
    interrupt(lambda: asked.is_set() and "reader_loop_0.step" in scope
              and scope.find("reader_loop_0.step") == 1)
    try:
        exe.run(main, feed={"held": gate})
    except KeyboardInterrupt:
        print(scope.find("reader_loop_0.step"))
    sys.stdout.flush()
    os._exit(0)
    """
    assert run(tmp_path, script) == "1\n"


def test_a_second_one_ends_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        HEAD
        + textwrap.dedent("""
        with opstep.program_guard(main, startup):
            reader = readers.from_arrays({"x": np.ones((4, 1), np.float32)}, 2)
            with reader.iterate() as (x,):
                busy()
        exe.run(startup)

        def tell():
            while scope.find("turns")[0] == 0:
                time.sleep(0.001)
            print("going", flush=True)

        threading.Thread(target=tell, daemon=True).start()
        exe.run(main, feed={"held": gate})
        """)
    )
    with subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "going\n"

        def ended() -> bool:
            # Two that come before the run has looked are one.
            process.send_signal(signal.SIGINT)
            return process.poll() is not None

        assert wait_until(ended)
        assert process.returncode in (-signal.SIGINT, 130)
        assert "KeyboardInterrupt" in process.stderr.read()
