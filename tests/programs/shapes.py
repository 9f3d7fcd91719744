"""A program that runs once in each of so many shapes."""

import sys

import numpy as np

import opstep
from opstep import layers

main = opstep.Program("shapes")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[None, 3])
    y = x + x
exe = opstep.Executor()
for rows in range(1, int(sys.argv[1]) + 1):
    exe.run(main, feed={"x": np.ones((rows, 3), np.float32)}, fetch_list=[y])
