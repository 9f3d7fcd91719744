"""The product of two 1024×1024 matrices, beside the peers."""

from __future__ import annotations

import numpy as np
import peers
from table import Row

import opstep
from opstep import layers, ops

SIZE = 1024


def _ours(x: np.ndarray, y: np.ndarray) -> peers.Run:
    main = opstep.Program()
    with opstep.program_guard(main, opstep.Program()):
        left, right = (layers.data(name, shape=[SIZE, SIZE]) for name in "xy")
        product = ops.matmul(left, right)
    run = opstep.compile(main, feeds=["x", "y"], fetches=[product])
    return lambda: run(x=x, y=y)[0]


def _torch(x: np.ndarray, y: np.ndarray) -> peers.Run:
    torch = peers.torch()
    left, right = torch.from_numpy(x), torch.from_numpy(y)

    def run() -> np.ndarray:
        with torch.inference_mode():
            return (left @ right).numpy()

    return run


def _onnxruntime(x: np.ndarray, y: np.ndarray) -> peers.Run:
    from onnx import helper

    node = helper.make_node("MatMul", ["x", "y"], ["z"])
    return peers.onnxruntime([node], {"x": x, "y": y}, {})


def _paddle(x: np.ndarray, y: np.ndarray) -> peers.Run:
    paddle = peers.paddle()
    left, right = paddle.to_tensor(x), paddle.to_tensor(y)

    def run() -> np.ndarray:
        with paddle.no_grad():
            return paddle.matmul(left, right).numpy()

    return run


def rows() -> list[Row]:
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((SIZE, SIZE), dtype=np.float32) for _ in range(2))
    makers = {
        "opstep": _ours,
        peers.TORCH: _torch,
        peers.ONNX_RUNTIME: _onnxruntime,
        peers.PADDLE: _paddle,
    }
    named = {name: (lambda make=make: make(x, y)) for name, make in makers.items()}
    return peers.compare(f"matmul {SIZE}³", named, 3)
