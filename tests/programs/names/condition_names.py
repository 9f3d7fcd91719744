"""A name that an op does not read: `condition_names.py compiled|imperative|to_graph`."""

from __future__ import annotations

import sys

import numpy as np

import opstep
from opstep import imperative, layers

mode = sys.argv[1]


def double(x):
    y = x + x
    z = layers.relu(y)  # @relu
    return z  # noqa: RET504


def network(x):
    for _ in range(3):
        x = double(x)
    return x


feed = np.ones(2, np.float32)
if mode == "compiled":
    main = opstep.Program("main")
    with opstep.program_guard(main, opstep.Program("startup")):
        fetched = network(layers.data("x", shape=[2]))
    result = opstep.Executor().run(main, feed={"x": feed}, fetch_list=[fetched])[0]
else:
    with imperative.guard():
        called = opstep.to_graph(network) if mode == "to_graph" else network
        result = called(imperative.to_variable(feed)).numpy()
print("result", float(result.sum()))
