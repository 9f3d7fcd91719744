"""One run of a program that loops until the file of its argument is there."""

import os
import sys
import threading
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
    # What is fed is read where it is: a smaller limit ends the loop.
    steps = np.array([1 << 60])

    def end() -> None:
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
        steps[0] = 0

    threading.Thread(target=end, daemon=True).start()
    exe.run(feed={**feed, "limit": steps}, fetch_list=[total])
