"""Runs a program of exact ops again and again, for a fuzz that edits its values at stops."""

import numpy as np

import opstep
from opstep import layers

main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[4, 6])
    k = layers.data("k", shape=[4, 6], dtype="int64")
    a = layers.neg(x, name="a")
    m = layers.neg(k, name="m")
    b = layers.mul(a, x, name="b")
    n = layers.add(m, k, name="n")
    c = layers.add(b, a, name="c")
    d = layers.sub(c, b, name="d")
exe = opstep.Executor()
feed = {
    "x": (np.arange(24, dtype=np.float32) - 9).reshape(4, 6) / 4,
    "k": np.arange(24).reshape(4, 6) - 5,
}
while True:
    exe.run(main, feed, [a, m, b, n, c, d])
