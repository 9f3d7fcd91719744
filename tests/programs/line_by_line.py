"""Imperative mode under a debugger: a small training loop, then a value that is not a number."""

import numpy as np

import opstep
from opstep import imperative, layers


def train() -> None:
    model = imperative.Sequential(imperative.FC(4, act="relu"), imperative.FC(1))
    sgd = opstep.optimizer.SGD(0.1)
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = imperative.to_variable(rng.normal(size=(2, 3)).astype(np.float32))
        doubled = x * 2.0  # @doubled
        loss = layers.mean(model(doubled))  # @model
        sgd.minimize(loss, parameters=model.parameters())  # @step
    print("trained", flush=True)


def spoil() -> None:
    negative = imperative.to_variable(np.array([4.0, -1.0], np.float32))
    root = layers.sqrt(negative)  # @root
    print(float(root[0]), flush=True)


with imperative.guard():
    train()
    spoil()
