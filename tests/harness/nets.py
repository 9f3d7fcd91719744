"""Networks with their training step, and the results of training them without `merge`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import opstep
from harness.world import World
from opstep import Variable, clipping, layers, lr, optimizer

RNG = np.random.default_rng(3)
IMAGES = RNG.random((6, 1, 8, 8), np.float32)
LABELS = np.arange(6).reshape(6, 1) % 3
FEED = {"x": IMAGES, "label": LABELS}


def mlp(x: Variable) -> Variable:
    return layers.fc(layers.fc(x, 8, act="tanh"), 3)


def conv_net(x: Variable) -> Variable:
    features = layers.conv2d(x, filters=4, kernel=3, padding="same", bias=False)
    features = layers.pool2d(layers.batch_norm(features, act="relu"), kernel=2)
    return layers.fc(layers.dropout(features, 0.3), 3)


def recurrent(x: Variable) -> Variable:
    rows = layers.transpose(layers.reshape(x, [-1, 8, 8]), [1, 0, 2])
    rnn = layers.Recurrent()
    with rnn.step():
        row = rnn.step_input(rows)
        before = rnn.memory(shape=[5])
        hidden = layers.fc(layers.concat([row, before], axis=1), size=5, act="tanh")
        rnn.update(before, hidden)
        rnn.output(hidden)
    last = rnn()[-1]
    last = layers.cond(layers.mean(last) > 0, lambda: last * 2, lambda: last * 3)
    return layers.fc(last, 3)


NETS: list[Callable[[Variable], Variable]] = [mlp, conv_net, recurrent]


def training(net: Callable[[Variable], Variable]) -> tuple[Variable, Variable]:
    x = layers.data("x", [None, 1, 8, 8])
    label = layers.data("label", [None, 1], "int64")
    logits = net(x)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    rate = lr.LinearWarmup(lr.CosineDecay(0.05, steps=20), steps=3)
    optimizer.Adam(rate, grad_clip=clipping.ClipByGlobalNorm(1.0)).minimize(loss)
    return logits, loss


def values(scope: opstep.Scope) -> dict[str, bytes]:
    return {n: scope.find(n).tobytes() for n in scope.names() if not n.endswith(".done")}


def trained_apart(world: World, loss: Variable, runs: int) -> tuple[list[bytes], dict[str, bytes]]:
    scope = opstep.Scope()
    world.exe.run(world.startup, scope=scope)
    losses = [world.exe.run(world.main, FEED, [loss], scope)[0].tobytes() for _ in range(runs)]
    return losses, values(scope)


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(opstep.Error) as caught:
        call()
    return str(caught.value)
