"""Imperative mode beside PyTorch eager: chains of small ops, and training steps of models that are
written alike in both and begin with the same parameters."""

from __future__ import annotations

from typing import Any

import convnet
import mlp
import numpy as np
import peers
import transformer
from table import Row, interleaved

import opstep
from opstep import imperative, layers

OPS = 1000
# How many times faster than PyTorch.
CHAIN_BAR = 2.0
MLP_BARS = {16: 1.2, 512: 1.0}  # by hidden size
MODEL_BAR = 0.9


def _chain(x: Any, y: Any) -> Any:
    for _ in range(OPS // 2):
        x = x * y
        x = x + y
    return x


def _our_chain(x: np.ndarray, y: np.ndarray, gradients: bool) -> peers.Run:
    a, b = imperative.to_variable(x, stop_gradient=not gradients), imperative.to_variable(y)
    return imperative.guard()(lambda: _chain(a, b))


def _torch_chain(x: np.ndarray, y: np.ndarray, gradients: bool) -> peers.Run:
    torch = peers.torch()
    a, b = torch.from_numpy(x).requires_grad_(gradients), torch.from_numpy(y)
    return lambda: _chain(a, b)


def step_of(model: Any, inputs: np.ndarray, labels: np.ndarray, rate: float = 0.01) -> peers.Run:
    """A training step of a classifier with SGD."""
    sgd = opstep.optimizer.SGD(learning_rate=rate)
    x, label = imperative.to_variable(inputs), imperative.to_variable(labels)

    @imperative.guard()
    def run() -> float:
        loss = layers.mean(layers.softmax_with_cross_entropy(model(x), label))
        sgd.minimize(loss, parameters=model.parameters())
        return float(loss)

    return run


def mlp_of(hidden: int) -> Any:
    return imperative.Sequential(
        imperative.FC(hidden, act="relu"), imperative.FC(hidden, act="relu"), imperative.FC(10)
    )


def convnet_of(network: convnet.Network) -> Any:
    steps: list[Any] = []
    widths = [network.weights[f"conv{i}.w"].shape[0] for i in range(network.blocks)]
    for width in widths:
        if network.normalized:
            steps += [imperative.Conv2D(width, 3, padding=1), imperative.BatchNorm(act="relu")]
        else:
            steps.append(imperative.Conv2D(width, 3, padding=1, act="relu"))
        steps.append(imperative.Pool2D(2, stride=2))
    model = imperative.Sequential(*steps, imperative.FC(10))
    with imperative.guard(), imperative.no_grad():
        model(imperative.to_variable(network.images[:2]))  # makes the parameters
    for parameter, weights in zip(model.parameters(), network.weights.values(), strict=True):
        np.copyto(parameter.numpy(), weights)
    return model


def _row(name: str, unit: str, scale: float, ours: peers.Run, theirs: peers.Run, bar: float) -> Row:
    times = interleaved({"opstep": ours, peers.TORCH: theirs}, seconds=2)
    ratio = times.ratio("opstep", peers.TORCH)
    values = times["opstep"] * scale, times[peers.TORCH] * scale
    return Row(name, values[0], unit, peers.TORCH, values[1], ratio, f">= {bar:g}x", ratio >= bar)


def _chains() -> list[Row]:
    x = np.random.default_rng(0).random(4, dtype=np.float32)
    y = np.full(4, 0.5, np.float32)
    result = []
    for gradients, text in ((False, ""), (True, ", kept for gradients")):
        ours, theirs = _our_chain(x, y, gradients), _torch_chain(x, y, gradients)
        assert np.array_equal(ours().numpy(), theirs().detach().numpy())
        name = f"imperative, chain of {OPS:,} ops{text}"
        result.append(_row(name, "ns/op", 1e9 / OPS, ours, theirs, CHAIN_BAR))
    return result


def _mlps() -> list[Row]:
    random = np.random.default_rng(0)
    images = random.random((mlp.BATCH, 784), dtype=np.float32)
    labels = random.integers(0, 10, (mlp.BATCH, 1))
    result = []
    for hidden, bar in MLP_BARS.items():
        runs = step_of(mlp_of(hidden), images, labels), mlp._torch(hidden, images, labels)
        for run in runs:
            assert 1.5 < run() < 3.5, "the first loss of ten classes"
        result.append(_row(f"imperative MLP step, h={hidden}", "ms", 1e3, *runs, bar))
    return result


def _models() -> list[Row]:
    runs: dict[str, tuple[peers.Run, peers.Run]] = {}
    for network in convnet.networks():
        step = step_of(convnet_of(network), network.images, network.labels, convnet.RATE)
        runs[network.name] = step, network.torch()
    runs["Transformer step"] = transformer.steps(step_of)
    result = []
    for name, (ours, theirs) in runs.items():
        np.testing.assert_allclose(ours(), theirs(), rtol=1e-3, err_msg=name)
        result.append(_row(f"imperative {name}", "ms", 1e3, ours, theirs, MODEL_BAR))
    return result


def rows() -> list[Row]:
    return _chains() + _mlps() + _models()
