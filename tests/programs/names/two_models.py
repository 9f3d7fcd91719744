"""Two models that are built alike: `two_models.py compiled|imperative|to_graph`."""

import sys

import numpy as np

import opstep
from opstep import imperative, layers

X = np.ones((2, 3), np.float32)


def build(name):
    main, startup = opstep.Program(name), opstep.Program(f"{name}_startup")
    with opstep.program_guard(main, startup):
        out = layers.fc(layers.data("x", [None, 3]), 2)  # @layer
        opstep.optimizer.SGD(0.1).minimize(layers.mean(out))
    return main, startup, out


class Model(imperative.Layer):
    def forward(self, x):
        return layers.fc(x, 2)  # @called


def compiled():
    exe = opstep.Executor()
    first, startup, out = build("first")
    exe.run(startup)
    exe.run(first, {"x": X}, [out])
    _second, startup, out = build("second")
    exe.run(startup)  # @refused
    print("not reached")


def line_by_line(converted):
    first, second = Model(), Model()
    call = (lambda model: opstep.to_graph(model)) if converted else (lambda model: model)
    with imperative.guard():
        x = imperative.to_variable(X)
        layers.mean(call(first)(x)).numpy()
        before = [p.numpy().copy() for p in first.parameters()]
        call(second)(x)
        for p in second.parameters():
            p.numpy()[...] = 7
        same = all((p.numpy() == b).all() for p, b in zip(first.parameters(), before, strict=True))
    print("first model untouched:", same)


mode = sys.argv[1]
compiled() if mode == "compiled" else line_by_line(mode == "to_graph")
