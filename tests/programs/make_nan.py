"""Takes the logarithm of a number that falls below zero in the third run."""

import numpy as np

import opstep
from opstep import layers

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[None])
    y = layers.log(x)  # @log
    z = layers.reduce_sum(layers.mul(y, 2.0))  # @sum

exe = opstep.Executor()
for run in range(1, 5):
    feed = {"x": np.array([4.0 - run, 3.5 - 1.5 * run], np.float32) + 0.75}
    (value,) = exe.run(main, feed=feed, fetch_list=[z])
    print(f"run {run}: {float(value):g}")
