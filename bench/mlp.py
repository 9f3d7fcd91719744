"""One training step of 784-h-h-10 with SGD, batch 128, beside PyTorch eager."""

from __future__ import annotations

import numpy as np
import peers
from table import Row, interleaved

import opstep
from opstep import layers

BATCH = 128
# hidden size → how many times faster than PyTorch; its own dispatch is most of the smallest step
BARS = {16: 4.0, 128: None, 512: 1.0}


def _ours(hidden: int, images: np.ndarray, labels: np.ndarray):
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        x = layers.data("x", shape=[None, 784])
        label = layers.data("label", shape=[None, 1], dtype="int64")
        h = layers.fc(x, size=hidden, act="relu")
        h = layers.fc(h, size=hidden, act="relu")
        logits = layers.fc(h, size=10)
        loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
        opstep.optimizer.SGD(learning_rate=0.01).minimize(loss)
    scope = opstep.Scope()
    with opstep.scope_guard(scope):
        opstep.Executor().run(startup)
    step = opstep.compile(main, feeds=["x", "label"], fetches=[loss], scope=scope)
    return lambda: float(step(x=images, label=labels)[0].reshape(-1)[0])


def _torch(hidden: int, images: np.ndarray, labels: np.ndarray):
    torch = peers.torch()
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(784, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, label = torch.from_numpy(images), torch.from_numpy(labels[:, 0])

    def run() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), label)
        loss.backward()
        optimizer.step()
        return loss.item()

    return run


def rows() -> list[Row]:
    random = np.random.default_rng(0)
    images = random.random((BATCH, 784), dtype=np.float32)
    labels = random.integers(0, 10, (BATCH, 1))
    result = []
    for hidden, bar in BARS.items():
        runs = {
            "opstep": _ours(hidden, images, labels),
            "PyTorch eager": _torch(hidden, images, labels),
        }
        for name, run in runs.items():
            first = run()
            assert 1.5 < first < 3.5, f"{name} starts with a loss of {first}"
        times = interleaved(runs, seconds=2)
        ms = {name: seconds * 1e3 for name, seconds in times.items()}
        ratio = times.ratio("opstep", "PyTorch eager")
        result.append(
            Row(
                f"MLP step, h={hidden}",
                ms["opstep"],
                "ms",
                "PyTorch eager",
                ms["PyTorch eager"],
                ratio,
                "" if bar is None else f">= {bar:g}x",
                None if bar is None else ratio >= bar,
            )
        )
    return result
