"""The backend of torch.compile: forward and gradient as programs of opstep."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition
from torch.fx import GraphModule

from opstep.torch import (
    lowering,  # noqa: F401  fills the table
)
from opstep.torch.compiled_graph import CompiledGraph
from opstep.torch.source_lines import call_lines, module_path, traced_function
from opstep.torch.traced_model import Model

aten = torch.ops.aten

# What is taken apart before it is lowered; everything else stays whole.
DECOMPOSED = [
    aten.addcmul,
    aten.addcdiv,
    aten.rsub,
    aten.native_dropout_backward,
    aten.hardtanh_backward,
    aten.leaky_relu_backward,
    aten.stack,
    aten.slice_backward,
    aten.select_backward,
    aten.select_scatter,
    aten.slice_scatter,
    aten.masked_fill,
    aten.mse_loss,
    aten.mse_loss_backward,
    aten.unbind,
    aten.split,
]

_counts: dict[str, int] = {}

Backend = Callable[[GraphModule, Sequence[Any]], Any]


def compiler(force_foreign: bool = False) -> Backend:
    """A backend for torch.compile. With `force_foreign` torch runs every op."""

    def compile_graph(graph: GraphModule, example_inputs: Sequence[Any]) -> Any:
        model = Model(_program_name(), _input_names(graph), call_lines())

        def make(suffix: str) -> Callable[[GraphModule, Any], CompiledGraph]:
            def compile_one(made: GraphModule, _: Any) -> CompiledGraph:
                return CompiledGraph(made, model, model.name + suffix, force_foreign)

            return compile_one

        return aot_autograd(
            fw_compiler=make(""),
            bw_compiler=make(".grad"),
            inference_compiler=make(""),
            decompositions=torch._decomp.get_decompositions(DECOMPOSED),
            partition_fn=default_partition,
        )(graph, example_inputs)

    return compile_graph


backend = compiler()


def _program_name() -> str:
    """The name of the function that is traced now, with a number if there are several."""
    name = traced_function() or "graph"
    count = _counts[name] = _counts.get(name, 0) + 1
    return name if count == 1 else f"{name}_{count}"


def _input_names(graph: GraphModule) -> list[str]:
    """The names of the graph's inputs: paths of parameters and buffers, else the user's names."""
    names = []
    for node in graph.graph.nodes:
        if node.op != "placeholder":
            continue
        argument = node.meta.get("grapharg")
        source = getattr(argument, "source", None)
        text = getattr(source, "name", "") if source is not None else ""
        text = text() if callable(text) else text
        names.append(_name_of(text))
    return names


def _name_of(source: str) -> str:
    name = module_path(source)
    return re.sub(r"[^\w.\[\]'\"]", "_", name)
