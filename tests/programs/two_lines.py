"""One run of two ops, each on a line of its own."""

import numpy as np

import opstep
from opstep import layers

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[4])
    y = layers.tanh(x)  # @first
    z = layers.exp(y)  # @second

opstep.Executor().run(main, feed={"x": np.ones(4, np.float32)}, fetch_list=[z])
print("done", flush=True)
