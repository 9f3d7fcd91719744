"""Imperative mode under Python's own debuggers: values of all kinds, beside each other."""

import numpy as np

from opstep import imperative, layers


def look(x: imperative.Value, net: imperative.Layer) -> None:
    loss = layers.mean(net(x))
    loss.backward()
    huge = imperative.to_variable(np.zeros((1000, 1000), np.float32), name="huge")
    huge.numpy()[7, 7] = np.nan
    doubled = loss * 2.0  # @look
    print("looked", float(doubled), huge.shape)


with imperative.guard():
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    layer = imperative.Sequential(imperative.FC(4, act="relu"), imperative.FC(1))
    look(imperative.to_variable(rows), layer)
