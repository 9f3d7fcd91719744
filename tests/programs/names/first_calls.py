"""Layers called for the first time by a loop over one line; the same gradients from two lines."""

import numpy as np

from opstep import imperative, layers


class Stack(imperative.Layer):
    def __init__(self):
        super().__init__()
        self.parts = imperative.LayerList([imperative.FC(3) for _ in range(3)])

    def forward(self, x):
        for part in self.parts:
            x = part(x)  # @part
        return x


stack = Stack()
with imperative.guard():
    value = imperative.to_variable(np.ones((2, 3), np.float32))
    for step in range(2):
        loss = layers.mean(stack(value))  # @loss
        if step == 0:
            loss.backward()  # @backward
        else:
            loss.backward()  # @again
print("ended")
