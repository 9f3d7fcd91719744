"""Tensors of several dtypes, some with NaN or Inf, and an op that takes two of them in a slot."""

import numpy as np

import opstep
from opstep import layers

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[2, 3])
    y = layers.data("y", shape=[2, 2])
    i = layers.data("i", shape=[3], dtype="int32")
    brief = layers.cast(x, "bfloat16")
    half = layers.cast(x, "float16")
    small = layers.less_than(x, 1.0)
    byte = layers.cast(i, "uint8")
    both = layers.concat([x, y], axis=1)  # @concat
    total = layers.reduce_sum(both)  # @total

feed = {
    "x": np.array([[1, 2.5, -3], [4e-8, np.nan, 1e7]], np.float32),
    "y": np.ones((2, 2), np.float32),
    "i": np.array([1, -2, 300], np.int32),
}
opstep.Executor().run(main, feed=feed, fetch_list=[total])
