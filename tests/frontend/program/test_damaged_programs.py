"""Damaged programs with blocks: whatever a file says, reading and running it is safe."""

from __future__ import annotations

import random
import signal
import sys

import numpy as np

import opstep
from harness.processes import run_file
from opstep import layers, ops

FEED = {"x": np.ones((3, 4, 2), np.float32), "c": np.array([True, False, True, False])}
TRIES = 1500


def build() -> tuple[opstep.Program, list[str]]:
    program = opstep.Program("blocks")
    with opstep.program_guard(program, opstep.Program()):
        x = layers.data("x", [None, None, 2])
        c = layers.data("c", [None], "bool")
        x.stop_gradient = False
        rnn = layers.Recurrent()
        with rnn.step():
            now = rnn.step_input(x)
            before = rnn.memory(shape=[2])
            rnn.update(before, ops.tanh(ops.add(now, before)))
            rnn.output(ops.mul(now, before))
        out = rnn()
        branch = layers.IfElse(c)
        with branch.true_block():
            branch.output(ops.mul(branch.input(rnn.final[0]), 2.0))
        with branch.false_block():
            branch.output(ops.sin(branch.input(rnn.final[0])))
        y = branch()
        i = layers.fill([], 0, "int64")
        go_on = ops.less(i, 3)
        with layers.While(go_on).block():
            ops.sin(y, out=y)
            ops.increment(i, out=i)
            ops.less(i, 3, out=go_on)
        z = layers.cond(ops.less(i, 2), lambda: ops.neg(y), lambda: ops.exp(y))
        with layers.Switch() as switch, switch.case(ops.equal(i, 3)):
            ops.increment(z, out=z)
        loss = ops.add(ops.reduce_mean(z, keepdims=False), ops.reduce_mean(out, keepdims=False))
        ((_, gradient),) = opstep.append_backward(loss, [x])
    return program, [loss.name, gradient.name]


def damage(data: bytes, rng: random.Random) -> bytes:
    broken = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(broken))
        kind = rng.randrange(4)
        if kind == 0:
            broken[at] = rng.randrange(256)
        elif kind == 1:
            broken[at] = (broken[at] + rng.choice((-1, 1))) % 256
        elif kind == 2:
            length = rng.randrange(1, 12)
            other = rng.randrange(len(broken))
            broken[at : at + length] = broken[other : other + length]
        else:
            del broken[at : at + rng.randrange(1, 4)]
    return bytes(broken)


def stop(*_: object) -> None:
    raise TimeoutError


def main() -> None:
    """In a process of its own, so that a crash is seen as one."""
    program, fetches = build()
    data = program.to_bytes()
    good = opstep.Executor().run(opstep.Program.from_bytes(data), feed=FEED, fetch_list=fetches)
    outcomes = {"refused": 0, "failed": 0, "ran": 0, "endless": 0}
    signal.signal(signal.SIGALRM, stop)
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        broken = damage(data, random.Random(seed))
        try:
            read = opstep.Program.from_bytes(broken)
        except opstep.Error:
            outcomes["refused"] += 1
            continue
        str(read)
        signal.setitimer(signal.ITIMER_REAL, 0.5)  # a damaged loop may run for ever
        try:
            opstep.Executor().run(read, feed=FEED, fetch_list=fetches, scope=opstep.Scope())
            outcomes["ran"] += 1
        except opstep.Error:
            outcomes["failed"] += 1
        except TimeoutError:
            outcomes["endless"] += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    again = opstep.Executor().run(opstep.Program.from_bytes(data), feed=FEED, fetch_list=fetches)
    assert all(np.array_equal(a, b) for a, b in zip(good, again, strict=True))
    print(outcomes)
    assert outcomes["refused"] and outcomes["failed"] and outcomes["ran"], outcomes


def test_damaged_programs_are_refused_or_run() -> None:
    done = run_file(__file__, "0", str(TRIES), seconds=300)
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    main()
