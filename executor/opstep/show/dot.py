"""A program as a picture for Graphviz: `opstep show model --dot | dot -Tsvg > model.svg`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opstep.program import Block, Program
from opstep.show.block_steps import Step, inner_blocks, steps
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


def quote(text: str) -> str:
    """Text inside a label's quotes; nothing in it is taken as Graphviz's own."""
    printable = "".join(c if c.isprintable() else "?" for c in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')


class _Picture:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._feeds = set(program._core.feed_names())
        self._gradients: set[int] = set()
        self._edges: list[str] = []

    def draw(self, fetches: Sequence[str]) -> str:
        block = self._program.global_block()
        body = self._block(block, {}, "  ")
        makers = {name: step.op.id for step in steps(block) for name in step.outputs}
        for number, name in enumerate(fetches):
            node = f"fetch_{number}"
            body.append(f'  {node} [label="{quote(name)}" shape=ellipse fillcolor="{_FETCH}"];')
            if name in makers:
                self._edge(makers[name], node, block.var(name))
        title = f'  label="program {quote(self._program.name)}";'
        lines = ["digraph program {", title, _HEAD.rstrip(), *body, *self._edges, "}"]
        return "\n".join(lines) + "\n"

    def _block(self, block: Block, around: Mapping[str, int], indent: str) -> list[str]:
        lines: list[str] = []
        for step in steps(block, around):
            node, gradient = f"op_{step.op.id}", step.fields["gradient"]
            if gradient:
                self._gradients.add(step.op.id)
            lines.append(f"{indent}{node} [{self._look(step.fields)}];")
            kept: dict[str, str] = {}
            for name, maker in step.inputs:
                variable = block.var(name)
                if maker is not None:
                    self._edge(maker, node, variable, gradient)
                elif name not in kept:
                    # One for each reader: edges from far away would cover the picture.
                    kept[name] = f"{node}_{len(kept)}"
                    lines.append(f"{indent}{kept[name]} [{_kept(variable)}];")
                    self._edges.append(f"  {kept[name]} -> {node};")
            # A block reads outer variables through its op, so it is drawn below the op.
            for inner in inner_blocks(step.op):
                lines += self._cluster(step, inner, indent)
            for name in step.outputs:
                if name in kept:
                    self._edges.append(f"  {node} -> {kept[name]} [style=dashed constraint=false];")
        return lines

    def _cluster(self, step: Step, inner: Block, indent: str) -> list[str]:
        style = 'style="rounded,filled" color="#b0b0b0" fillcolor="#f8f8f8" fontsize=11'
        if inner.ops:
            self._edges.append(f"  op_{step.op.id} -> op_{inner.ops[0].id} [style=dashed];")
        return [
            f"{indent}subgraph cluster_{inner.index} {{",
            f'{indent}  label="block {inner.index} of {quote(step.op.name)}"; {style};',
            *self._block(inner, step.inside, indent + "  "),
            f"{indent}}}",
        ]

    def _look(self, fields: Mapping[str, Any]) -> str:
        kind, name = fields["type"], fields["name"]
        label = quote(name) if name.startswith(f"{kind}_") else f"{quote(kind)}\\n{quote(name)}"
        colour = _GRADIENT if fields["gradient"] else _OP
        for names in fields["outputs"].values():
            if names[0] in self._feeds:
                label, colour = quote(names[0]), _FEED
        where = "{}:{}".format(*fields["stack"][0]) if fields["stack"] else ""
        return f'label="{label}" tooltip="{quote(where)}" fillcolor="{colour}"'

    def _edge(self, maker: int, target: str, variable: Variable, gradient: bool = False) -> None:
        look = f'label=" {type_text(variable)}" tooltip="{quote(variable.name)}"'
        # Forward and gradient ops are two strands; edges across must not bend them.
        across = (maker in self._gradients) != gradient
        look += ' weight=0 color="#c0c0c0"' if across else " weight=8"
        self._edges.append(f"  op_{maker} -> {target} [{look}];")


def _kept(variable: Variable) -> str:
    label = f"{quote(variable.name)}\\n{type_text(variable)}"
    return f'label="{label}" shape=ellipse fillcolor="{_PARAMETER}"'
