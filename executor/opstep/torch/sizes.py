"""Graphs with symbolic sizes: a copy of the graph for the sizes of one call."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from opstep.torch.refusals import NotSupported


def symbol_positions(graph: GraphModule) -> list[int]:
    """The positions of the graph's inputs that are sizes."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return [
        index
        for index, node in enumerate(placeholders)
        if isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool | int)
    ]


def with_sizes(graph: GraphModule, args: list[Any]) -> GraphModule:
    """A copy whose `meta["val"]`s have the sizes of these arguments."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    copied = GraphModule(graph, copy.deepcopy(graph.graph))
    mode = FakeTensorMode(allow_non_fake_inputs=True, static_shapes=True)
    with torch._guards.tracing(None), mode:
        fakes = [
            mode.from_tensor(arg, static_shapes=True) if isinstance(arg, torch.Tensor) else arg
            for arg in args
        ]
        try:
            _Sizes(copied).run(*fakes)
        except Exception as error:
            raise NotSupported(f"sizes that depend on values ({error})") from error
    return copied


class _Sizes(Interpreter):
    """Notes what each node gives."""

    def run_node(self, node: Node) -> Any:
        result = super().run_node(node)
        if node.op != "output":
            node.meta["val"] = result
        return result
