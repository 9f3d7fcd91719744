"""One run of a program that loops for about three seconds."""

import time

import numpy as np

import opstep
from opstep import layers

with opstep.program_guard(opstep.Program("long"), opstep.Program("startup")) as _:
    x = layers.data("x", shape=[64])
    total = layers.assign(x)
    count = layers.fill([1], 0, dtype="int64")
    limit = layers.data("limit", shape=[1], dtype="int64")
    going = count < limit
    loop = layers.While(going)
    with loop.block():
        layers.assign(layers.tanh(total + x), out=total)
        layers.increment(count)
        layers.assign(count < limit, out=going)
    exe = opstep.Executor()
    feed = {"x": np.ones(64, np.float32)}
    start = time.monotonic()
    exe.run(feed={**feed, "limit": np.array([2000])}, fetch_list=[total])
    each = (time.monotonic() - start) / 2000
    steps = np.array([int(3 / each)])
    exe.run(feed={**feed, "limit": steps}, fetch_list=[total])
