"""The convolutions of ResNet-18 with constant weights, one image each, beside the peers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import peers
from table import Row

import opstep
from opstep import layers, ops

# channels in, channels out, size of the image, kernel, stride
SHAPES = [
    (3, 64, 224, 7, 2),
    (64, 64, 56, 3, 1),
    (64, 128, 56, 3, 2),
    (64, 128, 56, 1, 2),
    (128, 128, 28, 3, 1),
    (128, 256, 28, 3, 2),
    (256, 256, 14, 3, 1),
    (256, 512, 14, 3, 2),
    (512, 512, 7, 3, 1),
]


class Case:
    def __init__(self, inputs: int, outputs: int, size: int, kernel: int, stride: int) -> None:
        random = np.random.default_rng(0)
        self.x = random.standard_normal((1, inputs, size, size), dtype=np.float32)
        self.w = random.standard_normal((outputs, inputs, kernel, kernel), dtype=np.float32)
        self.b = random.standard_normal(outputs, dtype=np.float32)
        self.stride, self.pad = stride, kernel // 2
        self.name = f"conv {inputs}→{outputs}, {size}×{size}, {kernel}×{kernel} / {stride}"

    def ours(self) -> peers.Run:
        main = opstep.Program()
        with opstep.program_guard(main, opstep.Program()):
            x = layers.data("x", shape=list(self.x.shape))
            y = ops.conv(
                x,
                layers.constant(self.w),
                layers.constant(self.b),
                strides=[self.stride] * 2,
                pads=[self.pad] * 4,
            )
        run = opstep.compile(main, feeds=["x"], fetches=[y])
        return lambda: run(x=self.x)[0]

    def torch(self) -> peers.Run:
        torch = peers.torch()
        x, w, b = (torch.from_numpy(a) for a in (self.x, self.w, self.b))

        def run() -> np.ndarray:
            with torch.inference_mode():
                return torch.nn.functional.conv2d(x, w, b, self.stride, self.pad).numpy()

        return run

    def onnxruntime(self) -> peers.Run:
        from onnx import helper

        node = helper.make_node(
            "Conv", ["x", "w", "b"], ["y"], strides=[self.stride] * 2, pads=[self.pad] * 4
        )
        return peers.onnxruntime([node], {"x": self.x}, {"w": self.w, "b": self.b})

    def paddle(self) -> peers.Run:
        paddle = peers.paddle()
        x, w, b = (paddle.to_tensor(a) for a in (self.x, self.w, self.b))

        def run() -> np.ndarray:
            with paddle.no_grad():
                return paddle.nn.functional.conv2d(x, w, b, self.stride, self.pad).numpy()

        return run

    def makers(self) -> dict[str, Callable[[], peers.Run]]:
        return {
            "opstep": self.ours,
            peers.TORCH: self.torch,
            peers.ONNX_RUNTIME: self.onnxruntime,
            peers.PADDLE: self.paddle,
        }


def rows() -> list[Row]:
    cases = [Case(*shape) for shape in SHAPES]
    return [row for case in cases for row in peers.compare(case.name, case.makers(), 0.5)]
