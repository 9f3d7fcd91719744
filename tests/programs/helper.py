"""A helper makes the layers, called from two lines."""

import numpy as np

import opstep
from opstep import layers


def dense(x: opstep.Variable, size: int) -> opstep.Variable:
    return layers.fc(x, size=size, act="tanh")  # @inside


main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 8])
    first = dense(x, 4)  # @first
    second = dense(first, 3)  # @second
    loss = layers.mean(second)  # @loss

exe = opstep.Executor()
exe.run(startup)
exe.run(main, feed={"x": np.ones((2, 8), np.float32)}, fetch_list=[loss])
