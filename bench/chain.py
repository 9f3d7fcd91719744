"""A chain of 1,000 adds of 8 floats: the cost of running an op that itself costs nothing."""

from __future__ import annotations

import numpy as np
from peers import those_installed
from table import Row, interleaved

import opstep
from opstep import layers

OPS = 1000
BAR_NS = 40.0
BARS = {"ONNX Runtime": 10.0, "PyTorch eager": 30.0}


def _ours(x: np.ndarray, y: np.ndarray):
    main, startup = opstep.Program(), opstep.Program()
    with opstep.program_guard(main, startup):
        value = layers.data("x", shape=[8])
        step = layers.data("y", shape=[8])
        for _ in range(OPS):
            value = value + step
    run = opstep.compile(main, feeds=["x", "y"], fetches=[value])
    return lambda: run(x=x, y=y)[0]


def _onnxruntime(x: np.ndarray, y: np.ndarray):
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Add", ["x" if i == 0 else f"v{i}", "y"], [f"v{i + 1}"])
        for i in range(OPS)
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [8]) for n in ("x", "y")],
        [helper.make_tensor_value_info(f"v{OPS}", TensorProto.FLOAT, [8])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: session.run(None, {"x": x, "y": y})[0]


def _torch(x: np.ndarray, y: np.ndarray):
    import torch

    torch.set_num_threads(1)
    first, step = torch.from_numpy(x), torch.from_numpy(y)

    def run() -> np.ndarray:
        value = first
        with torch.inference_mode():
            for _ in range(OPS):
                value = value + step
        return value.numpy()

    return run


def rows() -> list[Row]:
    x, y = np.zeros(8, np.float32), np.full(8, 0.5, np.float32)
    runs = those_installed(
        {
            "opstep": lambda: _ours(x, y),
            "ONNX Runtime": lambda: _onnxruntime(x, y),
            "PyTorch eager": lambda: _torch(x, y),
        }
    )
    for name, run in runs.items():
        assert np.array_equal(run(), np.full(8, OPS / 2, np.float32)), name
    times = interleaved(runs)
    ns = {name: seconds / OPS * 1e9 for name, seconds in times.items()}
    ours = ns.pop("opstep")
    name = "chain of 1,000 adds, an op"
    result = [Row(name, ours, "ns", bar=f"<= {BAR_NS:.0f} ns", met=ours <= BAR_NS)]
    for peer, value in ns.items():
        ratio = times.ratio("opstep", peer)
        bar = BARS[peer]
        result.append(Row(name, ours, "ns", peer, value, ratio, f">= {bar:g}x", ratio >= bar))
    return result
