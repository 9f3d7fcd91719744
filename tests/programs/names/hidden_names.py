"""Python's names that are also a slot of an op ('out') and a word of expressions ('step')."""

from __future__ import annotations

import sys

import numpy as np

import opstep
from opstep import imperative, layers

mode = sys.argv[1]


def network(x):
    out = x * 2.0
    step = out + 100.0
    y = layers.relu(out)  # @relu
    return y, step


feed = np.full(3, -1, np.float32)
if mode == "compiled":
    main = opstep.Program("main")
    with opstep.program_guard(main, opstep.Program("startup")):
        fetches = list(network(layers.data("x", shape=[3])))
    values = opstep.Executor().run(main, feed={"x": feed}, fetch_list=fetches)
else:
    with imperative.guard():
        called = opstep.to_graph(network) if mode == "to_graph" else network
        values = [value.numpy() for value in called(imperative.to_variable(feed))]
print("result", *(float(value.sum()) for value in values))
