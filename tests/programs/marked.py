"""A layer that asks for the debugger; the mark after the last op of all has no effect."""

import numpy as np

import opstep
from opstep import layers

main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 4])
    opstep.debug.breakpoint()
    hidden = layers.fc(x, size=2, act="relu")  # @marked
    loss = layers.mean(hidden)
    opstep.optimizer.SGD(learning_rate=0.1).minimize(loss)
    opstep.debug.breakpoint()

exe = opstep.Executor()
exe.run(startup)
for _ in range(2):
    (value,) = exe.run(main, feed={"x": np.ones((3, 4), np.float32)}, fetch_list=[loss])
    print(f"loss {float(value):g}", flush=True)
