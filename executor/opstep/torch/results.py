"""What a graph gives back: tensors of torch for values of its program, without copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from opstep.torch.graph_program import GraphProgram
from opstep.torch.memory import Held, held, is_dense
from opstep.torch.op_builder import Value

# From the arguments of a call and the fetched values.
Recipe = Callable[[Sequence[Any], Sequence[torch.Tensor]], Any]


class Results:
    """How each output of the graph follows from the arguments and the fetched values."""

    def __init__(self, made: GraphProgram, outputs: Sequence[Any]) -> None:
        self.fetches: list[str] = []
        self._made = made
        self._places: dict[str, int] = {}
        self._positions = {feed.name: feed.index for feed in made.feeds}
        self._recipes = [self._recipe(item) for item in outputs]
        # The usual case in inference: each output is a fetched value.
        self._direct = self._plain == list(range(len(outputs)))

    @property
    def _plain(self) -> list[int | None]:
        return [getattr(recipe, "place", None) for recipe in self._recipes]

    def __call__(self, args: Sequence[Any], fetched: list[torch.Tensor]) -> list[Any]:
        if self._direct:
            return fetched
        return [recipe(args, fetched) for recipe in self._recipes]

    def _recipe(self, item: Any) -> Recipe:
        if not isinstance(item, Node):
            return lambda args, fetched: item
        value = self._made.values[item]
        if not isinstance(value, Value):
            return lambda args, fetched: value
        base = _base(item)
        while not self._can_view(base, item):
            base = item
        if base is item:
            return self._whole(item)
        whole = self._whole(base)
        fake, under = item.meta["val"], base.meta["val"]
        size, stride = tuple(fake.shape), tuple(fake.stride())
        offset = fake.storage_offset() - under.storage_offset()
        if (size, stride, offset) == (tuple(under.shape), tuple(under.stride()), 0):
            return whole

        def view(args: Sequence[Any], fetched: Sequence[torch.Tensor]) -> torch.Tensor:
            tensor = whole(args, fetched)
            return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)

        return view

    def _can_view(self, base: Node, item: Node) -> bool:
        """Is the value of `base` in memory as torch would have it, so that `item` is a view?"""
        if base is item:
            return True
        if base.op == "placeholder":
            return base.meta["val"].dtype == item.meta["val"].dtype
        plain = held(base.meta["val"]).plain and held(item.meta["val"]).plain
        same = base.meta["val"].dtype == item.meta["val"].dtype
        return plain and same and is_dense(base.meta["val"])

    def _whole(self, node: Node) -> Recipe:
        if node.op == "placeholder":
            index = next(i for i, n in enumerate(self._made.placeholders) if n is node)
            return lambda args, fetched: args[index]
        value = self._made.materialise(self._made.values[node], node)
        fake = node.meta["val"]
        how = held(fake)
        if value.name in self._positions:
            # A copy of an input that must not share its memory.
            index = self._positions[value.name]
            return lambda args, fetched: _copy(args[index], fake)
        place = self._places.setdefault(value.name, len(self.fetches))
        if place == len(self.fetches):
            self.fetches.append(value.name)
        return _fetched(place, fake, how)


def _fetched(place: int, fake: torch.Tensor, how: Held) -> Recipe:
    stride = tuple(fake.stride())

    if how.plain and _has_strides(fake.shape, stride):

        def plain(args: Sequence[Any], fetched: Sequence[torch.Tensor]) -> torch.Tensor:
            return fetched[place]

        plain.place = place  # type: ignore[attr-defined]
        return plain

    def laid_out(args: Sequence[Any], fetched: Sequence[torch.Tensor]) -> torch.Tensor:
        tensor = how.to_torch(fetched[place])
        if _has_strides(how.shape, stride):
            return tensor
        return torch.empty_strided(how.shape, stride, dtype=how.dtype).copy_(tensor)

    return laid_out


def _copy(tensor: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype).copy_(tensor)


def _has_strides(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Are these the strides of a dense tensor, apart from axes where they mean nothing?"""
    dense, expected = True, 1
    for size, step in zip(reversed(shape), reversed(stride), strict=True):
        if size != 1 and step != expected:
            dense = False
        expected *= max(size, 1)
    return dense or 0 in shape


def _base(node: Node) -> Node:
    """The node whose memory this node's result is a view of; the node itself if it has its own."""
    while True:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None or len(schema.returns) != 1:
            return node
        alias = schema.returns[0].alias_info
        source = node.args[0] if node.args else None
        if alias is None or not isinstance(source, Node):
            return node
        if not isinstance(source.meta.get("val"), torch.Tensor):
            return node
        node = source
