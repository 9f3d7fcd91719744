"""A variable of another program is fetched: `foreign_fetch.py compiled|to_graph`."""

import sys

import numpy as np

import opstep
from opstep import layers, ops

X = np.full((2, 3), -1, np.float32)


def build(op):
    main = opstep.Program(op.type)
    with opstep.program_guard(main, opstep.Program()):
        out = op(layers.data("x", [2, 3]), out="out")  # @made
    return main, out


def left(x):
    return ops.relu(x) * 2  # @left


def right(x):
    return ops.tanh(x) * 2


exe = opstep.Executor()
if sys.argv[1] == "compiled":
    (a, own), (_, other) = build(ops.relu), build(ops.tanh)
else:
    a, b = (opstep.to_graph(f).program(opstep.Spec([2, 3])) for f in (left, right))
    own, other = (list(p.global_block().vars.values())[-1] for p in (a, b))
print("own", exe.run(a, {"x": X}, [own])[0].sum())
print("other", exe.run(a, {"x": X}, [other])[0].sum())  # @refused
