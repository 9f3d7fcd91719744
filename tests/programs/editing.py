"""Small programs whose values tests edit: editing.py CASE OUT.npz saves what each run gave."""

import sys

import numpy as np

import opstep
from opstep import layers, ops

case, out = sys.argv[1:]
rng = np.random.default_rng(7)
results: dict[str, np.ndarray] = {}
main, startup = opstep.Program("main"), opstep.Program("startup")
exe, scope = opstep.Executor(), opstep.global_scope()


def run(feed: dict[str, np.ndarray], *fetches: opstep.Variable) -> None:
    """Two runs: what one saw must not be in the other."""
    for number in (1, 2):
        for variable, value in zip(fetches, exe.run(main, feed, list(fetches)), strict=True):
            results[f"{variable.name}_{number}"] = value


def chain() -> None:
    x = layers.data("x", shape=[4, 5])
    a = layers.exp(x, name="a")
    b = layers.tanh(a, name="b")
    c = layers.reduce_sum(b, name="c")
    feed = rng.standard_normal((4, 5)).astype(np.float32)
    run({"x": feed}, a, b, c)
    results["x"] = feed


def constants() -> None:
    x = layers.data("x", shape=[3])
    c = layers.constant(np.array([1, 2, 3], np.float32), name="c")
    d = layers.neg(c, name="d")
    e = layers.square(d, name="e")
    y = layers.add(x, e, name="y")
    z = layers.mul(x, c, name="z")
    run({"x": np.array([10, 20, 30], np.float32)}, c, d, y, z)


def copies() -> None:
    x = layers.data("x", shape=[2, 3])
    a = layers.tanh(x, name="a")
    b = layers.reshape(a, [3, 2], name="b")
    c = layers.square(b, name="c")
    d = layers.neg(a, name="d")
    run({"x": np.arange(6, dtype=np.float32).reshape(2, 3)}, c, d)


def conv(size: int = 12) -> None:
    x = layers.data("x", shape=[2, 16, size, size])
    weights = rng.standard_normal((32, 16, 3, 3)).astype(np.float32)
    w = layers.constant(weights, name="w")
    y = ops.conv(x, w, name="y")
    run({"x": rng.standard_normal((2, 16, size, size)).astype(np.float32)}, y)


def large_conv() -> None:
    conv(32)


def train() -> None:
    x = layers.data("x", shape=[None, 8])
    hidden = layers.fc(x, size=6, act="tanh", name="fc")
    loss = layers.mean(layers.square(hidden))
    opstep.optimizer.SGD(0.1).minimize(loss)
    exe.run(startup)
    feed = {"x": rng.standard_normal((16, 8)).astype(np.float32)}
    for step in range(4):
        if step == 2 and "set" in out:
            w = scope.find("fc.w").copy()
            w[1, :3] = 0.5
            w[:, 5] = w[:, 0] * 2
            scope.set("fc.w", w)
        (results[f"loss_{step}"],) = exe.run(main, feed, [loss])
    for name in ("fc.w", "fc.b"):
        results[name] = scope.find(name)


def loop() -> None:
    x = layers.data("x", shape=[1])
    total = layers.assign(x, name="total")
    i = layers.fill([1], 0, "int64", name="i")
    limit = layers.fill([1], 5, "int64", name="limit")
    running = layers.less_than(i, limit)
    body = layers.While(running)
    with body.block():
        k = layers.fill([1], 1.0, name="k")
        twice = layers.neg(k, name="twice")
        layers.assign(layers.sub(total, twice, name="more"), out=total)
        layers.increment(i)
        layers.less_than(i, limit, out=running)
    result = layers.square(total, name="result")
    run({"x": np.zeros(1, np.float32)}, total, result)


def saved() -> None:
    x = layers.data("x", shape=[None, 2, 2])
    x.stop_gradient = False
    rnn = layers.Recurrent(name="rnn")
    with rnn.step():
        now = rnn.step_input(x)
        before = rnn.memory(shape=[2])
        total = layers.add(before, layers.mul(now, now, name="squares"), name="total")
        rnn.update(before, total)
        rnn.output(total)
    sums = rnn()
    loss = layers.mean(sums, name="loss")
    ((_, gradient),) = opstep.append_backward(loss, [x])
    run({"x": np.arange(1, 13, dtype=np.float32).reshape(3, 2, 2)}, sums, gradient)


def rows() -> None:
    x = layers.data("x", shape=[6, 2])
    small = layers.less_than(layers.reduce_sum(x, axes=[1], keepdims=True), 5.0, name="small")
    branch = layers.IfElse(small)
    with branch.true_block():
        branch.output(layers.sqrt(branch.input(x)))
    with branch.false_block():
        branch.output(layers.neg(branch.input(x)))
    run({"x": np.arange(12, dtype=np.float32).reshape(6, 2)}, branch())


def dtypes() -> None:
    floats = ["float32", "float64", "float16", "bfloat16"]
    names = [*floats, "int8", "int16", "int32", "int64", "uint8", "bool"]
    x = layers.data("x", shape=[4, 3, 5])
    made = [layers.cast(x, name, name=name) for name in names]
    one = layers.cast(layers.reduce_sum(x), "float32", name="one")
    end = layers.tanh(one, name="end")
    run({"x": (rng.random((4, 3, 5)) * 2).astype(np.float32)}, *made[:3], *made[4:], end)


def large() -> None:
    x = layers.data("x", shape=[2048, 2048])
    y = layers.tanh(x, name="y")
    z = layers.reduce_sum(y, name="z")
    run({"x": rng.random((2048, 2048), np.float32)}, z)


with opstep.program_guard(main, startup):
    globals()[case]()
np.savez(out, **results)
