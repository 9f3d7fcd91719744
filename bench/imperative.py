"""Imperative mode beside PyTorch eager: a chain of small ops and training steps of an MLP."""

from __future__ import annotations

from typing import Any

import mlp
import numpy as np
import peers
from table import Row, interleaved

import opstep
from opstep import imperative, layers

OPS = 1000
# hidden size → how many times faster than PyTorch
BARS = {16: 1.2, 512: 1.0}
CHAIN_BAR = 2.0


def _chain(x: Any, y: Any) -> Any:
    for _ in range(OPS // 2):
        x = x * y
        x = x + y
    return x


def _our_chain(x: np.ndarray, y: np.ndarray) -> peers.Run:
    a, b = imperative.to_variable(x), imperative.to_variable(y)
    return imperative.guard()(lambda: _chain(a, b))


def _torch_chain(x: np.ndarray, y: np.ndarray) -> peers.Run:
    torch = peers.torch()
    a, b = torch.from_numpy(x), torch.from_numpy(y)
    return lambda: _chain(a, b)


def _our_step(hidden: int, images: np.ndarray, labels: np.ndarray) -> peers.Run:
    model = imperative.Sequential(
        imperative.FC(hidden, act="relu"), imperative.FC(hidden, act="relu"), imperative.FC(10)
    )
    sgd = opstep.optimizer.SGD(learning_rate=0.01)
    x, label = imperative.to_variable(images), imperative.to_variable(labels)

    @imperative.guard()
    def run() -> float:
        loss = layers.mean(layers.softmax_with_cross_entropy(model(x), label))
        sgd.minimize(loss, parameters=model.parameters())
        return float(loss)

    return run


def _row(name: str, unit: str, scale: float, ours: peers.Run, theirs: peers.Run, bar: float) -> Row:
    times = interleaved({"opstep": ours, peers.TORCH: theirs}, seconds=2)
    ratio = times.ratio("opstep", peers.TORCH)
    values = times["opstep"] * scale, times[peers.TORCH] * scale
    return Row(name, values[0], unit, peers.TORCH, values[1], ratio, f">= {bar:g}x", ratio >= bar)


def rows() -> list[Row]:
    random = np.random.default_rng(0)
    x = random.random(4, dtype=np.float32)
    y = np.full(4, 0.5, np.float32)
    chains = _our_chain(x, y), _torch_chain(x, y)
    assert np.array_equal(chains[0]().numpy(), chains[1]().numpy())
    result = [_row(f"imperative, chain of {OPS:,} ops", "ns/op", 1e9 / OPS, *chains, CHAIN_BAR)]
    images = random.random((mlp.BATCH, 784), dtype=np.float32)
    labels = random.integers(0, 10, (mlp.BATCH, 1))
    for hidden, bar in BARS.items():
        runs = _our_step(hidden, images, labels), mlp._torch(hidden, images, labels)
        for run in runs:
            assert 1.5 < run() < 3.5, "the first loss of ten classes"
        result.append(_row(f"imperative MLP step, h={hidden}", "ms", 1e3, *runs, bar))
    return result
