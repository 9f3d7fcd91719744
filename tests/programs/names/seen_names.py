"""Functions that look at their own names, are traced, or share names with the program:
`seen_names.py compiled|imperative|to_graph|gradients`."""

import sys

import numpy as np

import opstep
from opstep import imperative, layers


def looks(y):
    before = locals()
    x = layers.add(y, 10.0)
    y = layers.mul(x, 100.0)  # @looks
    assert "x" not in before
    return y


def is_traced(y):
    x = layers.add(y, 20.0)
    y = layers.mul(x, 100.0)  # @traced
    return y  # noqa: RET504


def counts(y):
    x = len("three") - 2
    y = layers.mul(y, float(x))  # @counts
    del x
    y = layers.abs(y)  # @deleted
    if y is None:
        x = y  # noqa: F841
    return y


def encloses(y):
    x = layers.add(y, 30.0)
    made = [layers.mul(each, 100.0) for each in (x,)]  # @encloses
    return made[0]


def last(y):
    y = layers.relu(y)  # @last
    x, _ = layers.add(y, 40.0), None  # @assigned
    return x


def passes(y):
    """Its `head` has no `w`, which a variable of the program has in its name."""
    head = object()
    y = layers.neg(y)  # @head
    assert head
    return layers.neg(y)


def model(y):
    y = looks(y)
    sys.settrace(lambda *_: model_trace)
    y = is_traced(y)
    sys.settrace(None)
    y = counts(y)
    y = encloses(y)
    y = last(y)
    return passes(y)


def model_trace(*_):
    return model_trace


def compiled():
    main, startup = opstep.Program("main"), opstep.Program("startup")
    feeds = {}
    with opstep.program_guard(main, startup):
        for name in [*(f"word{n}" for n in range(20)), "x"]:
            feeds[name] = layers.data(name, [1])
        out = model(layers.relu(feeds["x"]))
        layers.fc(layers.reshape(out, [1, 1]), 1, name="head")
    executor = opstep.Executor()
    executor.run(startup)
    values = dict.fromkeys(feeds, np.ones(1, np.float32))
    return executor.run(main, values, [out])[0]


def at_once(convert):
    with imperative.guard():
        x = imperative.to_variable(np.ones(1, np.float32), name="x")
        return convert(model)(layers.relu(x)).numpy()


def squares(y):
    x = layers.square(y)
    return layers.square(x)  # @square


def gradients():
    with imperative.guard():
        mine = imperative.to_variable(np.full(1, 3, np.float32), stop_gradient=False, name="x")
        loss = squares(mine)
        x = layers.neg(loss)
        loss.backward()  # @backward
        return x.numpy()


mode = sys.argv[1]
result = (
    compiled() if mode == "compiled"
    else gradients() if mode == "gradients"
    else at_once(opstep.to_graph if mode == "to_graph" else lambda function: function)
)  # fmt: skip
print("result", result.tolist())
