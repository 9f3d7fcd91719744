"""The ops of a block as a graph, for all drawings: which op made the inputs of each op."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from opstep import _core
from opstep.program import Block, Operator


class Step(NamedTuple):
    """An op with the variables of its block that it reads and writes."""

    op: Operator
    fields: Mapping[str, Any]
    # With the id of the op that made it; None for a feed, a parameter or the like.
    inputs: Sequence[tuple[str, int | None]]
    outputs: Sequence[str]
    # The variables that the op's own blocks see, with the ops that made them.
    inside: Mapping[str, int]


def steps(block: Block, around: Mapping[str, int] | None = None) -> Iterator[Step]:
    """The ops in order; `around` has the variables from around the block, with their ops."""
    makers = dict(around or {})
    for op in block.ops:
        fields = block.program._core.op(op.id)
        inputs, outputs = (_names(block, fields[side]) for side in ("inputs", "outputs"))
        reads = [(name, makers.get(name)) for name in inputs]
        yield Step(op, fields, reads, outputs, makers | dict.fromkeys(inputs, op.id))
        makers |= dict.fromkeys(outputs, op.id)


def inner_blocks(op: Operator) -> list[Block]:
    """The blocks that the op runs: its attributes of type block or blocks."""
    kinds = {attr["name"]: attr["type"] for attr in _core.op(op.type)["attrs"]}
    indexes: list[int] = []
    for name, value in op.attrs.items():
        if kinds[name] == "block":
            indexes.append(value)
        elif kinds[name] == "blocks":
            indexes += value
    return [op.program.blocks[index] for index in indexes]


def _names(block: Block, slots: Mapping[str, Sequence[str]]) -> list[str]:
    """Variables that the block sees: an op that runs blocks also names some inside them."""
    return [name for names in slots.values() for name in names if block.has_var(name)]
