"""A loop inside a graph: square roots by Newton's method, until the steps get small."""

import numpy as np

import opstep
from opstep import layers, pictures

# %% The program.
main = opstep.Program("newton")
with opstep.program_guard(main, opstep.Program("startup")):
    number = layers.data("number", shape=[4])
    root = layers.assign(number)
    turns = layers.fill(shape=[1], value=0, dtype="int64")
    going = layers.fill(shape=[], value=True, dtype="bool")

    loop = layers.While(going)
    with loop.block():
        better = (root + number / root) * 0.5
        change = layers.reduce_max((better - root) ** 2)
        layers.assign(better, out=root)
        layers.increment(turns)
        layers.greater_than(change, 1e-10, out=going)
pictures.graph(main)

# %% The run.
exe = opstep.Executor()
numbers = np.array([2, 9, 100, 12345], np.float32)
roots, count = exe.run(main, feed={"number": numbers}, fetch_list=[root, turns])
print(f"after {count[0]} turns: {roots}")
main
