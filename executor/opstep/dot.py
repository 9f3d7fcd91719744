"""A program as a picture for Graphviz: `opstep show model --dot | dot -Tsvg > model.svg`."""

from __future__ import annotations

from collections.abc import Sequence

from opstep.program import Block, Operator, Program
from opstep.variable import Variable

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
        self._parameters: dict[str, str] = {}
        self._edges: list[str] = []

    def draw(self, fetches: Sequence[str]) -> str:
        writers: dict[str, str] = {}
        body = self._block(self._program.global_block(), writers, "  ")
        for number, name in enumerate(fetches):
            variable = self._program.global_block().var(name)
            node = f"fetch_{number}"
            body.append(f'  {node} [label="{quote(name)}" shape=ellipse fillcolor="{_FETCH}"];')
            self._edge(self._source(variable, writers), node, variable)
        nodes = [
            f'  {node} [label="{quote(name)}\\n{_type(self._program.global_block().var(name))}" '
            f'shape=ellipse fillcolor="{_PARAMETER}"];'
            for name, node in self._parameters.items()
        ]
        title = f'  label="program {quote(self._program.name)}";'
        lines = ["digraph program {", title, _HEAD.rstrip(), *nodes, *body, *self._edges, "}"]
        return "\n".join(lines) + "\n"

    def _block(self, block: Block, writers: dict[str, str], indent: str) -> list[str]:
        lines: list[str] = []
        for op in block.ops:
            fields = self._program._core.op(op.id)
            node = f"op_{op.id}"
            lines.append(f"{indent}{node} [{self._look(fields)}];")
            for names in fields["inputs"].values():
                # An op that runs blocks also names variables inside them.
                for name in filter(block.has_var, names):
                    variable = block.var(name)
                    self._edge(self._source(variable, writers), node, variable)
            for inner in self._inner_blocks(block, op, fields["attrs"]):
                lines.append(f"{indent}subgraph cluster_{inner.index} {{")
                style = 'style="rounded,filled" color="#b0b0b0" fillcolor="#f8f8f8" fontsize=11'
                lines.append(f'{indent}  label="block {inner.index} of {quote(op.name)}"; {style};')
                lines += self._block(inner, dict(writers), indent + "  ")
                lines.append(f"{indent}}}")
                if inner.ops:
                    first = f"op_{inner.ops[0].id}"
                    self._edges.append(f"  {node} -> {first} [style=dashed];")
            for names in fields["outputs"].values():
                for name in filter(block.has_var, names):
                    self._write(block.var(name), node, writers)
        return lines

    def _inner_blocks(self, block: Block, op: Operator, attrs: dict[str, object]) -> list[Block]:
        """The blocks that the op runs: its attributes of type block or blocks."""
        from opstep import _core

        kinds = {attr["name"]: attr["type"] for attr in _core.op(op.type)["attrs"]}
        indexes: list[object] = []
        for name, value in attrs.items():
            if kinds[name] == "block":
                indexes.append(value)
            elif kinds[name] == "blocks" and isinstance(value, list):
                indexes += value
        return [self._program.blocks[int(str(index))] for index in indexes]

    def _look(self, fields: dict[str, object]) -> str:
        kind, name = quote(str(fields["type"])), quote(str(fields["name"]))
        label = f"{kind}\\n{name}" if not str(fields["name"]).startswith(f"{kind}_") else name
        outputs = [n for names in fields["outputs"].values() for n in names]  # type: ignore[attr-defined]
        colour = _GRADIENT if fields["forward_op"] else _OP
        if outputs and outputs[0] in self._feeds:
            label, colour = quote(outputs[0]), _FEED
        stack = fields["stack"]
        where = f"{stack[0][0]}:{stack[0][1]}" if stack else ""  # type: ignore[index]
        return f'label="{label}" tooltip="{quote(where)}" fillcolor="{colour}"'

    def _source(self, variable: Variable, writers: dict[str, str]) -> str:
        """The node that a variable comes from: its latest writer, or itself when it is kept."""
        if variable.name in writers:
            return writers[variable.name]
        return self._parameters.setdefault(variable.name, f"kept_{len(self._parameters)}")

    def _write(self, variable: Variable, node: str, writers: dict[str, str]) -> None:
        if variable.name in self._parameters:
            # An update: drawn without a say in the layout, which would turn round otherwise.
            kept = self._parameters[variable.name]
            self._edges.append(f"  {node} -> {kept} [style=dashed constraint=false];")
        writers[variable.name] = node

    def _edge(self, source: str, target: str, variable: Variable) -> None:
        label = "" if source.startswith("kept_") else f' [label=" {_type(variable)}"]'
        tip = f' [tooltip="{quote(variable.name)}"]'
        self._edges.append(f"  {source} -> {target}{label}{tip};")


def _type(variable: Variable) -> str:
    sizes = ", ".join("?" if size is None else str(size) for size in variable.shape)
    return f"{variable.dtype}[{sizes}]"
