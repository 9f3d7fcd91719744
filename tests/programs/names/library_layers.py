"""Layers of opstep inside a user's: `library_layers.py compiled|imperative|to_graph`."""

from __future__ import annotations

import sys

import numpy as np

import opstep
from opstep import imperative, layers

mode = sys.argv[1]


class Net(imperative.Layer):
    def __init__(self):
        super().__init__()
        self.fc = imperative.FC(3)
        self.steps = imperative.Sequential(imperative.FC(3), imperative.FC(4))
        self.more = imperative.LayerList([imperative.FC(2)])

    def forward(self, x):
        h = self.steps(self.fc(x))
        for each in self.more:
            h = each(h)
        return layers.tanh(h)  # @tanh


net = Net()


def network(x):
    return layers.mean(net(x))


feed = np.ones((1, 2), np.float32)
if mode == "compiled":
    main, startup = opstep.Program("main"), opstep.Program("startup")
    with opstep.program_guard(main, startup):
        fetched = network(layers.data("x", shape=[1, 2]))
    executor = opstep.Executor()
    executor.run(startup)
    result = executor.run(main, feed={"x": feed}, fetch_list=[fetched])[0]
else:
    with imperative.guard():
        called = opstep.to_graph(network) if mode == "to_graph" else network
        result = called(imperative.to_variable(feed)).numpy()
print("result", result.shape)
