"""One line whose ops come from different calls: `call_choices.py compiled|imperative|to_graph`."""

import sys

import numpy as np

import opstep
from opstep import imperative, layers


def f(x):
    return layers.add(x, 1.0)  # @f


def g(x):
    return layers.mul(x, 2.0)  # @g


def either(x):
    for i in range(6):
        x = f(x) if i % 2 else g(x)  # @either
    return x


def some(x):
    i = 0
    while i < 6:
        made = [f(x) if i % 2 else x, g(x) if not i % 2 else x]  # @some
        x = made[i % 2 == 0]
        i += 1
    return x


def both(x):
    for _ in range(3):
        x = g(f(x))  # @both
    return x


def model(x):
    x = either(x)
    x = some(x)
    return both(x)


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
print("result", result.tolist())
