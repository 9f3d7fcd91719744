"""Layers made by loops over one line: `tower.py compiled|imperative|to_graph`."""

import sys

import numpy as np

import opstep
from opstep import imperative, layers


def block(x):
    x = layers.add(x, 1.0)  # @first
    x = layers.mul(x, 2.0)  # @second
    return x  # noqa: RET504


def tower(x):
    for _ in range(3):
        x = block(x)  # @tower
    return layers.abs(x)  # @abs


def model(x):
    for _ in range(3):
        x = layers.relu(x)  # @one
    x = tower(x)  # @call
    return layers.neg(x)  # @last


def compiled():
    main = opstep.Program("main")
    with opstep.program_guard(main, opstep.Program("startup")):
        out = model(layers.data("x", [1]))
    return opstep.Executor().run(main, {"x": np.ones(1, np.float32)}, [out])[0]


def at_once(convert):
    with imperative.guard():
        x = imperative.to_variable(np.ones(1, np.float32))
        return convert(model)(x).numpy()


mode = sys.argv[1]
result = (
    compiled() if mode == "compiled"
    else at_once(opstep.to_graph if mode == "to_graph" else lambda function: function)
)  # fmt: skip
print("result", result.tolist())  # @print
