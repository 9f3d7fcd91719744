"""Doubles a number in a loop of five iterations, in each of two runs."""

import numpy as np

import opstep
from opstep import layers

main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    start = layers.data("start", shape=[1])
    total = layers.assign(start)  # @before
    i = layers.fill([1], 0, "int64")
    running = layers.less_than(i, 5)
    loop = layers.While(running)
    with loop.block():
        doubled = layers.add(total, total)  # @double
        layers.assign(doubled, out=total)  # @keep
        layers.increment(i)  # @increment
        layers.less_than(i, 5, out=running)  # @again
    result = layers.add(total, 1.0)  # @after

exe = opstep.Executor()
exe.run(startup)
for number in (1.0, 3.0):
    feed = {"start": np.array([number], np.float32)}
    (value,) = exe.run(main, feed=feed, fetch_list=[result])  # @run
    print(f"result {float(value[0]):g}")
