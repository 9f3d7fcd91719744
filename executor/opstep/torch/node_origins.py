"""NodeOrigins: names, lines and forward ops for the ops that a graph's nodes become."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from opstep import _core
from opstep.program import Program
from opstep.torch.call_numbers import CallNumbers
from opstep.torch.source_lines import Origin, is_gradient, origin_of, stack_of
from opstep.torch.traced_model import Model

aten = torch.ops.aten

# A value of a graph never changes, so these give their input.
SAME = {
    aten.detach.default,
    aten.alias.default,
    aten.clone.default,
    aten.contiguous.default,
    aten.lift_fresh_copy.default,
    aten.lift_fresh.default,
}
_FLIPS = {aten.t.default, aten.permute.default, aten.transpose.int}


class NodeOrigins:
    """Of the nodes of one graph."""

    def __init__(self, program: Program, graph: GraphModule, model: Model) -> None:
        self._program = program
        self._model = model
        self._numbers = CallNumbers()
        self._mains = _main_nodes(graph)

    def name(self, node: Node) -> str:
        """The name of the node's op: "layer1.0.conv1.conv2d"; parts of a call have longer ones."""
        origin = origin_of(node)
        own = _short(node.target)
        group = origin.group
        if not group:
            return own
        if not is_gradient(node) and self._mains.get(origin.call) is node:
            return group
        return f"{group}.{own}"

    def maker(self, node: Node) -> Callable[[], _core.OpOrigin]:
        """Gives the lines, calls and forward op for the next op of the program."""
        origin = origin_of(node)
        gradient = is_gradient(node)
        keys = self._keys(origin, gradient)
        lines = origin.lines or self._model.lines
        forward = self._forward(origin) if gradient else None

        def made_by() -> _core.OpOrigin:
            calls: list[int] = []
            visits: list[int] = []
            if len(keys) == len(lines):
                calls, visits = self._numbers.of(self._program._core.next_op_id, keys)
            return _core.OpOrigin(stack_of(lines), calls, visits, forward)

        return made_by

    def note(self, node: Node, main: tuple[str, str]) -> None:
        """The node became this op, name and type, and perhaps others before it."""
        if is_gradient(node):
            return
        call = origin_of(node).call
        if self._mains.get(call) is node:
            self._model.ops[call] = main

    def _forward(self, origin: Origin) -> tuple[str, str]:
        """The forward op of a gradient. A sum of gradients has none but the whole function."""
        return self._model.ops.get(origin.call) or (origin.group or self._model.name, "")

    def _keys(self, origin: Origin, gradient: bool) -> list[Any]:
        if not gradient:
            keys = self._model.call_keys.of(origin)
            if origin.call:
                self._model.keys.setdefault(origin.call, keys)
            return keys
        known = self._model.keys.get(origin.call)
        if known is not None and len(known) == len(origin.lines):
            return known
        # Without a traced call, the same lines count as the same calls.
        return [(origin.lines[: i + 1], origin.lines[: i + 1]) for i in range(len(origin.lines))]


def gradient_variables(graph: GraphModule, model: Model) -> dict[tuple[Node, int], str]:
    """Names for the results of nodes that are gradients of the model's inputs, as "x@grad"."""
    output = graph.graph.output_node()
    names: dict[tuple[Node, int], str] = {}
    for item, what in zip(output.args[0], output.meta.get("desc") or (), strict=False):  # type: ignore[arg-type]
        position = getattr(getattr(what, "grad_of", None), "idx", None)
        if not isinstance(item, Node) or position is None or position >= len(model.inputs):
            continue
        names.setdefault(_maker_of(item), f"{model.inputs[position]}@grad")
    return names


def _maker_of(node: Node) -> tuple[Node, int]:
    """The node, and the index of its result, that the value comes from unchanged."""
    at, flips = node, 0
    found = node
    while at.op == "call_function" and isinstance(at.args[0] if at.args else None, Node):
        if at.target in _FLIPS and at.meta["val"].dim() == 2:
            flips += 1
        elif at.target not in SAME:
            break
        at = at.args[0]  # type: ignore[assignment]
        if flips % 2 == 0:
            found = at
    if found.target is operator.getitem:
        return found.args[0], int(found.args[1])  # type: ignore[return-value, arg-type]
    return found, 0


def _short(target: Any) -> str:
    """ "aten.gelu_backward.default" as "gelu_backward"."""
    packet = getattr(target, "overloadpacket", None)
    name = getattr(packet or target, "__name__", str(target))
    return re.sub(r"\W", "_", str(name)).strip("_")


def _main_nodes(graph: GraphModule) -> dict[str, Node]:
    """For each traced call of the forward graph the node that does its work: the last one that is
    more than a view."""
    mains: dict[str, Node] = {}
    for node in graph.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem or is_gradient(node):
            continue
        call = origin_of(node).call
        if not call:
            continue
        if call not in mains or not _is_view(node):
            mains[call] = node
    return mains


def _is_view(node: Node) -> bool:
    if node.target in SAME:
        return True
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(r.alias_info is not None for r in schema.returns)
