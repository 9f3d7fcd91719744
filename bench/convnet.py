"""One training step of convolutional networks with SGD, beside PyTorch eager and PaddlePaddle.

Small: two convolutions on 28×28, as for handwritten digits. Normalized: three convolutions with
batch normalization on 32×32 in colour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import peers
from table import Row

import opstep
from opstep import layers, ops

Weights = dict[str, np.ndarray]
RATE = 0.01


class Network:
    """Blocks of convolution, maybe batch normalization, relu and pooling; then fully connected."""

    def __init__(self, name: str, image: tuple[int, int], widths: list[int], normalized: bool):
        self.name, self.normalized, self.blocks = name, normalized, len(widths)
        self.batch = 64
        channels, size = image
        random = np.random.default_rng(0)
        self.images = random.standard_normal((self.batch, channels, size, size), dtype=np.float32)
        self.labels = random.integers(0, 10, (self.batch, 1))
        self.weights: Weights = {}
        for i, width in enumerate(widths):
            fan = channels * 9
            shape = (width, channels, 3, 3)
            self.weights[f"conv{i}.w"] = (
                random.standard_normal(shape, np.float32) * (2 / fan) ** 0.5
            )
            self.weights[f"conv{i}.b"] = np.zeros(width, np.float32)
            if normalized:
                self.weights[f"norm{i}.w"] = np.ones(width, np.float32)
                self.weights[f"norm{i}.b"] = np.zeros(width, np.float32)
            channels, size = width, size // 2
        features = channels * size * size
        self.weights["fc.w"] = random.standard_normal((features, 10), np.float32) / features**0.5
        self.weights["fc.b"] = np.zeros(10, np.float32)

    def ours(self) -> peers.Run:
        main, startup = opstep.Program(), opstep.Program()
        with opstep.program_guard(main, startup):
            x = layers.data("x", shape=list(self.images.shape))
            label = layers.data("label", shape=[self.batch, 1], dtype="int64")
            block = main.global_block()

            def parameter(name: str, value: Any = None, trainable: bool = True) -> opstep.Variable:
                value = self.weights[name] if value is None else value
                init = opstep.initializer.Assign(value)
                return block.create_parameter(
                    name, list(value.shape), "float32", init, trainable=trainable
                )

            for i in range(self.blocks):
                x = ops.conv(x, parameter(f"conv{i}.w"), parameter(f"conv{i}.b"), pads=[1] * 4)
                if self.normalized:
                    zero = self.weights[f"norm{i}.b"]
                    mean = parameter(f"norm{i}.mean", zero, trainable=False)
                    var = parameter(f"norm{i}.var", zero + 1, trainable=False)
                    scale, bias = parameter(f"norm{i}.w"), parameter(f"norm{i}.b")
                    moments = {"mean_out": mean, "var_out": var, "training_mode": True}
                    x, _, _ = ops.batch_norm(x, scale, bias, mean, var, **moments)
                x = ops.max_pool(ops.relu(x), kernel_shape=[2, 2], strides=[2, 2])
            x = ops.reshape(x, shape=[self.batch, -1])
            x = ops.add(ops.matmul(x, parameter("fc.w")), parameter("fc.b"))
            loss = layers.mean(layers.softmax_with_cross_entropy(x, label))
            opstep.optimizer.SGD(learning_rate=RATE).minimize(loss)
        scope = opstep.Scope()
        with opstep.scope_guard(scope):
            opstep.Executor().run(startup)
        step = opstep.compile(main, feeds=["x", "label"], fetches=[loss], scope=scope)
        return lambda: step(x=self.images, label=self.labels)[0]

    def torch(self) -> peers.Run:
        torch = peers.torch()
        nn = torch.nn
        parts: list[Any] = []
        for i in range(self.blocks):
            width, channels = self.weights[f"conv{i}.w"].shape[:2]
            parts.append(nn.Conv2d(channels, width, 3, padding=1))
            if self.normalized:
                parts.append(nn.BatchNorm2d(width))
            parts += [nn.ReLU(), nn.MaxPool2d(2)]
        model = nn.Sequential(*parts, nn.Flatten(), nn.Linear(len(self.weights["fc.w"]), 10))
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), self.weights.values(), strict=True):
                parameter.copy_(torch.from_numpy(value.T if value.ndim == 2 else value))
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        x, label = torch.from_numpy(self.images), torch.from_numpy(self.labels[:, 0])

        def run() -> float:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(x), label)
            loss.backward()
            optimizer.step()
            return loss.item()

        return run

    def paddle(self) -> peers.Run:
        paddle = peers.paddle()
        nn = paddle.nn
        parts: list[Any] = []
        for i in range(self.blocks):
            width, channels = self.weights[f"conv{i}.w"].shape[:2]
            parts.append(nn.Conv2D(channels, width, 3, padding=1))
            if self.normalized:
                parts.append(nn.BatchNorm2D(width))
            parts += [nn.ReLU(), nn.MaxPool2D(2, 2)]
        model = nn.Sequential(*parts, nn.Flatten(), nn.Linear(len(self.weights["fc.w"]), 10))
        trained = [p for p in model.parameters() if not p.stop_gradient]
        for parameter, value in zip(trained, self.weights.values(), strict=True):
            parameter.set_value(value)
        optimizer = paddle.optimizer.SGD(RATE, parameters=model.parameters())
        x, label = paddle.to_tensor(self.images), paddle.to_tensor(self.labels)

        def run() -> float:
            loss = nn.functional.cross_entropy(model(x), label)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            return float(loss)

        return run

    def makers(self) -> dict[str, Callable[[], peers.Run]]:
        return {"opstep": self.ours, peers.TORCH: self.torch, peers.PADDLE: self.paddle}


def networks() -> list[Network]:
    return [
        Network("conv-net step, 28×28", (1, 28), [16, 32], normalized=False),
        Network("conv-net step, 32×32, batch norm", (3, 32), [32, 64, 128], normalized=True),
    ]


def rows() -> list[Row]:
    return [
        row for network in networks() for row in peers.compare(network.name, network.makers(), 4)
    ]
