"""Takes one of two branches, in turn."""

import numpy as np

import opstep
from opstep import layers

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[2])
    total = layers.reduce_sum(x)
    positive = layers.less_than(0.0, total)  # @test

    def grow() -> opstep.Variable:
        doubled = layers.add(x, x)  # @grow
        return layers.mul(doubled, doubled)  # @square

    def shrink() -> opstep.Variable:
        return layers.neg(x)  # @shrink

    chosen = layers.cond(positive, grow, shrink)  # @cond
    result = layers.reduce_sum(chosen)  # @after

exe = opstep.Executor()
for sign in (1.0, -1.0):
    (value,) = exe.run(main, feed={"x": np.full(2, sign, np.float32)}, fetch_list=[result])
    print(f"result {float(value):g}")
