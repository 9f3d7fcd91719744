"""One name for several tensors: `shadowed.py compiled|imperative|to_graph`."""

import sys

import numpy as np

import opstep
from opstep import imperative, layers


class Head:
    """Has one name for all that it makes."""

    def __init__(self):
        self.x = None

    def __call__(self, x):
        self.x = layers.mul(x, 3.0)  # @third
        self.x = layers.mul(self.x, 5.0)  # @fifth
        return self.x


def helper(x):
    x = layers.add(x, 10.0)  # @ten
    y = layers.add(x, 100.0)  # @hundred
    return y  # noqa: RET504


def model(x):
    y = helper(x)  # @call
    x = head(y)  # @head
    return x  # noqa: RET504


head = Head()


def compiled():
    main = opstep.Program("main")
    with opstep.program_guard(main, opstep.Program("startup")):
        x = layers.data("x", [1])
        out = model(x)
    x = np.ones(1, np.float32)
    return opstep.Executor().run(main, {"x": x}, [out])[0]  # @run


def at_once(convert):
    with imperative.guard():
        x = imperative.to_variable(np.ones(1, np.float32))
        return convert(model)(x).numpy()


mode = sys.argv[1]
result = (
    compiled() if mode == "compiled"
    else at_once(opstep.to_graph if mode == "to_graph" else lambda function: function)
)  # fmt: skip
print("result", result.tolist())
