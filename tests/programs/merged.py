"""A program that gives its parameters their first values by itself, run twice."""

import numpy as np

import opstep
from opstep import layers

main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 2])
    y = layers.fc(x, size=2, weight_init=2.0, bias_init=1.0)
merged = opstep.merge(startup, main, name="merged")
for _ in range(2):
    (value,) = merged.run({"x": np.ones((1, 2), np.float32)}, [y])
    print(value)
