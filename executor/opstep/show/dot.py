"""A program as a picture for Graphviz: `opstep show model --dot | dot -Tsvg > model.svg`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from opstep import _core
from opstep.program import Block, Operator, Program
from opstep.variable import Variable, type_text

_FEED, _FETCH, _PARAMETER, _OP, _GRADIENT = "#d5e8f7", "#d9f0d3", "#fde8c8", "#ffffff", "#ececec"

_HEAD = """\
  rankdir=TB; nodesep=0.3; ranksep=0.4; labelloc=t; fontname="Helvetica"; fontsize=14;
  node [shape=box style="rounded,filled" fontname="Helvetica" fontsize=11 margin="0.12,0.06"];
  edge [fontname="Helvetica" fontsize=9 color="#707070" fontcolor="#505050" arrowsize=0.7];
"""


def dot(program: Program, fetches: Sequence[str] = ()) -> str:
    """Blocks are boxes, ops nodes, variables edges with their shapes; parameters are coloured."""
    return _Picture(program).draw(fetches)


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


def quote(text: str) -> str:
    """Text inside a label's quotes; nothing in it is taken as Graphviz's own."""
    printable = "".join(c if c.isprintable() else "?" for c in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')


class _Node(NamedTuple):
    id: str
    gradient: bool = False


class _Picture:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._feeds = set(program._core.feed_names())
        self._edges: list[str] = []

    def draw(self, fetches: Sequence[str]) -> str:
        writers: dict[str, _Node] = {}
        body = self._block(self._program.global_block(), writers, "  ")
        for number, name in enumerate(fetches):
            variable = self._program.global_block().var(name)
            node = _Node(f"fetch_{number}")
            body.append(f'  {node.id} [label="{quote(name)}" shape=ellipse fillcolor="{_FETCH}"];')
            if name in writers:
                self._edge(writers[name], node, variable)
        title = f'  label="program {quote(self._program.name)}";'
        lines = ["digraph program {", title, _HEAD.rstrip(), *body, *self._edges, "}"]
        return "\n".join(lines) + "\n"

    def _block(self, block: Block, writers: dict[str, _Node], indent: str) -> list[str]:
        lines: list[str] = []
        for op in block.ops:
            fields = self._program._core.op(op.id)
            node = _Node(f"op_{op.id}", gradient=bool(fields["forward_op"]))
            lines.append(f"{indent}{node.id} [{self._look(fields)}];")
            kept: dict[str, str] = {}
            inputs, outputs = (_names(block, fields[side]) for side in ("inputs", "outputs"))
            for name in inputs:
                variable = block.var(name)
                if name in writers:
                    self._edge(writers[name], node, variable)
                elif name not in kept:
                    # One for each reader: edges from far away would cover the picture.
                    kept[name] = f"{node.id}_{len(kept)}"
                    lines.append(f"{indent}{kept[name]} [{_kept(variable)}];")
                    self._edges.append(f"  {kept[name]} -> {node.id};")
            # What a block reads from around it comes through its op: so it stands below the op.
            through = writers | dict.fromkeys(inputs, node)
            for inner in inner_blocks(op):
                lines += self._cluster(op, node, inner, through, indent)
            for name in outputs:
                if name in kept:
                    self._edges.append(
                        f"  {node.id} -> {kept[name]} [style=dashed constraint=false];"
                    )
                elif name in writers or not block.var(name).persistable:
                    writers[name] = node
        return lines

    def _cluster(
        self, op: Operator, node: _Node, inner: Block, writers: dict[str, _Node], indent: str
    ) -> list[str]:
        style = 'style="rounded,filled" color="#b0b0b0" fillcolor="#f8f8f8" fontsize=11'
        if inner.ops:
            self._edges.append(f"  {node.id} -> op_{inner.ops[0].id} [style=dashed];")
        return [
            f"{indent}subgraph cluster_{inner.index} {{",
            f'{indent}  label="block {inner.index} of {quote(op.name)}"; {style};',
            *self._block(inner, dict(writers), indent + "  "),
            f"{indent}}}",
        ]

    def _look(self, fields: Mapping[str, Any]) -> str:
        kind, name = fields["type"], fields["name"]
        label = quote(name) if name.startswith(f"{kind}_") else f"{quote(kind)}\\n{quote(name)}"
        colour = _GRADIENT if fields["forward_op"] else _OP
        for names in fields["outputs"].values():
            if names[0] in self._feeds:
                label, colour = quote(names[0]), _FEED
        where = "{}:{}".format(*fields["stack"][0]) if fields["stack"] else ""
        return f'label="{label}" tooltip="{quote(where)}" fillcolor="{colour}"'

    def _edge(self, source: _Node, target: _Node, variable: Variable) -> None:
        look = f'label=" {type_text(variable)}" tooltip="{quote(variable.name)}"'
        # Forward and gradient ops are two strands; what goes across must not bend them.
        look += " weight=8" if source.gradient == target.gradient else ' weight=0 color="#c0c0c0"'
        self._edges.append(f"  {source.id} -> {target.id} [{look}];")


def _names(block: Block, slots: Mapping[str, Sequence[str]]) -> list[str]:
    """Variables that the block sees: an op that runs blocks also names some inside them."""
    return [name for names in slots.values() for name in names if block.has_var(name)]


def _kept(variable: Variable) -> str:
    label = f"{quote(variable.name)}\\n{type_text(variable)}"
    return f'label="{label}" shape=ellipse fillcolor="{_PARAMETER}"'
