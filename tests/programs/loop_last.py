"""A program whose last op is a loop: behind it there is nothing to stop at."""

import numpy as np

import opstep
from opstep import layers

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    start = layers.data("start", shape=[1])
    total = layers.assign(start)
    i = layers.fill([1], 0, "int64")
    running = layers.less_than(i, 5)
    loop = layers.While(running)
    with loop.block():
        layers.assign(layers.add(total, total), out=total)
        layers.increment(i)
        layers.less_than(i, 5, out=running)

exe = opstep.Executor()
for number in (1.0, 3.0):
    exe.run(main, feed={"start": np.array([number], np.float32)}, fetch_list=[total])
