"""Ctrl-C while a loop over a reader runs: it is never lost, and nothing is done twice."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

HEAD = """
import os, signal, sys, threading, time
import numpy as np
import opstep
from opstep import layers, ops, readers

def soon(seconds):
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

def busy(turns):
    i = layers.fill([], 0, "int64")
    go = ops.less(i, turns)
    with layers.While(go).block():
        ops.increment(i, out=i)
        ops.less(i, turns, out=go)

main, startup = opstep.Program(), opstep.Program()
exe, scope = opstep.Executor(), opstep.global_scope()
"""


def run(tmp_path: Path, script: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(HEAD + textwrap.dedent(script))
    command = [sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout


COUNTED = """
with opstep.program_guard(main, startup):
    count = layers.create_parameter([1], name="count", initializer=opstep.initializer.Constant(0))
    reader = readers.from_arrays({"x": np.arange(20, dtype=np.float32).reshape(20, 1)}, 2)
    with (loop := reader.iterate()) as (x,):
        value = layers.mean(x)
        ops.assign(count + 1.0, out=count)
        INSIDE
        seen = loop.fetch(value)
exe.run(startup)
soon(0.7)
try:
    exe.run(main)
except KeyboardInterrupt:
    done = int(scope.find("reader_loop_0.step"))
    assert 0 < done < 10 and done == scope.find("count")[0], (done, scope.find("count"))
    print("interrupted")
(values,) = exe.run(main, fetch_list=[seen])
assert scope.find("count")[0] == 10, scope.find("count")
assert values.tolist() == [2 * i + 0.5 for i in range(10)][done:], values
"""
SLOWLY = """
        def slow():
            for i in range(5):
                time.sleep(0.05)
                yield {"x": np.full((2, 1), i, np.float32)}

        loop.evaluate(readers.from_generator(slow), value)
"""


@pytest.mark.parametrize("inside", ["busy(4_000_000)", SLOWLY], ids=["busy", "evaluating"])
def test_it_ends_between_two_iterations_and_goes_on(tmp_path: Path, inside: str) -> None:
    assert (
        run(
            tmp_path,
            COUNTED.replace("        INSIDE", textwrap.indent(textwrap.dedent(inside), " " * 8)),
        )
        == "interrupted\n"
    )


def test_it_is_not_lost_in_the_last_iteration(tmp_path: Path) -> None:
    script = """
    with opstep.program_guard(main, startup):
        reader = readers.from_arrays({"x": np.ones((4, 1), np.float32)}, 2)
        with (loop := reader.iterate()) as (x,):
            busy(15_000_000)
            loop.stop_when(ops.less(layers.mean(x), 5.0))
    exe.run(startup)
    soon(0.3)
    try:
        exe.run(main)
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
            busy(15_000_000)
            ops.gather(x, at)
    exe.run(startup)
    soon(0.3)
    try:
        exe.run(main)
    except opstep.Error as error:
        print("[gather]" in str(error))
    """
    assert run(tmp_path, script) == "True\n"


def test_data_that_never_come_do_not_keep_it(tmp_path: Path) -> None:
    script = """
    def make():
        yield {"x": np.ones((2, 3), np.float32)}
        time.sleep(1000)

    with opstep.program_guard(main, startup):
        with readers.from_generator(make).iterate() as (x,):
            layers.mean(x)
    exe.run(startup)
    soon(0.5)
    try:
        exe.run(main)
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
                busy(10**12)
        exe.run(startup)
        print("going", flush=True)
        exe.run(main)
        """)
    )
    with subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "going\n"
        for _ in range(40):
            if process.poll() is not None:
                break
            process.send_signal(signal.SIGINT)
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
        assert process.returncode == -signal.SIGINT or process.returncode == 130
        assert process.stderr is not None and "KeyboardInterrupt" in process.stderr.read()
