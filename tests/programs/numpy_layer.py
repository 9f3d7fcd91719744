"""A layer written in NumPy under a debugger: compiled and line by line, then one that gives NaN."""

import sys

import numpy as np

import opstep
from opstep import imperative, layers


class Root(opstep.PyLayer):
    @staticmethod
    def forward(ctx, x):
        with np.errstate(invalid="ignore"):
            return np.sqrt(x)

    @staticmethod
    def backward(ctx, dout):
        return dout / (2 * ctx.outputs[0])


ARRAY = np.array([[4.0, 9.0]], np.float32)


def compiled() -> None:
    x = layers.data("x", [None, 2])
    x.stop_gradient = False
    loss = layers.mean(Root.apply(x))  # @compiled
    ((_, gradient),) = opstep.append_backward(loss, [x])
    values = opstep.Executor().run(feed={"x": ARRAY}, fetch_list=[loss, gradient])
    print("compiled", *(value.tobytes().hex() for value in values), flush=True)


@imperative.guard()
def at_once() -> None:
    x = imperative.to_variable(ARRAY, stop_gradient=False)
    loss = layers.mean(Root.apply(x))  # @at_once
    loss.backward()
    print("at_once", *(v.numpy().tobytes().hex() for v in (loss, x.gradient)), flush=True)


@imperative.guard()
def spoil() -> None:
    Root.apply(imperative.to_variable(-ARRAY))  # @spoil


compiled()
at_once()
if "spoil" in sys.argv:
    spoil()
