"""GraphProgram: an FX graph of ATen calls as a Program."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from opstep._core import Error
from opstep.program import Program
from opstep.torch.foreign import ForeignCall, Slot, lend
from opstep.torch.lowering.shapes import flipped
from opstep.torch.lowering.table import lowering_of
from opstep.torch.memory import Held, held, is_dense
from opstep.torch.node_origins import SAME, NodeOrigins, gradient_variables
from opstep.torch.op_builder import OpBuilder, Value
from opstep.torch.refusals import NotLowered, NotSupported
from opstep.torch.source_lines import is_gradient
from opstep.torch.traced_model import Model

# These read the layout of their input, not only its elements.
_LAYOUT = {torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_scatter.default}


@dataclass
class Feed:
    """A placeholder that the program reads."""

    index: int
    name: str
    how: Held
    flip: bool  # it is the transpose of what the graph gets


@dataclass
class Count:
    """How the nodes of a graph became ops."""

    native: Counter[str] = field(default_factory=Counter)
    foreign: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)


class GraphProgram:
    """Builds the program of a graph whose sizes are all known; `meta["val"]` has them."""

    def __init__(self, graph: GraphModule, model: Model, name: str, force_foreign: bool = False):
        self.program = Program(name)
        self.feeds: list[Feed] = []
        self.values: dict[Node, Any] = {}
        self.count = Count()
        self._graph = graph
        self._model = model
        self._force_foreign = force_foreign
        self._origins = NodeOrigins(self.program, graph, model)
        self._gradients = gradient_variables(graph, model)
        self._fed: dict[Any, Value] = {}
        self.placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        for index, node in enumerate(self.placeholders):
            self._placeholder(index, node)
        for node in graph.graph.nodes:
            if node.op == "call_function":
                self.values[node] = self._call(node)
            elif node.op == "get_attr":
                self.values[node] = self._attribute(node)
            elif node.op not in ("placeholder", "output"):
                raise NotSupported(f"a node '{node.op}' in the graph")
            value = self.values.get(node)
            if isinstance(value, Value) and not is_gradient(node):
                self._note(node, value)

    def _note(self, node: Node, value: Value) -> None:
        """Tells the gradient's program the name of a value that may be saved for it."""
        named = value if value.name or value.transposed is None else value.transposed
        if named.name:
            self._model.variables.setdefault(node.name, named.name)

    def materialise(self, value: Value, node: Node) -> Value:
        """The value with an op that makes it."""
        if not value.name:
            builder = OpBuilder(self.program, None)
            builder.plain(value)
            self._finish(builder, node, [value])
        return value

    # --- inputs

    def _placeholder(self, index: int, node: Node) -> None:
        fake = node.meta.get("val")
        if not isinstance(fake, torch.Tensor):
            self.values[node] = fake
            return
        wanted = self._input_name(node, index)
        known = self._fed.get((wanted, fake.shape, fake.stride()))
        if known is not None and wanted == self._model.variables.get(node.name):
            # A value of the forward program that was saved under two names.
            self.values[node] = known
            return
        # A transposed matrix, such as a weight, is fed as it is in memory.
        flip = fake.dim() == 2 and not fake.is_contiguous() and is_dense(fake.t())
        how = held(fake.t() if flip else fake)
        name = self._unique(wanted)
        self.program._core.create_var(
            0, name, how.type.dtype, how.type.shape, False, False, False, True
        )
        self.feeds.append(Feed(index, name, how, flip))
        value = Value(name, fake.dtype, how.shape, fake.t() if flip else fake, producer=node)
        if flip:
            value = flipped(value, fake)
        self.values[node] = self._fed[wanted, fake.shape, fake.stride()] = value

    def _input_name(self, node: Node, index: int) -> str:
        known = self._model.variables.get(node.name)
        if known:
            return known
        position = getattr(node.meta.get("desc"), "idx", None)
        names = self._model.inputs
        if node.name.startswith("tangents"):
            return node.name
        if position is not None and position < len(names) and names[position]:
            return names[position]
        return node.name

    def _attribute(self, node: Node) -> Any:
        value = self._graph
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            return value  # a graph, for a foreign op
        fake = node.meta.get("val", value)
        return self._constant(node, value, fake)

    def _constant(self, node: Node, tensor: torch.Tensor, fake: torch.Tensor) -> Value:
        """A tensor that is part of the graph."""
        how = held(fake)
        call = ForeignCall(lambda: tensor, [], {}, [], [], [(0, how)])
        return self._foreign_op(node, f"constant {node.target}", call, [], {0: fake})[0]

    # --- calls

    def _call(self, node: Node) -> Any:
        if node.target is operator.getitem:
            source, index = node.args
            assert isinstance(source, Node)
            return self.values[source][index]
        val = node.meta.get("val")
        if isinstance(val, int | float | bool):
            return val
        args = torch.fx.map_arg(node.args, self.values.__getitem__)
        kwargs = torch.fx.map_arg(node.kwargs, self.values.__getitem__)
        if node.target in SAME and isinstance(args[0], Value):
            # The graph changes no tensor in place, so a copy would be the same for ever.
            source = args[0]
            return Value(
                source.name, source.dtype, source.shape, val, source.transposed, source.producer
            )
        lowering = None if self._force_foreign else lowering_of(node.target)
        target = str(node.target)
        if lowering is not None and self._is_plain(node):
            try:
                made = self._native(node, lowering, args, dict(kwargs))
                self.count.native[target] += 1
                return made
            except (NotLowered, Error) as error:
                self.count.reasons.setdefault(target, str(error))
        else:
            self.count.reasons.setdefault(
                target, "it has no entry" if lowering is None else "a dtype that opstep has not"
            )
        self.count.foreign[target] += 1
        return self._foreign(node, args, dict(kwargs))

    def _is_plain(self, node: Node) -> bool:
        """Can ops of opstep compute with the tensors that it reads and gives?"""
        vals = [node.meta.get("val"), *(arg.meta.get("val") for arg in node.all_input_nodes)]
        tensors = [t for t in torch.utils._pytree.tree_leaves(vals) if isinstance(t, torch.Tensor)]
        return all(held(tensor).plain for tensor in tensors)

    def _native(self, node: Node, lowering: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        fake = node.meta["val"]
        builder = OpBuilder(self.program, fake)
        made = lowering(builder, *args, **kwargs)
        fakes = list(fake) if isinstance(fake, tuple | list) else [fake]
        values = list(made) if isinstance(made, tuple | list) else [made]
        used = _used(node)
        if len(values) != len(fakes) or any(
            value is None and index in used for index, value in enumerate(values)
        ):
            raise NotLowered("a result that the entry does not give")
        self._finish(builder, node, values)
        results = [
            None if value is None else self._checked(value, like, node)
            for value, like in zip(values, fakes, strict=True)
        ]
        return results if isinstance(fake, tuple | list) else results[0]

    def _checked(self, value: Value, fake: torch.Tensor, node: Node) -> Value:
        """The value as torch knows it; it must have the dtype and shape that torch says."""
        how = held(fake)
        if value.name:
            core = self.program._core
            made = core.dtype(0, value.name), tuple(core.shape(0, value.name))
            if made != how.type:
                raise NotLowered(f"the ops give {made[0]}{list(made[1])}, torch says {how.type}")
        return Value(
            value.name, fake.dtype, how.shape, fake, value.transposed, value.producer or node
        )

    # --- foreign ops

    def _foreign(self, node: Node, args: Any, kwargs: dict[str, Any]) -> Any:
        val = node.meta.get("val")
        fakes = list(val) if isinstance(val, tuple | list) else [val]
        if not all(fake is None or isinstance(fake, torch.Tensor) for fake in fakes):
            raise NotSupported(f"{node.target}, which gives a {type(val).__name__}")
        inputs: list[Value] = []

        def slot(item: Any) -> Any:
            if not isinstance(item, Value):
                return item
            inputs.append(item)
            return Slot(len(inputs) - 1)

        args = torch.utils._pytree.tree_map(slot, list(args))
        kwargs = torch.utils._pytree.tree_map(slot, kwargs)
        used = _used(node)
        given = [(i, held(f)) for i, f in enumerate(fakes) if f is not None and i in used]
        hows = [held(value.fake) for value in inputs]  # type: ignore[arg-type]
        layouts = node.target in _LAYOUT
        if layouts and any(value.fake.storage_offset() for value in inputs):  # type: ignore[union-attr]
            raise NotSupported(f"{node.target} of a view, which may reach beyond the view")
        strides = [_strides(value) if layouts else None for value in inputs]
        call = ForeignCall(node.target, args, kwargs, hows, strides, given)
        chosen = {i: fakes[i] for i, _ in given}
        results = self._foreign_op(node, str(node.target), call, inputs, chosen)
        if isinstance(val, tuple | list):
            return [*results, *[None] * (len(fakes) - len(results))]
        return results[0] if results else None

    def _foreign_op(
        self,
        node: Node,
        target: str,
        call: ForeignCall,
        inputs: list[Value],
        fakes: dict[int, torch.Tensor],
    ) -> list[Value | None]:
        builder = OpBuilder(self.program, None)
        made = {
            index: Value(dtype=fake.dtype, shape=held(fake).shape, fake=fake, producer=node)
            for index, fake in fakes.items()
        }
        builder.foreign_call(target, lend(call, self.program), inputs, list(made.values()))
        results = [made.get(index) for index in range(max(made, default=-1) + 1)]
        self._finish(builder, node, results)
        return results

    # --- names

    def _finish(self, builder: OpBuilder, node: Node, results: Sequence[Value | None]) -> None:
        """Appends the ops that the node becomes."""
        wanted = {
            id(value): name
            for index, value in enumerate(results)
            if value is not None and (name := self._gradients.get((node, index)))
        }
        origins = self._origins
        made = [value for value in results if value is not None]
        main = builder.finish(origins.name(node), origins.maker(node), made, wanted)
        if main is not None:
            origins.note(node, main)

    def _unique(self, name: str) -> str:
        unique, number = name, 0
        while self.program._core.block_of_var(0, unique) >= 0:
            number += 1
            unique = f"{name}_{number}"
        return unique


def _used(node: Node) -> set[int]:
    """The indexes of the node's results that somebody reads."""
    val = node.meta.get("val")
    if not isinstance(val, tuple | list):
        return {0}
    if any(user.target is not operator.getitem for user in node.users):
        return set(range(len(val)))
    return {int(user.args[1]) for user in node.users}  # type: ignore[arg-type]


def _strides(value: Value) -> tuple[int, ...]:
    assert value.fake is not None
    return tuple(int(stride) for stride in value.fake.stride())
