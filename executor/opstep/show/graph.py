"""A small program as a picture: ops in layers, each below the ops whose results it takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from html import escape
from itertools import pairwise

from opstep.program import Block, Program
from opstep.show.block_steps import inner_blocks, steps
from opstep.show.canvas import svg, text
from opstep.show.tables import program_table
from opstep.variable import type_text

_OPS = 150  # a picture with more is not readable
_LAYER, _BOX, _GAP, _LETTER = 58, 34, 18, 6.4
_FEED, _GRADIENT, _OP = "#d5e8f7", "#e4e4e4", "#ffffff"
_PARAMETER = "#a05a00"

# An op's id, or a place that an arrow passes on its way: (from, to, layer).
_Node = int | tuple[int, int, int]


def draw(program: Program) -> str:
    """HTML: a picture for each block, or the table if there are too many ops."""
    if sum(len(block.ops) for block in program.blocks) > _OPS:
        hint = f"More than {_OPS} ops are not drawn here: opstep show --dot makes Graphviz's text."
        return f"<div>{escape(hint)}</div>{program_table(program)}"
    titles = {0: f"program {program.name}"}
    for op in (op for block in program.blocks for op in block.ops):
        titles |= {inner.index: f"block {inner.index} of {op.name}" for inner in inner_blocks(op)}
    pictures = [
        _Layers(block).picture(titles.get(block.index, f"block {block.index}"))
        for block in program.blocks
        if block.ops
    ]
    return f'<div style="overflow:auto;max-height:640px">{"".join(pictures)}</div>'


class _Layers:
    """The layout of one block."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._steps = {step.op.id: step for step in steps(block)}
        self._feeds = set(block.program._core.feed_names())
        self._arrows: dict[tuple[int, int], list[str]] = defaultdict(list)  # their variables
        self._kept: dict[int, list[str]] = {}  # inputs of an op that no op of the block made
        for op, step in self._steps.items():
            self._kept[op] = list(dict.fromkeys(n for n, maker in step.inputs if maker is None))
            for name, maker in step.inputs:
                if maker is not None:
                    self._arrows[maker, op].append(name)
        layer: dict[int, int] = {}
        for op in self._steps:
            layer[op] = 1 + max((layer[a] for a, b in self._arrows if b == op), default=-1)
        self._chains: dict[tuple[int, int], list[_Node]] = {
            (a, b): [a, *((a, b, n) for n in range(layer[a] + 1, layer[b])), b]
            for a, b in self._arrows
        }
        self._layers: list[list[_Node]] = [[] for _ in range(max(layer.values()) + 1)]
        for op, number in layer.items():
            self._layers[number].append(op)
        self._beside: dict[_Node, list[_Node]] = defaultdict(list)
        for (a, _), chain in self._chains.items():
            for n, node in enumerate(chain[1:-1], layer[a] + 1):
                self._layers[n].append(node)
            for one, next_ in pairwise(chain):
                self._beside[one].append(next_)
                self._beside[next_].append(one)
        self._x = self._places()

    def _places(self) -> dict[_Node, float]:
        """Each node near those that it is tied to, in an order in which few arrows cross."""
        x = {node: float(i) for layer in self._layers for i, node in enumerate(layer)}
        for sweep in range(24):
            for layer in self._layers if sweep % 2 == 0 else reversed(self._layers):
                wish = {}
                for node in layer:
                    near = [x[other] for other in self._beside[node]]
                    wish[node] = sum(near) / len(near) if near else x[node]
                layer.sort(key=lambda node: wish[node])
                self._spread(layer, wish, x)
        least = min(x[node] - self._width(node) / 2 for node in x)
        return {node: place - least + _GAP for node, place in x.items()}

    def _spread(
        self, layer: list[_Node], wish: Mapping[_Node, float], x: dict[_Node, float]
    ) -> None:
        """As near to the wished places as possible: pushed right, then all moved back together."""
        edge = float("-inf")
        for node in layer:
            half = self._width(node) / 2
            x[node] = max(wish[node], edge + half)
            edge = x[node] + half + _GAP
        back = sum(x[node] - wish[node] for node in layer) / len(layer)
        for node in layer:
            x[node] -= back

    def _width(self, node: _Node) -> float:
        if isinstance(node, tuple):
            return 4.0
        return max(len(row) for row in self._rows(node)) * _LETTER + 14

    def _rows(self, op: int) -> list[str]:
        step = self._steps[op]
        fed = [name for name in step.outputs if name in self._feeds]
        kept = ", ".join(self._kept[op])
        return [
            fed[0] if fed else step.fields["name"],
            kept if len(kept) < 40 else f"{kept[:38]} …",
        ]

    def picture(self, title: str) -> str:
        parts = [self._arrow(a, b, names) for (a, b), names in self._arrows.items()]
        parts += [self._box(op) for op in self._steps]
        width = max(self._x[op] + self._width(op) / 2 for op in self._x) + _GAP
        height = len(self._layers) * _LAYER + 24
        parts.append(text(_GAP, 14, title, more=' font-weight="bold"'))
        picture = svg(width, height, parts, f"graph of {title}")
        # Scrolled, not shrunk: its text must stay readable.
        return "<div>" + picture.replace("max-width:100%;height:auto", "max-width:none") + "</div>"

    def _y(self, layer: int) -> float:
        return 28 + layer * _LAYER

    def _box(self, op: int) -> str:
        fields, width = self._steps[op].fields, self._width(op)
        number = next(n for n, layer in enumerate(self._layers) if op in layer)
        x, y = self._x[op], self._y(number)
        name, kept = self._rows(op)
        colour = _FEED if name in self._feeds else _GRADIENT if fields["gradient"] else _OP
        outputs = self._steps[op].outputs
        types = ", ".join(f"{n} {type_text(self._block.var(n))}" for n in outputs)
        shown = f"#{op} {fields['type']} → {types}"
        rows = [text(x, y + (14 if kept else 21), name, "middle", ' style="fill:#202020"')]
        if kept:
            look = f' font-size="10" style="fill:{_PARAMETER}"'
            rows.append(text(x, y + 27, kept, "middle", look))
        return (
            f"<g><title>{escape(shown)}</title>"
            f'<rect x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_BOX}" rx="6" '
            f'fill="{colour}" stroke="#808080"/>{"".join(rows)}</g>'
        )

    def _arrow(self, a: int, b: int, names: list[str]) -> str:
        first = next(n for n, layer in enumerate(self._layers) if a in layer)
        chain = self._chains[a, b]
        x, y = self._x[a], self._y(first) + _BOX
        path = [f"M{x:.1f} {y:.1f}"]
        for n, node in enumerate(chain[1:], first + 1):
            to_x, to_y = self._x[node], self._y(n)
            middle = (y + to_y) / 2
            path.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
            if node != b:  # past the boxes of the layer
                path.append(f"v{_BOX}")
            x, y = to_x, to_y + _BOX
        tip = f"M{self._x[b] - 3.5:.1f} {y - _BOX - 6:.1f}l3.5 6l3.5 -6"
        return (
            f"<g><title>{escape(', '.join(names))}</title>"
            f'<path d="{"".join(path)}{tip}" fill="none" stroke="#909090" stroke-width="1.2"/></g>'
        )
