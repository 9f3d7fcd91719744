"""Multiplies a vector by ten until its numbers are no numbers any more, in two lines."""

import numpy as np

import opstep
from opstep import layers

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[2, 2])
    with opstep.name_scope("left"):
        left = layers.mul(x, 10.0)  # @left
    with opstep.name_scope("right"):
        right = layers.mul(x, 10.0)  # @right
    total = layers.add(left, right)  # @total

exe = opstep.Executor()
value = np.array([[1, 1], [1, 2]], np.float32)
for _ in range(44):
    value, sums = exe.run(main, feed={"x": value}, fetch_list=[left, total])
print(f"done {sums.min():g}")
