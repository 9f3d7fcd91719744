"""What a notebook shows: tables that any HTML parser reads, with names escaped."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
from conftest import World

import opstep
from opstep import layers


class Table(HTMLParser):
    """The caption and the cells; every tag must be closed by its own end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.caption, self.rows, self._open = "", [], []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag in ("table", "caption", "tr", "th", "td"), tag
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["caption"]:
            self.caption += data
        elif self._open[-1:] in (["th"], ["td"]):
            self.rows[-1][-1] += data


def test_a_program(world: World) -> None:
    x = layers.data("x", shape=[None, 2])
    layers.fc(x, size=3, name="<b>bold</b>")
    table = Table(world.main._repr_html_())
    assert table.caption == "program main: 3 ops"
    assert table.rows[0] == ["#", "op", "takes", "gives", "line"]
    number, op, takes, gives, line = table.rows[2]
    assert (number, op, takes) == ("2", "<b>bold</b>.matmul", "x, <b>bold</b>.w")
    assert gives == "<b>bold</b>.matmul.out float32[?, 3]"
    assert line.startswith("test_tables.py:")


def test_blocks_and_long_programs(world: World) -> None:
    x = layers.data("x", shape=[2])
    layers.cond(layers.mean(x) > 0, lambda: x * 2, lambda: x * 3)
    table = Table(world.main._repr_html_())
    assert len(table.rows) - 1 == sum(len(block.ops) for block in world.main.blocks)
    assert {"block 1: ", "block 2: "} == {row[1][:9] for row in table.rows if ":" in row[1]}
    for _ in range(300):
        x = x + x
    table = Table(world.main._repr_html_())
    assert table.caption.endswith(", of which 200 are shown") and len(table.rows) == 201


def test_a_model_and_its_parameters(world: World) -> None:
    x = layers.data("x", shape=[None, 2])
    model = opstep.model_of(layers.batch_norm(layers.fc(x, size=3)))
    world.scope.set("fc_0.w", np.array([[1, 2, 3], [4, 5, 9]], np.float32))
    table = Table(model._repr_html_())
    assert table.caption == f"model {model.name}"
    assert table.rows[1] == ["fed", "x", "float32[?, 2]", ""]
    assert table.rows[2] == [
        *("parameter", "fc_0.w", "float32[2, 3]", "mean 4 std 2.582 [1, 9]"),
    ]
    assert [row[0] for row in table.rows[3:]] == [*["parameter"] * 3, "kept", "kept", "output"]


def test_variables(world: World) -> None:
    x = layers.data("x", shape=[None, 2])
    out = layers.fc(x, size=1)
    made = dict(Table(out._repr_html_()).rows)
    assert made["type"] == "float32[?, 1]" and made["made by"] == "#3 fc_0.add (add)"
    weight = world.main.global_block().var("fc_0.w")
    assert "value" not in dict(Table(weight._repr_html_()).rows)  # there is none yet
    world.scope.set("fc_0.w", np.array([[np.inf], [1]], np.float32))
    world.scope.set("fc_0.b", np.array([0.5], np.float32))
    table = Table(weight._repr_html_())
    assert table.caption == "parameter fc_0.w"
    assert dict(table.rows)["value"] == "mean inf std nan [1, inf]"
    bias = world.main.global_block().var("fc_0.b")
    assert dict(Table(bias._repr_html_()).rows)["value"] == "0.5"
