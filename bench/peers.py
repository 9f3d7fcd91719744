"""The libraries that we are compared with, each with the same number of threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from table import Row, interleaved

THREADS = int(os.environ.get("OPSTEP_NUM_THREADS", "1"))
TORCH, ONNX_RUNTIME, PADDLE = "PyTorch eager", "ONNX Runtime", "PaddlePaddle"
Run = Callable[[], Any]


def torch() -> Any:
    import torch

    torch.set_num_threads(THREADS)
    return torch


def paddle() -> Any:
    import paddle

    paddle.set_device("cpu")
    return paddle


def onnxruntime(
    nodes: Sequence[Any], inputs: Mapping[str, np.ndarray], constants: Mapping[str, np.ndarray]
) -> Run:
    """A run of a graph of ONNX nodes whose last output is the result."""
    import onnxruntime
    from onnx import helper, numpy_helper

    def info(name: str, shape: Sequence[int] | None) -> Any:
        return helper.make_tensor_value_info(name, 1, shape)

    graph = helper.make_graph(
        nodes,
        "bench",
        [info(name, array.shape) for name, array in inputs.items()],
        [info(nodes[-1].output[0], None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feed = dict(inputs)
    return lambda: session.run(None, feed)[0]


def those_installed(makers: Mapping[str, Callable[[], Run]]) -> dict[str, Run]:
    """The runs of the makers; a peer that is not installed is left out with a note."""
    runs = {}
    for name, make in makers.items():
        try:
            runs[name] = make()
        except ImportError as error:
            print(f"  {name} is left out: {error}", file=sys.stderr)
    return runs


def compare(name: str, makers: Mapping[str, Callable[[], Run]], seconds: float) -> list[Row]:
    """Rows for one case: at least as fast as PyTorch, within 10 % of the other peers.

    The first maker is ours. All results must be equal, except for rounding.
    """
    runs = those_installed(makers)
    ours, *others = runs
    expected = np.asarray(runs[ours]())
    for peer in others:
        got = np.asarray(runs[peer]())
        scale = float(np.abs(expected).max())
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-3 * scale, err_msg=peer)
    times = interleaved(runs, seconds=seconds)
    ms = {peer: value * 1e3 for peer, value in times.items()}
    rows = []
    for peer in others:
        ratio = times.ratio(ours, peer)
        bar = 1.0 if peer == TORCH else 0.9
        rows.append(Row(name, ms[ours], "ms", peer, ms[peer], ratio, f">= {bar:g}x", ratio >= bar))
    return rows
